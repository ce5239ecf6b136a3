"""Live bytes by what they are for, as the walks over the heap saw them."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.records import dataclass
from ..base.units import format_bytes, format_count, plural
from ..model.history import History, PurposePoint
from ..model.report import Report
from .charts import Chart, Key
from .scales import Box, Shape, axes, stacked, tops_of

#: Colours for what no finding is about; more are not told apart.
_LOOKS = ("c1", "c2", "c3", "c4", "c5")
_FINDINGS, _OTHER = "findings", "other"
#: More walks than this are not marked one by one.
_MOST_MARKED = 40


@dataclass(frozen=True)
class Purposes:
    """Live bytes at some steps; ``layers`` (look, text, bytes) from below."""

    steps: Sequence[int]
    layers: Sequence[tuple[str, str, Sequence[int]]]


def purposes_of(history: History) -> Purposes | None:
    """None where fewer than two moments were measured."""
    points = _by_step(history.purposes)
    if len(points) < 2 or not any(any(p.bytes.values()) for p in points):
        return None
    return Purposes([p.step for p in points], _layers(points))


def measured_by(steps: Sequence[int]) -> str:
    """How the picture came about."""
    return f"measured by {plural(len(steps), 'walk')} over all objects"


def purpose_chart(report: Report) -> Chart | None:
    """Stacked by purpose; None where fewer than two moments were measured."""
    found = purposes_of(report.history)
    if found is None:
        return None
    steps, layers = found.steps, found.layers
    tops = tops_of(values for _, _, values in layers)
    history = report.history.steps
    first = min(steps[0], *history) if history else steps[0]
    last = max(steps[-1], *history) if history else steps[-1]
    box = Box(first, last, 0, 1.05 * max(tops[-1]))
    looks = [look for look, _, _ in layers]
    x, y = axes(box)
    return Chart(
        title="Memory by purpose",
        said=f"{measured_by(steps)}, steps {format_count(steps[0])} to"
        f" {format_count(steps[-1])}:"
        " straight lines in between",
        areas=stacked(box, steps, looks, tops),
        curves=_walks(box, steps, tops[-1]),
        x=x,
        y=y,
        keys=tuple(
            Key(look, text, format_bytes(values[-1]))
            for look, text, values in reversed(layers)
        ),
    )


def _by_step(seen: Sequence[PurposePoint]) -> list[PurposePoint]:
    """One for each step, the last."""
    return list({p.step: p for p in seen}.values())


def _layers(
    points: Sequence[PurposePoint],
) -> list[tuple[str, str, list[int]]]:
    """What no purpose is known of first, what findings are about on top."""
    columns: dict[str, list[int]] = {}
    for at, point in enumerate(points):
        for name, size in point.bytes.items():
            columns.setdefault(name, [0] * len(points))[at] = size
    most = sorted(
        (n for n in columns if n not in (_FINDINGS, _OTHER)),
        key=lambda name: -max(columns[name]),
    )
    rest = [name for name in columns if name == _OTHER]
    rest += most[len(_LOOKS) :]
    other = [
        sum(sizes) for sizes in zip(*(columns[n] for n in rest), strict=True)
    ]
    found = [("other", "no purpose that is known", other)]
    found += [
        (look, name.replace("_", " "), columns[name])
        for look, name in zip(_LOOKS, most, strict=False)
    ]
    if _FINDINGS in columns:
        found.append(("c0", "what findings are about", columns[_FINDINGS]))
    return [layer for layer in found if any(layer[2])]


def marked(steps: Sequence[int]) -> bool:
    """Whether each step that was measured is marked."""
    return len(steps) <= _MOST_MARKED


def _walks(
    box: Box, steps: Sequence[int], tops: Sequence[int]
) -> tuple[Shape, ...]:
    """A line up at each step that was measured."""
    if not marked(steps):
        return ()
    return tuple(
        Shape("walk", box.curve([(step, 0), (step, top)]))
        for step, top in zip(steps, tops, strict=True)
    )
