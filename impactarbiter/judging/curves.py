"""What was measured from step to step, as a report has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ..base.records import dataclass
from ..core import heap
from ..core.sources import site_of
from ..core.wire import Curves, LinePoints, Status, Totals, Walk
from ..model.history import Ages, History, LineCurve, PurposePoint
from . import summary

#: More points than this cannot be told apart on a page.
MOST_POINTS = 1024
#: Walks whose purposes are kept; when they are more, every second one goes.
MOST_WALKS = 128


@dataclass
class Purposes:
    """Bytes by purpose, walk by walk."""

    seen: list[tuple[tuple[int, ...], dict[str, int]]] = field(
        default_factory=list
    )

    def add(self, walk: Walk, status: Status, totals: Totals) -> None:
        """Takes in what a walk has seen, the last one of a moment."""
        if self.seen and self.seen[-1][0] == status.counts:
            self.seen.pop()
        if len(self.seen) == MOST_WALKS:
            del self.seen[1::2]
        found = summary.accounted(walk, totals)
        self.seen.append((status.counts, found))

    def points(self, kind: int) -> tuple[PurposePoint, ...]:
        """By steps of that kind."""
        return tuple(PurposePoint(c[kind], found) for c, found in self.seen)


def history(
    curves: Curves, purposes: Purposes, kind: int, phases: Sequence[str]
) -> History:
    """The run by steps of that kind."""
    total = len(curves.points)
    chosen = _chosen(total)
    points = [curves.points[i] for i in chosen]
    on_device = any(p.reserved_bytes for p in points)
    return History(
        steps=tuple(p.counts[kind] for p in points),
        live_bytes=tuple(p.live_bytes for p in points),
        seconds=tuple(p.seconds for p in points),
        resident_bytes=tuple(p.resident_bytes for p in points)
        if all(p.resident_bytes for p in points)
        else (),
        allocated_bytes=tuple(p.allocated_bytes for p in points)
        if on_device
        else (),
        reserved_bytes=tuple(p.reserved_bytes for p in points)
        if on_device
        else (),
        phases=tuple(_name(phases, p.phase) for p in points)
        if any(p.phase for p in points)
        else (),
        lines=_lines(curves.lines, chosen),
        node_steps=tuple(n.counts[kind] for n in curves.nodes),
        node_bytes=tuple(n.bytes for n in curves.nodes),
        purposes=purposes.points(kind),
    )


def _chosen(count: int) -> list[int]:
    """Indices of points: evenly, and the last one always."""
    stride = -(-count // MOST_POINTS)
    return list(range((count - 1) % stride, count, stride)) if count else []


def _name(phases: Sequence[str], number: int) -> str:
    return phases[number] if number < len(phases) else ""


def _lines(
    lines: Iterable[LinePoints], chosen: Sequence[int]
) -> tuple[LineCurve, ...]:
    """The most bytes at the end first; one curve for each source line."""
    by_site: dict[object, LineCurve] = {}
    for line in lines:
        sizes = tuple(
            line.live_bytes[i - line.since]
            if 0 <= i - line.since < len(line.live_bytes)
            else None
            for i in chosen
        )
        site = site_of(line.site)
        before = by_site.get(site)
        if before is not None:
            sizes = tuple(
                b if a is None else a if b is None else a + b
                for a, b in zip(before.live_bytes, sizes, strict=True)
            )
        by_site[site] = LineCurve(site, sizes)
    return tuple(
        sorted(
            (c for c in by_site.values() if any(c.live_bytes)),
            key=lambda c: -(c.live_bytes[-1] or 0),
        )
    )


def made_by(sites: Iterable[int]) -> int | None:
    """The position or tick by which all was born that is alive of lines; None
    where nothing is."""
    found = [heap.site_ages(site) for site in sites]
    return max(
        (
            one.base + (i + 1) * one.width
            for one in found
            for i, alive in enumerate(one.alive)
            if alive
        ),
        default=None,
    )


def ages(sites: Iterable[int], status: Status, kind: int) -> Ages | None:
    """Survivors of these lines by age; None where there are none."""
    found = [heap.site_ages(site) for site in sites]
    width = max((a.width for a in found), default=0)
    counts: dict[int, int] = {}
    for one in found:
        for i, alive in enumerate(one.alive):
            begin = one.base + i * one.width // width * width
            counts[begin] = counts.get(begin, 0) + alive
    if not any(counts.values()):
        return None
    begins = sorted(counts)
    return Ages(
        steps=tuple(status.step(b) for b in begins),
        alive=tuple(counts[b] for b in begins),
        end=status.counts[kind],
    )
