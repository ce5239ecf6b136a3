"""What was measured from step to step, as a report has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from ...base.records import dataclass
from ...core import heap
from ...core.sources import site_of
from ...core.wire import (
    Column,
    Counts,
    Curves,
    LinePoints,
    Status,
    Totals,
    Walk,
)
from ...model.history import Ages, History, LineCurve, PurposePoint
from ...model.site import Site
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
    chosen = _chosen(len(curves.points))
    points = curves.points[chosen]
    resident = points["resident_bytes"]
    on_device = points["reserved_bytes"].any()
    return History(
        steps=_column(points[Counts._fields[kind]]),
        live_bytes=_column(points["live_bytes"]),
        seconds=_column(points["seconds"]),
        resident_bytes=_column(resident) if resident.all() else (),
        allocated_bytes=(
            _column(points["allocated_bytes"]) if on_device else ()
        ),
        reserved_bytes=_column(points["reserved_bytes"]) if on_device else (),
        phases=tuple(_name(phases, p) for p in _column(points["phase"]))
        if points["phase"].any()
        else (),
        lines=_lines(curves.lines, chosen),
        node_steps=tuple(n.counts[kind] for n in curves.nodes),
        node_bytes=tuple(n.bytes for n in curves.nodes),
        purposes=purposes.points(kind),
    )


def _chosen(count: int) -> Column:
    """Indices of points: evenly, and the last one always."""
    import numpy as np  # which the program has imported, before any step

    stride = -(-count // MOST_POINTS) or 1
    return np.arange((count - 1) % stride if count else 0, count, stride)


def _column(values: Column) -> tuple[Any, ...]:
    return tuple(values.tolist())


def _name(phases: Sequence[str], number: int) -> str:
    return phases[number] if number < len(phases) else ""


def _lines(
    lines: Iterable[LinePoints], chosen: Column
) -> tuple[LineCurve, ...]:
    """The most bytes at the end first; one curve for each source line."""
    by_site: dict[Site, list[LinePoints]] = {}
    for line in lines:
        by_site.setdefault(site_of(line.site), []).append(line)
    made = [
        LineCurve(site, _sizes(same, chosen)) for site, same in by_site.items()
    ]
    made.sort(key=lambda curve: -(curve.live_bytes[-1] or 0))
    return tuple(curve for curve in made if any(curve.live_bytes))


def _sizes(
    lines: Sequence[LinePoints], chosen: Column
) -> tuple[int | None, ...]:
    """Of all of them, from where the first was known."""
    import numpy as np

    since = min(line.since for line in lines)
    total = np.zeros(len(chosen), np.uint64)
    for line in lines:
        total += np.where(chosen >= line.since, line.live_bytes[chosen], 0)
    known = zip((chosen >= since).tolist(), total.tolist(), strict=True)
    return tuple(size if is_known else None for is_known, size in known)


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
