"""Between which two moments a holder's growth was seen."""

from __future__ import annotations

from ...base.records import Changing, dataclass
from .observation import Observation

#: Gains within the time that a pause took: the gaps between them are shorter.
AFTER_A_PAUSE = 3


@dataclass
class Gains(Changing):
    """The first gain of a container, or of a tensor that is made ever longer,
    and its last, which lie whole steps apart.

    ``filled``: the same of what it had gathered until it was last seen to let
    go.  ``resumed``: what came before says nothing of how fast it grows: it
    had paused, and has grown more evenly since, for as long as the pause.
    """

    base: Observation | None = None
    top: Observation | None = None
    filled: tuple[Observation, Observation] | None = None
    resumed: bool = False
    _again: Observation | None = None  # the first gain after a pause
    _pause: int = 0  # positions that it lasted
    _gains: int = 0  # since then, with that one

    def add(self, now: Observation, pause: int) -> None:
        """Takes in a gain at a step's end, after a ``pause`` of so many
        positions; 0: no longer than there were before."""
        self.base, self.top = self.base or now, now
        if pause:
            self._again, self._pause, self._gains = now, pause, 0
        again, self._gains = self._again, self._gains + 1
        if again is None or self._gains < AFTER_A_PAUSE:
            return
        if now.at.now - again.at.now >= self._pause:
            self.resumed |= self.base is not again
            self.base, self._again = again, None

    def let_go(self, first: Observation, before: Observation) -> None:
        """What was gathered from ``first`` to ``before`` is gone."""
        self.filled = self.base or first, self.top or before
        self.restart()

    def measure(self, before: Observation, now: Observation) -> None:
        """What visits between two walks took to be like what the first has
        measured is measured now."""
        if self.base is not None:
            self.base = self.base.measured(before, now)
        if self.top is not None:
            self.top = self.top.measured(before, now)

    def restart(self) -> None:
        """Counts anew."""
        self.base = self.top = self._again = None
        self.resumed = False

    def measured(
        self, first: Observation, last: Observation
    ) -> tuple[Observation, Observation]:
        """Between which two of those from ``first`` to ``last``."""
        if self.base is not None and self.top is not self.base:
            return self.base, self.top or last
        if self.base is not None and not last.at.ends_step:
            return first, self.base
        return first, last
