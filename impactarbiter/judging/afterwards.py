"""What grows after the last step: by which lines, and what holds it.

A service's or an evaluation's calls are no steps while they are few beside
those of the training, so no holder is judged by them.  What was seen stands in
the report beside what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from ..base.records import dataclass
from ..core import heap
from ..core.sources import site_of
from ..core.wire import (
    AGE_TO_TELL,
    STEP_KINDS,
    Column,
    Held,
    Status,
    Suspect,
)
from ..model.finding import Finding
from ..model.growth import LaterGrowth, LaterLine
from .allowlist import AllowList
from .holders.look import Look
from .sums import closure
from .walks import Walks

#: Lines that are named.
MOST_LINES = 3


@dataclass
class Afterwards:
    """The lines that were seen to grow since the position last moved."""

    allow: AllowList
    lines: tuple[LaterLine, ...] = ()
    _position: int = -1
    _sites: frozenset[int] = frozenset()

    def look(self, walks: Walks, status: Status, room: int | None) -> None:
        """Finds what holds what these lines keep, where that is worth it."""
        if status.position != self._position:
            self._position = status.position
            self.lines, self._sites = (), frozenset()
        found = {s.site: s for s in heap.late_suspects(AGE_TO_TELL)}
        if found.keys() <= self._sites or walks.pause(found, status, room):
            return
        lines = self._lines(walks.apart(found, status), found)
        self.lines = tuple(islice(lines, MOST_LINES))
        self._sites = frozenset(found)

    def _lines(
        self, look: Look, found: Mapping[int, Suspect]
    ) -> Iterator[LaterLine]:
        """The lines that keep the most first."""
        for suspect in sorted(found.values(), key=lambda s: -s.live_bytes):
            held = _holds_most(look, suspect.site)
            if held is not None and self.allow.allows(
                held.owners, look.describe(held)
            ):
                continue
            path = held.path.upto(held.depth) if held is not None else None
            yield LaterLine(site_of(suspect.site), path)

    def growth(
        self,
        points: Column,
        status: Status,
        findings: Iterable[Finding],
    ) -> LaterGrowth | None:
        """None where nothing grew steadily, or findings are about it."""
        tail = closure.after_the_last_step(points, status)
        if tail is None:
            return None
        kind, calls, rate = tail
        told = {(f.allocated_at.file, f.allocated_at.line) for f in findings}
        lines = tuple(
            line
            for line in self.lines
            if (line.site.file, line.site.line) not in told
        )
        if self.lines and not lines:
            return None
        return LaterGrowth(
            after_step=status.strongest_counts[status.kind],
            calls=calls,
            call_kind=STEP_KINDS[kind],
            bytes_per_call=rate,
            lines=lines,
        )


def _holds_most(look: Look, site: int) -> Held | None:
    """The holder that has the most of a line's."""
    kept = {
        place: group.bytes
        for place, held in enumerate(look.walk.holders)
        for group in held.groups
        if group.site == site
    }
    if not kept:
        return None
    return look.walk.holders[max(kept, key=lambda place: kept[place])]
