"""What a process is, read from /proc: whether it can be watched at all.

Each refusal is one line that says what to do; nothing has been touched then.
"""

from __future__ import annotations

import os
import re
import sys

from ..base.errors import ImpactArbiterError
from ..base.files import kernel_file, stat_fields
from ..base.records import dataclass

#: torch's own extension module names the Python that has loaded it.
_TORCH = re.compile(r"/torch/_C\.cpython-(\d)(\d+)(t?)[.-]")
#: What the others load that are watched.
_OTHERS = re.compile(
    r"/jaxlib/[^/]+\.so$|/tensorflow/python/_pywrap_tensorflow[^/]*\.so$"
)
_EXTENSION = re.compile(r"\.cpython-(\d)(\d+)(t?)[.-][^/]*\.so")
_PYTHON = re.compile(r"/(?:lib)?python(\d)(?:\.(\d+))?[^/]*$")
#: Our core where its file was replaced since it was loaded.
_REPLACED = re.compile(r"/impactarbiter/_core\..*\.so \(deleted\)$")


class AttachError(ImpactArbiterError):
    """A process that cannot be watched from outside."""


@dataclass(frozen=True)
class Target:
    """A process by number and birth: the number may come again."""

    pid: int
    born: str

    @property
    def alive(self) -> bool:
        """Whether it is still there; a zombie is not."""
        stat = _stat(self.pid)
        return stat is not None and stat[1] == self.born and stat[0] != "Z"


def find(pid: int) -> Target:
    """The process, where it can be watched; AttachError where it cannot."""
    stat = _stat(pid)
    if stat is None or stat[0] == "Z":
        raise AttachError(
            f"there is no process {pid}: expected the number of one that"
            " runs, as `pgrep -a python` lists them"
        )
    if pid == os.getpid():
        raise AttachError(f"process {pid} is this command itself")
    target = Target(pid, stat[1])
    _check_owner(pid)
    _check_state(pid, stat[0])
    _check_python(pid, _maps(pid))
    return target


def _stat(pid: int) -> tuple[str, str] | None:
    """(state, start time), None where there is no such process."""
    try:
        fields = stat_fields(pid)
    except (OSError, ValueError):
        return None
    return fields[0], fields[19]


def status_of(pid: int, name: str) -> str:
    """One line of /proc/PID/status, "" where there is none."""
    try:
        with kernel_file(pid, "status") as stream:
            for line in stream:
                if line.startswith(name + ":"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def _check_owner(pid: int) -> None:
    users = status_of(pid, "Uid").split()
    if users and any(int(user) != os.geteuid() for user in users[:3]):
        raise AttachError(
            f"process {pid} belongs to user {users[0]}: run this command as"
            f" that user (sudo -u '#{users[0]}' ...)"
        )


def tracer_of(pid: int) -> str | None:
    """The process that traces this one, if one does."""
    tracer = status_of(pid, "TracerPid")
    return None if tracer in ("", "0") else tracer


def check_tracer(pid: int) -> None:
    """AttachError where another process traces this one."""
    tracer = tracer_of(pid)
    if tracer is not None:
        raise AttachError(
            f"process {pid} is traced by process {tracer} already, a debugger"
            " or strace: end that first"
        )


def _check_state(pid: int, state: str) -> None:
    check_tracer(pid)
    if state in "Tt":
        raise AttachError(
            f"process {pid} is stopped: let it go on first (kill -CONT {pid})"
        )


def _maps(pid: int) -> list[str]:
    """Files that the process has in memory."""
    try:
        with kernel_file(pid, "maps") as stream:
            lines = stream.read().splitlines()
    except PermissionError:
        raise AttachError(forbidden(pid)) from None
    except OSError:
        raise AttachError(f"process {pid} has just ended") from None
    files = (line.split(maxsplit=5) for line in lines)
    return sorted({fields[5] for fields in files if len(fields) > 5})


def _check_python(pid: int, files: list[str]) -> None:
    extension = _first(_EXTENSION, files)
    if extension is None and _first(_PYTHON, files) is None:
        raise AttachError(
            f"process {pid} is no Python program: expected one that runs"
            " PyTorch, JAX or TensorFlow"
        )
    torch = _first(_TORCH, files)
    found = torch or extension
    if found is not None and _version(found) != _ours():
        raise AttachError(
            f"process {pid} runs Python {_version(found)}, this command"
            f" Python {_ours()}: install impactarbiter into that one and use"
            " its own command"
        )
    if torch is None and _first(_OTHERS, files) is None:
        raise AttachError(
            f"process {pid} has not imported torch, JAX or TensorFlow (yet):"
            " there is nothing to watch in it"
        )
    if any(_REPLACED.search(file) for file in files):
        raise AttachError(
            f"process {pid} has loaded another build of impactarbiter, which"
            " was replaced since: start the process anew"
        )


def _first(pattern: re.Pattern[str], files: list[str]) -> re.Match[str] | None:
    return next(filter(None, map(pattern.search, files)), None)


def _version(found: re.Match[str]) -> str:
    return f"{found[1]}.{found[2]}{found[3]}"


def _ours() -> str:
    return "{}.{}".format(*sys.version_info[:2])


def forbidden(pid: int) -> str:
    """Why ptrace is not allowed here, with the setting that allows it."""
    said = f"this system forbids looking into process {pid}: "
    scope = _scope()
    if scope >= 3:
        return said + (
            "kernel.yama.ptrace_scope is 3 and stays so until a reboot: start"
            " the program with `impactarbiter run` instead"
        )
    if scope == 2 or (scope == 1 and os.geteuid() == 0):
        return said + (
            f"kernel.yama.ptrace_scope is {scope}: this command needs"
            " CAP_SYS_PTRACE (root, or docker run --cap-add SYS_PTRACE)"
        )
    if scope == 1:
        return said + (
            "kernel.yama.ptrace_scope is 1: allow it with `sudo sysctl"
            " kernel.yama.ptrace_scope=0`, or run this command as root"
        )
    return said + (
        "in a container start it with --cap-add SYS_PTRACE (Kubernetes:"
        " securityContext.capabilities.add), and the process must not have"
        " asked to be left alone (PR_SET_DUMPABLE)"
    )


def may_trace() -> str:
    """What this system allows of ``attach``, in words."""
    scope = _scope()
    if scope == 0 or (scope < 3 and os.geteuid() == 0):
        return f"allowed to this user (kernel.yama.ptrace_scope is {scope})"
    if scope == 1:
        return (
            "forbidden but for child processes: sudo sysctl"
            " kernel.yama.ptrace_scope=0, or run it as root"
        )
    return f"forbidden by kernel.yama.ptrace_scope, which is {scope}"


def _scope() -> int:
    """Yama's setting; 0 where there is none."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as stream:
            return int(stream.read())
    except (OSError, ValueError):
        return 0
