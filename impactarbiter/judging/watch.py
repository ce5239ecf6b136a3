"""Which statement grows a holder: seen in one watched tick, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..base.records import dataclass
from ..core import heap
from ..core.sources import site_at
from ..core.wire import Status
from ..model.finding import Site
from .memory import HolderHistory

#: A watch lasts from one tick until the position has moved on so often: two
#: whole turns of the program's loop, wherever in it the watch begins.  The
#: first shows the statement, the second whether it grows this holder alone.
TURNS = 3
#: What does not grow in each turn is watched for so many times the turns that
#: lie between two of its steps on the average, and at most for so many.
GAPS = 1.5
MOST_TURNS = 128
#: Watches of one holder in a row; later ones wait until it is twice as old,
#: as what grows at every hundredth step is rarely caught.
TRIES = 3


@dataclass
class StatementWatch:
    """At most one holder is watched at a time."""

    _history: HolderHistory | None = None
    _began: int = 0

    def as_begun(self) -> Callable[[], None]:
        """Brings back, when it is called, what is being watched now."""
        mine = vars(self).copy()
        return lambda: vars(self).update(mine)

    @property
    def busy(self) -> bool:
        """Whether something is being watched."""
        return self._history is not None

    def begin(
        self, histories: Iterable[HolderHistory], status: Status
    ) -> bool:
        """Watches one of them whose statement is not known yet: the first of
        those that were watched the least often."""
        for history in sorted(histories, key=lambda one: one.watched):
            if not self._is_worth(history):
                continue
            history.watched += 1
            if heap.watch_statement(history.held.visit, history.graph_grows):
                self._history, self._began = history, status.now
                return True
        return False

    def awaits(self, history: HolderHistory) -> bool:
        """Whether its statement may be seen soon for the first time."""
        if history is self._history:
            return history.watched == 1 and not history.seen_so_far
        return history.watched == 0 and self._is_worth(history)

    def _is_worth(self, history: HolderHistory) -> bool:
        known = history.statements and not history.resumed
        if known or not history.held.visit:
            return False
        turns = history.watched
        return turns < TRIES or history.age > history.seen_age * 2

    def goes_on(self, status: Status) -> bool:
        """Whether it has not lasted yet, and has seen no statement that it
        had not."""
        history = self._history
        if history is None or self._has_lasted(history, status):
            return False
        before, history.seen_so_far = (
            history.seen_so_far,
            heap.seen_statements(),
        )
        return len(history.seen_so_far) == len(before)

    def _has_lasted(self, history: HolderHistory, status: Status) -> bool:
        return status.now >= self._began + _turns(history)

    def end(self, status: Status, *, now: bool = False) -> None:
        """Ends the watch where it has lasted; ``now``: in any case."""
        history = self._history
        if history is None or not (now or self._has_lasted(history, status)):
            return
        statements, held = heap.end_statement()
        history.saw(statements)
        history.seen_so_far = ()
        history.comes_and_goes |= not (statements or held)
        history.census = heap.census(history.held.visit)
        history.seen_age = history.age
        self._history = None


def _turns(history: HolderHistory) -> int:
    """A graph that grows has one storage to show, whatever its pace."""
    if history.graph_grows:
        return TURNS
    gap = history.age / max(history.generations, 1)
    return min(max(TURNS, round(GAPS * gap) + 1), MOST_TURNS)


def grown_at(history: HolderHistory) -> Site | None:
    """The statement that was seen to grow it most; None where none was."""
    key = _most(history)
    if key is None and history.seen_so_far:
        most = max(history.seen_so_far, key=lambda s: s.items)
        key = most.file, most.line, most.function
    return None if key is None else site_at(*key)


def other_growth(history: HolderHistory) -> float:
    """How often that statement grew something else, for each time that it
    grew this holder."""
    key = _most(history)
    return 0.0 if key is None else history.idle.get(key, 0.0)


def _most(history: HolderHistory) -> tuple[str, int, str] | None:
    if not history.statements:
        return None
    return max(history.statements, key=lambda k: history.statements[k])
