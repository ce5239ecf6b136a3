"""Which statement grows a holder: seen in one watched tick, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..base.records import dataclass
from ..core import heap
from ..core.wire import Status
from .holders.memory import HolderHistory

#: A watch lasts from one tick until the position has moved on so often: two
#: whole turns of the program's loop, wherever in it the watch begins.  The
#: first shows the statement, the second whether it grows this holder alone.
TURNS = 3
#: What does not grow in each turn is watched for so many times the turns that
#: lie between two of its steps on the average, and at most for so many.
GAPS = 1.5
MOST_TURNS = 128
#: Turns of an inner loop are short: of those it may last for so large a part
#: of all that were.
MOST_OF_LOOPS = 1 / 8
#: And what they have shown is asked for after so many seconds, not at each.
LOOP_SECONDS = 0.01


@dataclass
class StatementWatch:
    """At most one holder is watched at a time."""

    _history: HolderHistory | None = None
    _began: int = 0
    _most: int = 0  # turns that it lasts: what grows no more has no pace

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
        for history in sorted(histories, key=lambda h: h.sightings.watches):
            if not _is_worth(history):
                continue
            history.sightings.begin()
            if heap.watch_statement(history.held.visit, history.graph_grows):
                self._history, self._began = history, status.now
                self._most = _turns(history, status)
                return True
        return False

    def awaits(self, history: HolderHistory) -> bool:
        """Whether its statement may be seen soon for the first time."""
        sightings = history.sightings
        if history is self._history:
            return sightings.watches == 1 and not sightings.so_far
        return sightings.watches == 0 and _is_worth(history)

    def pause(self, status: Status) -> int:
        """Ticks until it is asked again."""
        if not status.by_turns:
            return 1
        return status.ticks_in(LOOP_SECONDS)

    def goes_on(self, status: Status) -> bool:
        """Whether it has not lasted yet, and has seen no statement that it
        had not."""
        history = self._history
        if history is None or self._has_lasted(history, status):
            return False
        return not history.sightings.shows_more(heap.seen_statements())

    def _has_lasted(self, history: HolderHistory, status: Status) -> bool:
        turns = min(self._most, _turns(history, status))
        return status.now >= self._began + turns

    def end(self, status: Status, *, now: bool = False) -> None:
        """Ends the watch where it has lasted; ``now``: in any case."""
        history = self._history
        if history is None or not (now or self._has_lasted(history, status)):
            return
        statements, held = heap.end_statement()
        history.comes_and_goes |= not (statements or held)
        census = heap.census(history.held.visit)
        history.sightings.end(statements, census, history.age)
        self._history = None


def _is_worth(history: HolderHistory) -> bool:
    """Whether it can be watched, and what that would show is wanted."""
    return history.held.visit != 0 and history.sightings.is_wanted(history.age)


def _turns(history: HolderHistory, status: Status) -> int:
    """A graph that grows has one storage to show, whatever its pace."""
    if history.graph_grows:
        return TURNS
    gains = history.growth.gains  # of a value, which is of one step
    own = max(group.generations for group in history.held.groups)
    gap = history.age / max(own, gains, 1)
    most = max(MOST_TURNS, status.by_turns * int(status.now * MOST_OF_LOOPS))
    return min(max(TURNS, round(GAPS * gap) + 1), most)
