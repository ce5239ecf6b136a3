"""What a signal's handler raises belongs to the program.

It comes between any two bytecodes, so also out of code of ours, where it must
not pass for a failure of ours: a time limit by alarm would be lost.
"""

from __future__ import annotations

import signal
from functools import partial
from types import (
    CodeType,
    FunctionType,
    MethodType,
    TracebackType,
)

from .errors import in_words


def is_from_handler(error: BaseException) -> bool:
    """Whether one of the handlers that are installed raised it."""
    handlers = {
        code
        for number in signal.valid_signals()
        if (code := _code_of(signal.getsignal(number))) is not None
    }
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at = at.tb_next
    return False


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
        if not isinstance(error, Exception) or is_from_handler(error):
            return False
        self.error = error
        return True
