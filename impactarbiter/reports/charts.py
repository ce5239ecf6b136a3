"""Geometry of the page's pictures: shapes in percent of their box.

Labels are HTML beside the shapes, so that they stay readable at any width.
Nothing here makes up a figure: what was not measured is not drawn.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

from ..base.records import dataclass
from ..base.units import format_bytes, format_count, format_duration, plural
from ..model.finding import Finding
from ..model.history import Ages, History
from ..model.report import Report
from .first_line import alarming
from .scales import (
    Box,
    Series,
    Shape,
    Tick,
    axes,
    drawn_points,
    stacked,
    tops_of,
)
from .wording import forecast

#: Lines drawn apart in a stack; more colours are not told apart.
MOST_LINES = 6
#: The growth chart begins after this part of the run: what a program builds
#: up at its start is no growth.
BUILD_UP = 8
#: How far the dashed forecast reaches, as a part of the run.
_AHEAD = 0.15
#: The least range of the growth chart, as a part of the process: flatter than
#: that looks flat.
LEAST_RANGE = 256
#: The process is drawn over a stack that is at least this part of it.
NOT_HIGHER = 4
#: Stretches of one phase that are still told apart.
_MOST_PHASES = 60


@dataclass(frozen=True)
class Key:
    """A line of the legend; ``value`` is the last one measured."""

    look: str
    text: str
    value: str = ""


@dataclass(frozen=True)
class Band:
    """A stretch of one phase, in percent."""

    left: float
    width: float
    text: str
    look: str


@dataclass(frozen=True)
class Chart:
    """All that a template draws of one chart."""

    title: str
    said: str
    areas: tuple[Shape, ...]
    curves: tuple[Shape, ...]
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    keys: tuple[Key, ...]
    marks: tuple[Tick, ...] = ()
    bands: tuple[Band, ...] = ()


# -- measured series ----------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """What each sort of memory gained since ``since``, step by step."""

    since: int
    tensors: list[tuple[int, int]]
    nodes: list[tuple[int, int]]
    process: list[tuple[int, int]]


def growth_of(history: History) -> Growth | None:
    """None where the run is too short for a curve."""
    chosen = drawn_points(history.steps)
    steps = [history.steps[i] for i in chosen]
    if len(steps) < 3:
        return None
    since = steps[0] + (steps[-1] - steps[0]) / BUILD_UP
    chosen = [i for i in chosen if history.steps[i] >= since]

    def rise(
        steps: Iterable[int], sizes: Iterable[int]
    ) -> list[tuple[int, int]]:
        pairs = [(x, y) for x, y in zip(steps, sizes, strict=True)]
        return [(x, y - pairs[0][1]) for x, y in pairs]

    at = [history.steps[i] for i in chosen]
    # Step by step from where growth is counted on, to the last counting.
    counted = [x for x in at if x <= max(history.node_steps, default=0)]
    nodes = list(zip(counted, nodes_at(history, counted), strict=True))
    return Growth(
        since=at[0],
        tensors=rise(at, [history.live_bytes[i] for i in chosen]),
        nodes=rise([n[0] for n in nodes], [n[1] for n in nodes])
        if len(nodes) > 1
        else [],
        process=rise(at, [history.resident_bytes[i] for i in chosen])
        if history.resident_bytes
        else [],
    )


def slope(points: Sequence[tuple[int, int]]) -> float:
    """Bytes a step of the line of least squares through these."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return rise / spread if spread else 0.0


# -- what grows ---------------------------------------------------------------


def growth_chart(report: Report) -> Chart | None:
    """Gains of tensors, graph nodes and process, and the forecast."""
    history, growth = report.history, growth_of(report.history)
    if growth is None:
        return None
    urgent = alarming(report)
    own = [y for _, y in (*growth.tensors, *growth.nodes)]
    whole = max(history.resident_bytes or history.live_bytes)
    reach = max(*own, whole / LEAST_RANGE, 1)
    process = max((y for _, y in growth.process), default=0)
    if report.process_bytes_per_step or process <= 2 * reach:
        reach = max(reach, process)
    last = growth.tensors[-1][0]
    span = last - growth.since
    right = last + _AHEAD * span if urgent else last
    rows: list[tuple[str, str, Series, float]] = [
        ("process", "the process", growth.process, 0.0),
        (
            "nodes",
            "autograd nodes",
            growth.nodes,
            sum(f.graph_bytes_per_step for f in urgent),
        ),
        (
            "tensors",
            f"{report.noun}s",
            growth.tensors,
            sum(f.bytes_per_step for f in urgent),
        ),
    ]
    ends = [
        points[-1][1] + rate * (right - points[-1][0])
        for _, _, points, rate in rows
        if points and rate
    ]
    box = Box(
        growth.since,
        right,
        min(0, *own) if min(own) < 0 else -0.04 * reach,
        max(1.08 * reach, *ends) if ends else 1.08 * reach,
    )
    curves, keys = [], []
    for look, text, points, rate in rows:
        if not points:
            keys.append(Key(look, text, "not measured"))
            continue
        curves.append(Shape(look, box.curve(points)))
        keys.append(Key(look, text, _signed(points[-1][1])))
        if rate > 0:
            ahead = [points[-1], (right, ends.pop(0))]
            curves.append(Shape(look + " ahead", box.curve(ahead)))
    x, y = axes(box, signed=True)
    return Chart(
        title=f"Growth since step {format_count(growth.since)}",
        said=_growth_said(report, urgent),
        areas=(),
        curves=tuple(curves),
        x=x,
        y=y,
        keys=tuple(reversed(keys)),
        marks=_marks(urgent, box),
    )


def _signed(size: float) -> str:
    return ("+" if size > 0 else "") + format_bytes(size)


def _growth_said(report: Report, urgent: Sequence[Finding]) -> str:
    if urgent:
        return f"dashed: as it goes on; {forecast(urgent[0])}"
    if report.process_bytes_per_step or report.grown_bytes_per_step:
        return ""
    return "a run that does not leak is flat here"


def _marks(findings: Iterable[Finding], box: Box) -> tuple[Tick, ...]:
    """Where growth began and was confirmed."""
    found: dict[int, list[str]] = {}
    for number, finding in enumerate(findings, 1):
        whose = f" ({number})" if number > 1 else ""
        if box.left <= finding.first_step:
            found.setdefault(finding.first_step, []).append("began" + whose)
        if finding.confirmed_step is not None:
            found.setdefault(finding.confirmed_step, []).append(
                "confirmed" + whose
            )
    return tuple(
        Tick(box.x(step), f"{', '.join(words)}: step {format_count(step)}")
        for step, words in sorted(found.items())[:6]
        if box.left <= step <= box.right
    )


# -- where the memory is ------------------------------------------------------


def memory_chart(report: Report) -> Chart | None:
    """Live bytes stacked by line, nodes on top, the process as a curve."""
    history = report.history
    chosen = drawn_points(history.steps)
    steps = [history.steps[i] for i in chosen]
    if len(steps) < 3 or max(history.live_bytes) <= 0:
        return None
    layers = layers_of(history, chosen)
    nodes = nodes_at(history, steps)
    if any(nodes):
        layers.append(("nodes", nodes_text(history), nodes))
    tops = tops_of(values for _, _, values in layers)
    high = max(tops[-1])
    curves: list[tuple[str, str, list[int]]] = [
        (look, text, [column[i] for i in chosen])
        for look, text, column in (
            ("process", "the process", history.resident_bytes),
            ("reserved", "reserved on devices", history.reserved_bytes),
            ("allocated", "used on devices", history.allocated_bytes),
        )
        if column
    ]
    drawn = [c for c in curves if max(c[2]) <= NOT_HIGHER * high]
    high = max([high, *(max(c[2]) for c in drawn)])
    limit = report.memory_limit
    if limit is not None and limit <= 2 * high:
        high = max(high, limit)
    box = Box(steps[0], steps[-1], 0, 1.05 * high)
    looks = [look for look, _, _ in layers]
    shapes = [
        Shape(look, box.curve(list(zip(steps, values, strict=True))))
        for look, _, values in drawn
    ]
    keys = [
        Key(look, text, format_bytes(values[-1]))
        for look, text, values in (*reversed(layers), *drawn)
    ]
    keys += [
        Key("", f"{text}, not drawn", format_bytes(values[-1]))
        for look, text, values in curves
        if max(values) > NOT_HIGHER * max(tops[-1])
    ]
    if not history.node_bytes:
        keys.append(Key("", "autograd nodes", "not measured"))
    if limit is not None:
        if limit <= high:
            ends = [(steps[0], limit), (steps[-1], limit)]
            shapes.append(Shape("limit", box.curve(ends)))
        look = "limit" if limit <= high else ""
        keys.append(Key(look, "memory limit", format_bytes(limit)))
    x, y = axes(box)
    took = (
        f", {format_duration(history.seconds[-1])}" if history.seconds else ""
    )
    return Chart(
        title="Memory by line",
        said=f"{report.step_kind} steps {format_count(steps[0])} to"
        f" {format_count(steps[-1])}{took}; live {report.noun}s at the"
        " end of each",
        areas=stacked(box, steps, looks, tops),
        curves=tuple(shapes),
        x=x,
        y=y,
        keys=tuple(keys),
        bands=_bands(history, box),
    )


def layers_of(
    history: History, chosen: Sequence[int]
) -> list[tuple[str, str, list[int]]]:
    """The rest first, then lines, the steadiest at the bottom."""
    lines = history.lines[:MOST_LINES]
    columns = [[line.live_bytes[i] or 0 for i in chosen] for line in lines]
    rest = [
        max(history.live_bytes[i] - sum(c[at] for c in columns), 0)
        for at, i in enumerate(chosen)
    ]
    layers = [
        (f"c{n}", str(line.site), column)
        for n, (line, column) in enumerate(zip(lines, columns, strict=True))
    ]
    layers.sort(key=lambda layer: layer[2][-1] - layer[2][0])
    other = [("other", "other lines", rest)] if any(rest) else []
    return other + layers


def nodes_at(history: History, steps: Sequence[int]) -> list[int]:
    """Bytes of nodes on the straight line between two countings; as first
    and last counted outside of them, 0 where nobody counted."""
    samples = list(zip(history.node_steps, history.node_bytes, strict=True))
    found = []
    for step in steps:
        after = bisect.bisect_left(history.node_steps, step)
        if not samples:
            found.append(0)
        elif after in (0, len(samples)):
            found.append(samples[max(after - 1, 0)][1])
        else:
            (x, low), (end, high) = samples[after - 1], samples[after]
            found.append(low + (high - low) * (step - x) // (end - x))
    return found


def nodes_text(history: History) -> str:
    """What they are called; with the step of the last counting, if later ones
    have none."""
    counted = max(history.node_steps, default=0)
    if not counted or counted >= max(history.steps, default=0):
        return "autograd nodes"
    return f"autograd nodes, as of step {format_count(counted)}"


def _bands(history: History, box: Box) -> tuple[Band, ...]:
    """Stretches of one phase; none where they change too often."""
    names = list(dict.fromkeys(n for n in history.phases if n))
    found: list[Band] = []
    runs = itertools.groupby(
        range(len(history.phases)), key=lambda i: history.phases[i]
    )
    for name, run in runs:
        members = list(run)
        left = box.x(history.steps[members[0]])
        end = min(members[-1] + 1, len(history.steps) - 1)
        width = box.x(history.steps[end]) - left
        if name:
            look = f"p{names.index(name) % 4}"
            found.append(Band(left, width, name, look))
    return tuple(found) if len(found) <= _MOST_PHASES else ()


# -- survivors by age ---------------------------------------------------------


@dataclass(frozen=True)
class AgesView:
    """The staircase: how many of those made so far are still alive."""

    d: str
    first: int
    last: int
    count: str
    said: str


def ages_view(ages: Ages | None, noun: str) -> AgesView | None:
    """None where nothing was counted."""
    if ages is None or len(ages.steps) < 2:
        return None
    total = sum(ages.alive)
    box = Box(ages.steps[0], max(ages.end, ages.steps[-1] + 1), 0, total)
    at, d = 0, f"M0 {box.y(0):.2f}"
    for step, alive in zip(ages.steps, ages.alive, strict=True):
        at += alive
        d += f" H{box.x(step):.2f} V{box.y(at):.2f}"
    stretches = sum(1 for alive in ages.alive if alive)
    whole = len(ages.alive)
    if 3 * stretches >= 2 * whole:
        said = "made all along the run, and still alive: a leak's staircase"
    elif any(ages.alive[: whole // 2]):
        said = "made now and then, and still alive"
    else:
        said = "only what was made lately is alive"
    return AgesView(
        d + " H100",
        ages.steps[0],
        ages.end,
        plural(total, noun),
        said,
    )
