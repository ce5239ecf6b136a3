"""What a look has seen is taken in as a whole, or not at all.

A signal's handler raises in the middle of one, or its stack or memory ends:
what is known of holders is what was known before it, and the next look comes
as if there had been none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.records import dataclass
from ..core import heap
from .holders.known import KnownHolders
from .watch import StatementWatch


@dataclass
class Whole:
    """Between its begin and its end all that is known changes, or nothing."""

    known: KnownHolders
    watch: StatementWatch
    #: What brings back what was known; nothing where there is nothing to.
    _before: Sequence[Callable[[], None]] = ()

    def __enter__(self) -> None:
        self._bring_back()  # of one whose end was cut short as well
        self._before = self.known.as_known(), self.watch.as_begun()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self._before = ()
        self._bring_back()
        histories = self.known.values()
        heap.keep([path for one in histories for path in one.paths])

    def _bring_back(self) -> None:
        for part in self._before:
            part()
        self._before = ()
