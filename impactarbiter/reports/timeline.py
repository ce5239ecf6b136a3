"""Live bytes over the steps, what findings hold of it, and the forecast."""

from __future__ import annotations

import io
import math
import os
from pathlib import PurePath
from typing import Any

from ..base.errors import MissingExtraError, ReportError
from ..base.files import write_atomic
from ..base.text import clean
from ..base.units import format_bytes
from ..model.finding import Finding
from ..model.order import by_urgency
from ..model.report import Report
from ..model.words import BOUNDED
from .wording import forecast, subject

_FORMATS = ("png", "svg", "pdf")
#: Findings drawn apart; the rest would be slivers.
_MOST_SHARES = 4
#: A forecast further off than this many run lengths would flatten the run.
_HORIZON = 4


def plot_report(report: Report, path_or_ax: Any) -> Any:
    """Draws on an ``Axes``, or writes a file by its suffix.

    Returns the ``Axes``.  Raises MissingExtraError without matplotlib and
    ReportError for a suffix or a place that cannot be written.
    """
    if not isinstance(path_or_ax, (str, os.PathLike)):
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
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw(report, axes)
    image = io.BytesIO()
    figure.savefig(image, format=kind, dpi=120)
    write_atomic(path, image.getvalue())
    return axes


def check_suffix(path: str) -> str:
    """The image format that ``path`` asks for; ReportError for others."""
    kind = PurePath(path).suffix.lower().lstrip(".")
    if kind not in _FORMATS:
        raise ReportError(
            f"{path!r} is no image file: expected a name that ends in .png,"
            " .svg or .pdf"
        )
    return kind


def share_of(finding: Finding, step: int) -> float:
    """Bytes that a finding held after ``step``: its rate back from now."""
    if step < finding.first_step:
        return 0.0
    since = max(finding.last_step - step, 0) * finding.bytes_per_step
    return max(finding.retained_bytes - since, 0.0)


def draw(report: Report, axes: Any) -> None:
    """Draws on ``axes``; labels are taken as plain text."""
    steps, live = _series(report)
    below = [0.0] * len(steps)
    for finding in by_urgency(report.findings)[:_MOST_SHARES]:
        share = [share_of(finding, step) for step in steps]
        top = [
            min(a + b, size)
            for a, b, size in zip(below, share, live, strict=True)
        ]
        label = f"{finding.verdict}: {subject(finding)}"
        axes.fill_between(steps, below, top, alpha=0.5, label=_plain(label))
        below = top
    axes.plot(steps, live, color="black", label="live")
    _draw_forecast(report, axes, steps[-1], live[-1])
    axes.set_xlabel("step")
    axes.set_ylabel("live tensor memory")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(_binary_ticks(axes.get_ylim()[1]))
    axes.yaxis.set_major_formatter(lambda value, _: format_bytes(value))
    axes.legend(loc="upper left", fontsize="small")


def _binary_ticks(top: float) -> Any:
    """Ticks at a power of two, four to eight of them."""
    from matplotlib.ticker import MultipleLocator

    return MultipleLocator(2 ** math.floor(math.log2(max(top, 8) / 4)))


def _series(report: Report) -> tuple[list[int], list[int]]:
    if report.history.steps:
        return list(report.history.steps), list(report.history.live_bytes)
    return [report.steps], [report.live_bytes]


def _draw_forecast(report: Report, axes: Any, step: int, live: int) -> None:
    growing = [
        f
        for f in by_urgency(report.findings)
        if f.verdict not in BOUNDED and f.bytes_per_step > 0
    ]
    if not growing:
        return
    rate = sum(f.bytes_per_step for f in growing)
    ahead = max(step, 1) * _HORIZON
    limit = report.memory_limit
    if limit is not None and limit > live:
        reached = (limit - live) / rate
        if reached <= ahead:
            ahead = int(reached) + 1
            axes.axhline(limit, color="red", linestyle=":", label="limit")
    ends = [step, step + ahead]
    axes.plot(
        ends,
        [live, live + rate * ahead],
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
