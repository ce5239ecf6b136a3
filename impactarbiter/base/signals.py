"""What a signal's handler raises belongs to the program.

It comes between any two bytecodes, so also out of code of ours, where it must
not pass for a failure of ours: a time limit by alarm would be lost.  So does
what another thread raises in this one (``PyThreadState_SetAsyncExc``), as
limits of time do that need no signal.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from opcode import opmap
from types import (
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    TracebackType,
)

from .errors import in_words

#: Modules whose code looks run, and whose exceptions may come of that.
_LIBRARIES = sys.stdlib_module_names | {
    __name__.partition(".")[0],
    "jax",
    "jaxlib",
    "numpy",
    "tensorflow",
    "torch",
}
#: Raise nothing by themselves: handlers and other threads do, there.
_PAUSES = frozenset(
    opmap[name] for name in ("RESUME", "JUMP_BACKWARD") if name in opmap
)
#: What is raised at these may be a function's of C, or come once it is over.
_CALLS = frozenset(
    opmap[name]
    for name in ("PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX")
    if name in opmap
)
#: But for these.
_SHORTAGES = (MemoryError, RecursionError)
#: Functions of C raise these without a word.
_AT_AN_END = (StopIteration, StopAsyncIteration)
#: Of any exception, whatever its class has by that name.
_ARGS = BaseException.args.__get__  # type: ignore[attr-defined]
#: A code's flag: its variables are in slots, as a function's are
#: (``inspect.CO_OPTIMIZED``).
_OF_FUNCTION = 0x1
#: Another: it has a parameter such as ``*args`` (``inspect.CO_VARARGS``).
_TAKES_MORE = 0x4


def is_programs(error: BaseException) -> bool:
    """Whether a handler of signals raised it, or another thread.

    What another thread raises is known by the instruction that it came at,
    or as a class of the program's that came where no code of its ran.
    """
    entries = list(_entries(error.__traceback__))
    if not entries or isinstance(error, _SHORTAGES):
        return _is_from_handler(entries)
    return (
        _is_from_handler(entries)
        or _came_from_aside(entries[-1], error)
        or not (
            _is_of_libraries(type(error).__module__)
            or any(map(_is_of_program, entries))
        )
    )


def _entries(at: TracebackType | None) -> Iterator[TracebackType]:
    while at is not None:
        yield at
        at = at.tb_next


def _is_from_handler(entries: list[TracebackType]) -> bool:
    """Whether one of the handlers that are installed raised it, or one that is
    no more: it was given the frame that it came into."""
    handlers = {
        code
        for number in signal.valid_signals()
        if (code := _code_of(signal.getsignal(number))) is not None
    }
    return any(at.tb_frame.f_code in handlers for at in entries) or any(
        _was_given(at.tb_frame, before.tb_frame)
        for before, at in pairwise(entries)
    )


def _was_given(called: FrameType, frame: FrameType) -> bool:
    """Whether a function was called with the number of a signal and the frame
    that it came into, as nobody but the interpreter calls one."""
    code = called.f_code
    if not code.co_flags & _OF_FUNCTION:
        return False  # its names are in a mapping of who knows whose
    names, values = code.co_varnames, called.f_locals
    given = [values.get(name) for name in names[: code.co_argcount]]
    if code.co_flags & _TAKES_MORE:
        rest = names[code.co_argcount + code.co_kwonlyargcount]
        more = values.get(rest)
        given += more if type(more) is tuple else ()
    return any(
        type(number) is int and at is frame for number, at in pairwise(given)
    )


def _came_from_aside(last: TracebackType, error: BaseException) -> bool:
    """Whether it came at an instruction that raises nothing by itself; or at
    a call, and without arguments: another thread can give a class alone, and
    functions of C that raise one of Python's own say what is wrong."""
    code, at = last.tb_frame.f_code.co_code, last.tb_lasti
    op = code[at] if 0 <= at < len(code) else None
    bare = type(error).__module__ == "builtins" and not _ARGS(error)
    return op in _PAUSES or (
        op in _CALLS and bare and not isinstance(error, _AT_AN_END)
    )


def _is_of_program(at: TracebackType) -> bool:
    return not _is_of_libraries(at.tb_frame.f_globals.get("__name__"))


def _is_of_libraries(module: object) -> bool:
    """By its name; what has none is nobody's."""
    return type(module) is not str or module.partition(".")[0] in _LIBRARIES


def _code_of(handler: object) -> CodeType | None:
    """What runs when it is called; None for no handler, or one of C."""
    while isinstance(handler, partial):
        handler = handler.func
    if isinstance(handler, MethodType):
        handler = handler.__func__
    if not isinstance(handler, FunctionType):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004
    return handler.__code__ if isinstance(handler, FunctionType) else None


class Tolerated:
    """Goes on after an exception, unless it is the program's.

    ``error`` is then what was raised.
    """

    error: Exception | None = None

    @property
    def said(self) -> str:
        """The error in words; empty where nothing was raised."""
        return "" if self.error is None else in_words(self.error)

    def __enter__(self) -> Tolerated:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or is_programs(error):
            return False
        self.error = error
        return True
