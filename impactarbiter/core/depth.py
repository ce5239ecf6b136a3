"""Calls below a program that plain Python would not have made.

A program that recurses as deep as it may, or that lowers the limit, is to meet
the end where it would without us.
"""

from __future__ import annotations

import sys
from types import ModuleType, TracebackType

#: Python 3.11 bounds calls of C functions together with Python's.
_COUNTS_C = sys.version_info < (3, 12)
#: Calls that a report may be deep in: Python's own limit.
_DEEP_ENOUGH = 1000


def _built() -> ModuleType | None:
    """What lends calls, with NumPy, which other commands do without; None:
    nothing is watched, nor reported."""
    try:
        from .. import _core
    except ImportError:
        return None
    return _core


class Room:
    """In it this thread may make the calls that a report takes, however few
    the program has left, or allows.

    What it needs is imported where it is made, not where it is entered.
    """

    def __init__(self) -> None:
        self._core = _built()

    def __enter__(self) -> None:
        if self._core is not None:
            self._core.lend_calls(_DEEP_ENOUGH)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._core is not None:
            self._core.lend_calls(-_DEEP_ENOUGH)


class FromTheBottom:
    """In it the calls until here don't count, nor does the one of a C function
    that is made then, where it is ``by_c`` that the program is run.

    ``sys.setrecursionlimit()`` keeps what it has lent.
    """

    def __init__(self, *, by_c: bool) -> None:
        self._by_c = by_c
        self._core = _built()
        self._lent = 0

    def __enter__(self) -> None:
        if self._core is None:
            return
        here = self._core.depth_of_calls() - 1 - _COUNTS_C
        self._lent = here + (self._by_c and _COUNTS_C)
        self._core.lend_calls(self._lent)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._core is not None:
            self._core.lend_calls(-self._lent)
