"""What became of what the last walk saw in a holder: how much of it is alive,
and whether what is there by now was made anew."""

from __future__ import annotations

from dataclasses import field

from ...base.records import Changing, dataclass, replace
from .observation import Observation


@dataclass
class Turnover(Changing):
    """What a walk has measured, and what its lines have alive of that.

    The ledger knows how many of their storages are ``old``, as the walk saw
    them; those may be held by others.  All that they have alive may be more,
    and what is in the holder may come from elsewhere.
    """

    walked: Observation  # the last that a walk measured
    # Its items had nothing of what they had: they stay, and what each has is
    # made anew, as what a hook has seen last.
    renews: bool = False
    # It is as long as it was, and most of what came since the walk before went
    # to items that had nothing yet.
    fills: bool = False
    # A turn's variable, made anew, had what its lines have not made since, or
    # what it had had.
    carries_over: bool = False
    # Of garbage: more than is left of what the walk saw is gone.
    freed_in_time: bool = False
    # Storages alive of those that the walk saw, at most: never more again.
    remaining: int = field(init=False)
    # The tick of what is said to be old, and how many and bytes there were: a
    # walk's, or when nothing was left of those in a holder without a length.
    old_at: int = field(init=False)
    had: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._counts_from(self.walked)

    def walked_again(self, now: Observation) -> None:
        """Takes in another walk."""
        self.fills = self._fills(now)
        self.walked = now
        self._counts_from(now)

    def _counts_from(self, now: Observation) -> None:
        self.old_at, self.remaining = now.at.tick, now.storages
        self.had = now.storages, now.held

    def _fills(self, now: Observation) -> bool:
        """Whether each of its items gets its own: that ends when all have."""
        then = self.walked
        if now.items is None or now.items != then.items or not then.ours:
            return False
        items, came = now.ours - then.ours, now.storages - then.storages
        if items <= 0 and came <= 0:
            return self.fills  # nothing has come
        return 2 * items * then.storages > came * then.ours

    def told_apart(
        self,
        now: Observation,
        last: Observation,
        alive: int,
        size: int,
        old: int,
        *,
        gone: bool,
        counted_anew: bool,
        of_a_turn: bool,
    ) -> Observation:
        """What is seen now, with what is gone of what the walk saw; ``last``
        is the look before, and ``alive`` what its lines have, of that ``size``
        in bytes, of which so much is as ``old`` as the walk.

        ``gone``: all that was there had gone with its path, so that nothing
        stays, whatever lies at the old addresses; ``counted_anew``: what went
        since the walk was seen already; ``of_a_turn``: it is a variable that
        a loop's turn makes anew.
        """
        all_died = not old and self.remaining > 0
        if all_died and not gone:
            self.renews |= self._is_renewed(now, last, alive)
        emptied = not counted_anew and self.is_emptied(now.items, alive, old)
        thinned = self.thins(old)
        if all_died and now.has_no_length:
            # Others are there now, and no more than there were.
            emptied = alive <= self.had[0] and size <= self.had[1]
            self._counts_from(replace(now, storages=alive, held=size))
        return replace(
            now,
            emptied=gone or emptied,
            thinned=thinned,
            carried_over=(
                all_died
                and of_a_turn
                and self._has_others(now.items, last.items, alive)
            ),
        )

    def is_emptied(self, items: int | None, alive: int, old: int) -> bool:
        """Whether all that the walk saw in it has died since, and what it has
        now, be it more, was made by its lines since then.

        As many items as then may each be made anew from the one before, and
        what comes from elsewhere may be the old ones' copies.
        """
        walked = self.walked
        if self.renews or items is None or walked.items in (None, items):
            return False
        return walked.storages > 0 and alive >= items and not old

    def thins(self, old: int) -> bool:
        """Whether some of what the walk saw in it must have died since the
        last look: so many are left, with what others hold."""
        fewer = old < self.remaining
        self.remaining = min(old, self.remaining)
        return fewer

    @property
    def is_thinner(self) -> bool:
        """Whether that was seen since the walk."""
        anew = self.old_at > self.walked.at.tick
        return anew or self.remaining < self.walked.storages

    def _has_others(
        self, items: int | None, had: int | None, alive: int
    ) -> bool:
        """Whether half as many items as it ``had`` did not come from its lines
        since the walk, of which nothing is alive: they were read from a
        checkpoint, or copied."""
        walked = self.walked
        if not (items and had and walked.items and walked.storages):
            return False
        elsewhere = items - alive * walked.items / walked.storages
        return 2 * elsewhere >= had

    def _is_renewed(
        self, now: Observation, last: Observation, alive: int
    ) -> bool:
        """Whether its items stay, and all that each had is made anew: it is
        as long as at the look before, or longer by its eldest and others, of
        which each may have as many as each had."""
        if now.items == last.items:
            return not now.lost_some(last)
        then = self.walked
        stays = 0 != now.eldest == then.eldest
        if not stays or not then.items or (now.items or 0) < then.items:
            return False
        return alive * then.items >= then.storages * (now.items or 0)

    def observe(self, now: Observation) -> bool:
        """Takes in what ``told_apart`` gave, and says whether what is there
        has been carried over."""
        self.carries_over |= now.carried_over
        return now.carried_over

    def collected(self, alive: int, old: int) -> None:
        """Of garbage, which no visit finds: where less is as old as the walk
        than has gone of what that saw, the collector comes in time."""
        left = min(alive, old)
        self.freed_in_time |= left < self.walked.storages - left
