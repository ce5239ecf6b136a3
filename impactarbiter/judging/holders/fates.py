"""Which of several holders that are alike let go of what they had.

Siblings grow by one statement and are one finding, and one that was not let go
of yet may wait for its turn.  What has had far more than those that do let go,
and for far longer, does not: it is a finding of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from ...base.records import dataclass, replace
from ...core.wire import Held, Visit
from .memory import HolderHistory
from .siblings import Siblings

#: So many times as much, and as long, is far more than what lets go has.
FAR_MORE = 2
#: Signatures whose other names are remembered; they are made anew when there
#: are more.
NAMES = 1024


@dataclass
class _Fate:
    since: int  # position or tick since which it gathers
    followed: int  # when it was visited first
    seen: Visit
    let_go_at: int | None = None  # when it was last seen to have
    most: int = 0  # items that it had before
    _gap: int = 0  # the longest between two of these times

    def see(self, seen: Visit, now: int) -> None:
        before, self.seen = self.seen, seen
        gained = (seen.length or 0) - (before.length or 0)
        other = 0 != seen.first != before.first != 0
        lost = 0 != seen.eldest != before.eldest != 0
        if gained < 0 or (gained == 0 and other) or lost:
            if self.let_go_at is not None:
                self._gap = max(self._gap, now - self.let_go_at)
            self.let_go_at = now
            self.most = max(self.most, before.length or 0)

    @property
    def lasts(self) -> int:
        """How long it gathers before it lets go."""
        return self._gap or (self.let_go_at or 0) - self.since

    @property
    def kept_since(self) -> int:
        """Since when it was seen to let go of nothing."""
        return max(self.followed, self.let_go_at or 0)


class Fates:
    """Of holders that have siblings, by their places: what fills a place
    anew follows what was there."""

    def __init__(self) -> None:
        self._of: dict[str, _Fate] = {}

    def see(
        self, history: HolderHistory, seen: Sequence[Visit], now: int
    ) -> None:
        """Takes in one visit of each of its fellows."""
        for held, visit in zip(history.fellows, seen, strict=True):
            followed = len(seen) > 1 or held.place in self._of
            if followed and visit.state == "intact":
                fate = _Fate(history.since, now, visit)
                self._of.setdefault(held.place, fate).see(visit, now)

    def part(
        self, signature: str, siblings: Siblings, now: int
    ) -> dict[str, Siblings]:
        """Those that have had far more, for far longer, than those that let
        go, by that signature, and all others by another; where there are none
        of the one or the other, they are one finding."""
        fates = [self._fate(held) for held, _finding in siblings]
        letting = [fate for fate in fates if fate and fate.let_go_at]
        most = FAR_MORE * max((fate.most for fate in letting), default=0)
        lasts = FAR_MORE * max((fate.lasts for fate in letting), default=now)
        parts: dict[str, Siblings] = {}
        for pair, fate in zip(siblings, fates, strict=True):
            keeps = (
                fate is not None
                and (fate.seen.length or 0) > most
                and now - fate.kept_since > lasts
            )
            name = signature if keeps else apart(signature)
            parts.setdefault(name, []).append(pair)
        if signature not in parts:
            parts = {signature: siblings}
        return {name: _named(name, pairs) for name, pairs in parts.items()}

    def kept_since(self, fellows: Iterable[Held]) -> int:
        """Since when the first of them has let go of nothing."""
        return min(fate.kept_since for fate in self._known(fellows))

    def last_of(self, fellows: Iterable[Held]) -> int:
        """When one of them last let go; 0: none was seen to."""
        ended = (fate.let_go_at or 0 for fate in self._known(fellows))
        return max(ended, default=0)

    def keep(self, fellows: Iterable[Held]) -> None:
        """Forgets all others."""
        kept = {held.place for held in fellows}
        self._of = {at: one for at, one in self._of.items() if at in kept}

    def as_seen(self) -> Callable[[], None]:
        """Brings back, when it is called, what was seen until now."""
        fates = {at: replace(one) for at, one in self._of.items()}

        def bring_back() -> None:
            self._of = fates

        return bring_back

    def _fate(self, held: Held) -> _Fate | None:
        return self._of.get(held.place)

    def _known(self, fellows: Iterable[Held]) -> Iterable[_Fate]:
        return [fate for fate in map(self._fate, fellows) if fate]


def _named(name: str, siblings: Siblings) -> Siblings:
    return [
        (held, f if f.signature == name else replace(f, signature=name))
        for held, f in siblings
    ]


@lru_cache(maxsize=NAMES)
def apart(signature: str) -> str:
    """What the others of them go by, beside those that let go of nothing."""
    return hashlib.sha256(f"{signature} lets go".encode()).hexdigest()[:16]
