"""Calls below a program that plain Python would not have made.

A program that recurses as deep as it may, or that lowers the limit, is to meet
the end where it would without us.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

#: Python 3.11 bounds calls of C functions together with Python's.
_COUNTS_C = sys.version_info < (3, 12)
#: Calls that a report may be deep in: Python's own limit.
_DEEP_ENOUGH = 1000


class Room:
    """In it this thread may make the calls that a report takes, however few
    the program has left, or allows.

    What it needs is imported where it is made, not where it is entered.
    """

    def __init__(self) -> None:
        self._lend: Callable[[int], None] | None = None
        try:
            from .. import _core
        except ImportError:
            return  # nothing is watched, nor reported
        self._lend = _core.lend_calls

    def __enter__(self) -> None:
        if self._lend is not None:
            self._lend(_DEEP_ENOUGH)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lend is not None:
            self._lend(-_DEEP_ENOUGH)


class FromTheBottom:
    """In it the calls until here don't count, nor does the one of a C function
    that is made then, where it is ``by_c`` that the program is run.

    ``sys.setrecursionlimit()`` keeps what it has lent.
    """

    def __init__(self, *, by_c: bool) -> None:
        self._by_c = by_c
        self._lent = 0

    def __enter__(self) -> None:
        try:
            from .. import _core  # with NumPy: other commands do without
        except ImportError:
            return  # nothing is watched, nor measured
        here = _core.depth_of_calls() - 1 - _COUNTS_C
        self._lent = here + (self._by_c and _COUNTS_C)
        _core.lend_calls(self._lent)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lent:
            from .. import _core

            _core.lend_calls(-self._lent)
