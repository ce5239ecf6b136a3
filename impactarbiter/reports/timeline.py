"""What was measured over the steps as a picture, and the forecast."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from ..base.errors import MissingExtraError, ReportError, WrongTypeError
from ..base.files import write_atomic
from ..base.text import clean
from ..base.units import format_bytes
from ..model.history import History
from ..model.report import Report
from .charts import (
    LEAST_RANGE,
    NOT_HIGHER,
    Growth,
    growth_of,
    layers_of,
    nodes_at,
    nodes_text,
)
from .first_line import alarming
from .purpose_chart import Purposes, marked, measured_by, purposes_of
from .scales import drawn_points
from .wording import forecast

_FORMATS = ("png", "svg", "pdf")
#: The forecast is a short end: this part of the run's steps.
_AHEAD = 0.15
_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_OTHER, _NODES, _PROCESS = "#b4bac4", "#7a3fb0", "#59616d"


def plot_report(report: Report, path_or_ax: Any) -> Any:
    """Draws on an ``Axes``, or writes a file by its suffix.

    Returns the ``Axes``.  Raises MissingExtraError without matplotlib,
    ReportError for a suffix or a place that cannot be written, and a TypeError
    for what is neither.
    """
    if not isinstance(path_or_ax, (str, os.PathLike)):
        if not hasattr(path_or_ax, "fill_between"):
            raise WrongTypeError(
                f"plot() got {type(path_or_ax).__name__}: expected a file"
                " name that ends in .png, .svg or .pdf, or an Axes"
            )
        draw(report, path_or_ax)
        return path_or_ax
    path = os.fspath(path_or_ax)
    kind = check_suffix(path)
    try:
        # A figure of our own: the user's backend and pyplot stay as they are.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "matplotlib", "the timeline", "report"
        ) from None
    further = _further(report)
    rows = 1 + len(further)
    figure = Figure(figsize=(9, 0.5 + 4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(rows, 1, 1)
    draw(report, axes)
    for row, drawn in enumerate(further, 2):
        drawn(figure.add_subplot(rows, 1, row))
    image = io.BytesIO()
    figure.savefig(image, format=kind, dpi=120)
    write_atomic(path, image.getvalue())
    return axes


def _further(report: Report) -> list[Callable[[Any], None]]:
    """What draws the pictures below the first, each on its axes."""
    growth = growth_of(report.history)
    purposes = purposes_of(report.history)
    found: list[Callable[[Any], None]] = []
    if growth is not None:
        found.append(lambda axes: draw_growth(report, growth, axes))
    if purposes is not None:
        found.append(lambda axes: draw_purposes(report, purposes, axes))
    return found


def check_suffix(path: str) -> str:
    """The image format that ``path`` asks for; ReportError for others."""
    kind = PurePath(path).suffix.lower().lstrip(".")
    if kind not in _FORMATS:
        raise ReportError(
            f"{path!r} is no image file: expected a name that ends in .png,"
            " .svg or .pdf"
        )
    return kind


def draw(report: Report, axes: Any) -> None:
    """What was measured, on ``axes``: live bytes by line, and the process.

    Labels are taken as plain text.
    """
    history = report.history
    chosen = drawn_points(history.steps)
    steps = [history.steps[i] for i in chosen] or [report.steps]
    live = [history.live_bytes[i] for i in chosen] or [report.live_bytes]
    below = [0] * len(steps)
    layers = layers_of(history, chosen) if chosen else []
    layers.append(("nodes", nodes_text(history), nodes_at(history, steps)))
    for look, text, sizes in layers:
        if not any(sizes):
            continue
        top = [a + b for a, b in zip(below, sizes, strict=True)]
        colour = _colour(look)
        label = _plain(text)
        axes.fill_between(steps, below, top, color=colour, label=label, lw=0)
        below = top
    axes.plot(steps, live, color="black", lw=1, label=f"live {report.noun}s")
    process = [history.resident_bytes[i] for i in chosen if _measured(history)]
    if process and max(process) <= NOT_HIGHER * max(below):
        axes.plot(steps, process, color=_PROCESS, label="the process")
    _draw_marks(report, axes, steps)
    _draw_forecast(report, axes, steps, below[-1])
    axes.set_title("Memory by line", loc="left")
    _finish(report, axes, f"live {report.noun} memory")


def draw_growth(report: Report, growth: Growth, axes: Any) -> None:
    """What each sort gained since the build-up: a run without a leak is flat
    here."""
    top = 0
    for points, colour, label in (
        (growth.process, _PROCESS, "the process"),
        (growth.nodes, _NODES, "autograd nodes"),
        (growth.tensors, _COLOURS[0], f"{report.noun}s"),
    ):
        if points:
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, color=colour, label=label)
            if label != "the process" or report.process_bytes_per_step:
                top = max(top, *ys)
    whole = max(report.history.resident_bytes or report.history.live_bytes)
    # Flatter than that looks flat; a wild process is cut off.
    top = max(top, whole // LEAST_RANGE, 1)
    axes.set_ylim(-0.25 * top, 1.15 * top)
    since = f"{growth.since:,}"
    axes.set_title(f"Growth since step {since}", loc="left")
    _draw_marks(report, axes, [x for x, _ in growth.tensors])
    _finish(report, axes, "gained")


def draw_purposes(report: Report, found: Purposes, axes: Any) -> None:
    """What memory is for, at the walks that measured it."""
    steps = found.steps
    below: Sequence[int] = [0] * len(steps)
    for look, text, sizes in found.layers:
        top = [a + b for a, b in zip(below, sizes, strict=True)]
        label = f"{_plain(text)}: {format_bytes(sizes[-1])}"
        axes.fill_between(
            steps, below, top, color=_colour(look), label=label, lw=0
        )
        below = top
    if marked(steps):
        axes.vlines(steps, 0, below, color="black", lw=0.8, ls=":")
    axes.set_title(
        f"Memory by purpose ({measured_by(steps)}: straight lines in between)",
        loc="left",
    )
    axes.set_xlim(*_span(report, steps))
    axes.set_ylim(top=1.05 * max(below))
    _finish(report, axes, f"live {report.noun} memory")


def _span(report: Report, steps: Sequence[int]) -> tuple[int, int]:
    """The whole run's, for the pictures stand one above the other."""
    every = [*report.history.steps, *steps]
    return min(every), max(every)


def _measured(history: History) -> bool:
    return bool(history.resident_bytes)


def _colour(look: str) -> str:
    if look == "nodes":
        return _NODES
    return _COLOURS[int(look[1:])] if look != "other" else _OTHER


def _finish(report: Report, axes: Any, what: str) -> None:
    axes.set_xlabel(f"{report.step_kind} step")
    axes.set_ylabel(what)
    low, high = axes.get_ylim()
    if low >= 0 or what != "gained":
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(_binary_ticks(high))
    axes.yaxis.set_major_formatter(lambda value, _: format_bytes(value))
    axes.legend(loc="upper left", fontsize="small")


def _draw_marks(report: Report, axes: Any, steps: Sequence[int]) -> None:
    """Where the most urgent finding began and was confirmed."""
    for finding in alarming(report)[:1]:
        for step, what, style in (
            (finding.first_step, "began", ":"),
            (finding.confirmed_step, "confirmed", "-."),
        ):
            if step is not None and steps[0] <= step <= steps[-1]:
                label = f"{what}: step {step:,}"
                axes.axvline(step, color="red", ls=style, lw=1, label=label)


def _binary_ticks(top: float) -> Any:
    """Ticks at a power of two, four to eight of them."""
    from matplotlib.ticker import MultipleLocator

    return MultipleLocator(2 ** math.floor(math.log2(max(top, 8) / 4)))


def _draw_forecast(
    report: Report, axes: Any, steps: Sequence[int], now: int
) -> None:
    """A short dashed end, and the limit where it is in sight."""
    growing = [f for f in alarming(report) if f.all_bytes_per_step > 0]
    limit, step = report.memory_limit, steps[-1]
    ahead = max((step - steps[0]) * _AHEAD, 1)
    reached = now + sum(f.all_bytes_per_step for f in growing) * ahead
    if limit is not None and limit <= 2 * max(reached, axes.get_ylim()[1]):
        axes.axhline(limit, color="red", linestyle=":", label="limit")
    if growing:
        axes.plot(
            [step, step + ahead],
            [now, reached],
            color="red",
            linestyle="--",
            label=_plain("forecast: " + forecast(growing[0])),
        )


def _plain(text: str) -> str:
    """A label that matplotlib takes as it stands: no maths, no escapes.

    A leading underscore would hide it from the legend.
    """
    text = clean(text).replace("$", r"\$")
    text = text if len(text) <= 60 else text[:57] + "..."
    return " " + text if text.startswith("_") else text
