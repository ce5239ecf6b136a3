"""That a holder gained: when, how often, and what its rates are counted
from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ...base.records import Changing, dataclass, replace
from .gains import Gains
from .observation import Moment, Observation

#: Sizes of a tensor that are remembered, spread over its time: its halves are
#: told from each other by two or three.
MOST_SIZES = 16


@dataclass(frozen=True)
class Pace:
    """How fast a holder grew until a walk, by when what it had was born:
    ``bytes`` and ``storages`` a step, of that ``kind``, in so many ``steps``.
    """

    bytes: float = 0.0
    storages: float = 0.0
    steps: int = 0
    kind: int = -1


@dataclass
class Growth(Changing):
    """What looks have seen a holder gain, and what walks have measured of
    that.

    When it gained last is known better than by the look that saw it, where its
    lines or a walk say so: ``gained_at`` is no time of a look, ``gained`` is.
    """

    gained_at: int = 0  # `now` of the last gain
    gained: Moment | None = None  # of the last gain that was seen
    had_less: int = 0  # `now` of the look before that one
    gains: int = 0  # times that it was seen grown
    waited: int = 0  # the longest time between two of them
    rates: Gains = field(default_factory=Gains)  # what they are counted from
    # What came with each item between two walks.
    each: Mapping[str, float] | None = None
    # The last walk that did not see it in use, where later ones did.
    before: Observation | None = None
    pace: Pace = Pace()  # of garbage: by the walk that saw the most
    # When it was seen to gain last, or its lines said so: how often it had,
    # what these had alive, and how much of that no other was seen to have.
    unseen: tuple[int, int, int] | None = None
    # Of a tensor without a graph: some positions, and its bytes at them.
    sizes: Sequence[tuple[int, int]] = ()

    def see_size(self, now: Observation) -> None:
        """Remembers how large a tensor without a graph is."""
        if not now.is_plain:
            return
        if len(self.sizes) == MOST_SIZES:
            self.sizes = self.sizes[::2]
        self.sizes = (*self.sizes, (now.at.now, now.size))

    def add(
        self,
        now: Observation,
        before: Observation,
        made: int | None,
        pause: int,
    ) -> None:
        """Takes in a gain since the look ``before``, after a ``pause`` of so
        many positions; 0: no longer than there were before.  ``made``: when
        the youngest of what a walk has found there was."""
        gained_at = now.at.now
        if made is not None and now.grew_inside(before):
            # No visit sees that: it may have been long ago.
            gained_at = max(min(made, gained_at), self.gained_at)
        self.waited = max(self.waited, gained_at - self.gained_at)
        self.gained_at, self.gained = gained_at, now.at
        self.had_less = before.at.now
        self.gains += 1
        if (now.items or now.is_plain) and now.at.ends_step:
            self.rates.add(now, pause)

    def goes_on_unseen(self, alive: int, unseen: int) -> bool:
        """Whether most of what its lines have gained since it did is in no
        other holder that is visited, so that it may be what has it; of those
        that are ``alive`` so many are ``unseen``."""
        gains, had, then = self.unseen or (-1, 0, 0)
        goes_on = gains != self.gains or 2 * (unseen - then) >= alive - had
        if goes_on:
            self.unseen = (self.gains, alive, unseen)
        return goes_on

    def went_on(self, until: int, gains: int = 0) -> None:
        """It gained by what no two looks show."""
        self.gained_at = until
        self.gains += gains

    def was_made(self, by: int | None) -> None:
        """All that its lines have was made by then, and a visit may come long
        after: it has gained no memory since, but for what other lines make,
        which it was seen to have less of before."""
        if by is not None:
            self.gained_at = min(self.gained_at, max(by, self.had_less))

    def walked_again(
        self, walked: Observation, now: Observation, *, in_use: bool
    ) -> None:
        """Takes in what two walks have measured, one after the other;
        ``in_use``: that a step still works with, so that it is measured
        against the walk before when there is another."""
        before = self.before or walked
        self.before = before if in_use else None
        if in_use:
            return
        self.rates.measure(before, now)
        self.each = now.each_since(before) or self.each

    def of_a_part(self, share: float) -> Growth:
        """That of a part, which has such a share of what grew: no look has
        seen what it alone gained."""
        size, count = self.pace.bytes * share, self.pace.storages * share
        pace = replace(self.pace, bytes=size, storages=count)
        rates = Gains(resumed=True)
        return replace(self, rates=rates, pace=pace, sizes=())

    def restart(self) -> None:
        """Rates are counted anew."""
        self.sizes, self.before = (), None
        self.rates.restart()
