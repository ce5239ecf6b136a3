"""The way into a process: a small library is loaded into it by ptrace.

The main thread is stopped for that, wherever it is.  Loading a library there
needs malloc and the loader, which a thread may be in the middle of: so it is
let go and stopped again until it is outside of libc, or asleep in a system
call that neither makes for itself.  Python is never called on that thread; see
src/door/door.c.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, perf_counter, sleep
from typing import Any

from ..base.errors import MissingExtraError
from ..base.files import kernel_file
from .target import AttachError, Target, check_tracer, forbidden, tracer_of

#: Seconds until a main thread that is always inside of libc is given up on,
#: and between two tries.
PATIENCE = 10.0
PAUSE = 0.003
#: Refusals in a row that no other tracer accounts for.
TRIES = 3
#: Libraries that a thread must not be in: they have locks and half-made state
#: that loading needs.
_UNSAFE = re.compile(
    r"/(?:libc[.-]|ld-|ld\.so|libpthread|libdl|[^/]*malloc|[^/]*musl)[^/]*$"
)
#: Those of them that it must not be in asleep either: the loader reads a file
#: while it has a library half loaded.
_UNSAFE_ASLEEP = re.compile(r"/(?:ld-|ld\.so|[^/]*malloc)[^/]*$")
#: System calls that a thread sleeps in which holds nothing of libc's: reads,
#: writes, waits.  fork() makes others, and malloc, with their locks in hand.
_SLEEPS = {
    "x86_64": {
        *(0, 1, 7, 16, 17, 18, 19, 20, 23, 24, 34, 35, 40, 42, 43, 44, 45),
        *(46, 47, 61, 65, 70, 72, 73, 74, 128, 130, 202, 208, 219, 220, 230),
        *(232, 243, 247, 270, 271, 281, 288, 295, 296, 299, 441),
    },
    "aarch64": {
        *(4, 22, 25, 29, 32, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 82),
        *(95, 98, 101, 115, 124, 128, 133, 137, 183, 188, 192, 202, 203, 206),
        *(207, 211, 212, 242, 243, 260, 441),
    },
}
_FUTEX = {"x86_64": 202, "aarch64": 98}
#: <linux/futex.h>: what condition variables, semaphores and joins wait by,
#: but no lock of libc's, and its flags.
_WAIT_BITSET, _FUTEX_FLAGS = 9, 0x180
#: <sys/ptrace.h> and <elf.h>: sets of registers, floats and vectors among
#: them, and room for AMX's tiles and whatever else comes.
_GETREGSET, _SETREGSET = 0x4204, 0x4205
_FLOATS = 2
_VECTORS = {"x86_64": 0x202, "aarch64": 2}
_MOST_STATE = 1 << 16
#: <linux/ptrace.h>, the size of a set of signals, and those that say what
#: the code does itself: a breakpoint is how we are told of its end.
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
_SIGMASK_SIZE = 8
_OF_ITS_CODE = {
    signal.SIGTRAP,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGSYS,
}
#: What pyinjector says where ptrace is refused.
_FORBIDDEN = -8
#: And where a signal came before the one that is to stop the process.
_STOPPED_BY = re.compile(r"injector_attach: .*stopped by signal (\d+)")


def check() -> None:
    """Raises MissingExtraError where the way in is not installed."""
    try:
        import pyinjector  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyinjector", "attach", "attach") from None


def load(target: Target, library: str) -> tuple[int, float]:
    """Loads a library; its handle there, and the seconds of the pause."""
    with _stopped_safely(target) as injector:
        began = perf_counter()
        handle: int = injector.inject(os.fsencode(library))
        took = perf_counter() - began
    return handle, took


def unload(target: Target, handle: int) -> None:
    """Takes it out again; where that is impossible it stays, idle."""
    try:
        with _stopped_safely(target) as injector:
            injector.uninject(handle)
    except AttachError:
        return


@contextmanager
def _stopped_safely(target: Target) -> Iterator[Any]:
    """The main thread, stopped where a library may be loaded."""
    from pyinjector import PyInjectorError

    pid = target.pid
    give_up = monotonic() + PATIENCE
    try:
        while monotonic() < give_up:
            unsafe = _unsafe_code(pid)
            with _undisturbed(), ExitStack() as stack:
                injector = _attached(stack, pid)
                if injector is not None and _is_safe(pid, unsafe):
                    with _vectors_kept(pid), _signals_held(pid):
                        yield injector
                    return
            sleep(PAUSE)
    except PyInjectorError as error:
        raise AttachError(_reason(target, error)) from None
    check_tracer(pid)
    raise AttachError(
        f"the main thread of process {pid} was inside of libc, or got a signal"
        " (of a timer?), whenever it was looked at: try again, or start the"
        " program with `impactarbiter run`"
    )


def _attached(stack: ExitStack, pid: int) -> Any:
    """Who loads; None where another one traces the process for now, or a
    signal came first: that goes on its way, and it is tried anew.

    The former looks like a prohibition, and may be over when we look.
    """
    from pyinjector import PyInjectorError
    from pyinjector.api import attach

    for left in reversed(range(TRIES)):
        try:
            return stack.enter_context(attach(pid))
        except PyInjectorError as error:
            came = _STOPPED_BY.search(str(error))
            if came is not None:
                number = int(came[1])
                if number not in _OF_ITS_CODE:
                    with suppress(OSError):
                        os.kill(pid, number)
                return None
            if tracer_of(pid) is not None and _is_refusal(error):
                return None
            if not left or not _is_refusal(error):
                raise
        sleep(PAUSE)
    raise AssertionError("the last try raises")


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "ret_val", 0) == _FORBIDDEN


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No signal ends us while the other one stands still in our code."""
    every = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, every)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Buffer(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


@contextmanager
def _vectors_kept(pid: int) -> Iterator[None]:
    """pyinjector puts back the general registers alone.

    Code that is stopped between two instructions has values in the others.
    """
    held = ctypes.create_string_buffer(_MOST_STATE)
    state = _Buffer(ctypes.addressof(held), len(held))
    kind = _VECTORS.get(platform.machine(), _FLOATS)
    ptrace = _ptrace()
    if ptrace(_GETREGSET, pid, kind, ctypes.byref(state)) != 0:
        raise AttachError(
            f"the registers of process {pid} cannot be read:"
            f" {os.strerror(ctypes.get_errno())}"
        )
    try:
        yield
    finally:
        ptrace(_SETREGSET, pid, kind, ctypes.byref(state))


@contextmanager
def _signals_held(pid: int) -> Iterator[None]:
    """A signal, as of a timer, would break off what the thread does for us:
    it waits until that is over."""
    ptrace = _ptrace()
    before = ctypes.c_uint64()
    if ptrace(_GETSIGMASK, pid, _SIGMASK_SIZE, ctypes.byref(before)) != 0:
        yield  # a kernel without it
        return
    held = ~sum(1 << (number - 1) for number in _OF_ITS_CODE)
    mask = ctypes.c_uint64(before.value | held)
    ptrace(_SETSIGMASK, pid, _SIGMASK_SIZE, ctypes.byref(mask))
    try:
        yield
    finally:
        ptrace(_SETSIGMASK, pid, _SIGMASK_SIZE, ctypes.byref(before))


def _ptrace() -> Any:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 3]
    return call


@dataclass(frozen=True)
class _Code:
    """Addresses of a library that the thread must not be in."""

    first: int
    end: int
    asleep: bool  # nor be asleep in


def _unsafe_code(pid: int) -> list[_Code]:
    try:
        with kernel_file(pid, "maps") as stream:
            lines = [line.split(maxsplit=5) for line in stream]
    except OSError:
        raise AttachError(f"process {pid} has just ended") from None
    found = []
    for fields in lines:
        file = fields[5].strip() if len(fields) == 6 else ""
        if "x" in fields[1] and _UNSAFE.search(file):
            first, _, end = fields[0].partition("-")
            asleep = _UNSAFE_ASLEEP.search(file) is not None
            found.append(_Code(int(first, 16), int(end, 16), asleep))
    return found


def _is_safe(pid: int, unsafe: list[_Code]) -> bool:
    """Whether the stopped thread holds nothing that loading needs."""
    try:
        with kernel_file(pid, "syscall") as stream:
            fields = stream.read().split()
    except OSError:
        raise AttachError(forbidden(pid)) from None
    if len(fields) < 3:
        return False  # runs: it is not stopped yet
    number, pc = int(fields[0]), int(fields[-1], 16)
    within = [code for code in unsafe if code.first <= pc < code.end]
    if number < 0:
        return not within
    machine = platform.machine()
    if number not in _SLEEPS.get(machine, ()):
        return False
    if within and number == _FUTEX[machine]:
        return int(fields[2], 16) & ~_FUTEX_FLAGS == _WAIT_BITSET
    return not any(code.asleep for code in within)


def _reason(target: Target, error: Exception) -> str:
    if not target.alive:
        return f"process {target.pid} ended meanwhile"
    if _is_refusal(error):
        return forbidden(target.pid)
    said = str(error).replace(os.linesep, " ")
    return f"process {target.pid} let nothing in: {said}"
