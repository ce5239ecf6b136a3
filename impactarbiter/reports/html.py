"""The report as one static page: no scripts, nothing loaded from outside."""

from __future__ import annotations

import functools
import html
import os
from typing import Any

from ..base.errors import MissingExtraError
from ..base.files import write_atomic
from ..base.text import clean
from ..base.units import format_bytes
from ..model.finding import Finding
from ..model.order import by_urgency
from ..model.report import History, Report
from .html_template import TEMPLATES
from .retention import path_fragment
from .wording import facts, footer, headline, summary

_WIDTH, _HEIGHT = 720, 160
#: More points than this cannot be told apart at that width.
_MOST_POINTS = 720


def write_html(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes the page atomically; ReportError where it can't."""
    page = report_page(report)
    write_atomic(path, page.encode("utf-8", "backslashreplace"))


def report_page(report: Report) -> str:
    """A whole page; MissingExtraError without jinja2."""
    return str(_environment().get_template("page").render(_view(report)))


def report_fragment(report: Report) -> str:
    """For a notebook; without jinja2 the text report in ``<pre>``."""
    try:
        environment = _environment()
    except MissingExtraError:
        return f"<pre>{html.escape(str(report))}</pre>"
    return str(environment.get_template("fragment").render(_view(report)))


@functools.cache
def _environment() -> Any:
    try:
        from jinja2 import DictLoader, Environment, StrictUndefined
    except ImportError:
        raise MissingExtraError("jinja2", "the HTML page", "report") from None
    environment = Environment(
        loader=DictLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Every text goes through clean, then through the escaping.
    environment.filters["clean"] = clean
    environment.filters["bytes"] = format_bytes
    return environment


def _view(report: Report) -> dict[str, Any]:
    findings = by_urgency(report.findings)
    return {
        "summary": summary(report),
        "findings": [
            _finding_view(finding, index == 0)
            for index, finding in enumerate(findings)
        ],
        "footer": footer(report),
        "warnings": report.warnings,
        "environment": sorted(report.environment.items()),
        "chart": _chart(report.history),
        "lines": [
            (format_bytes(one.bytes), one.blocks, str(one.site), one.by_age)
            for one in report.lines
        ],
    }


def _finding_view(finding: Finding, first: bool) -> dict[str, Any]:
    from markupsafe import Markup

    path = finding.path
    return {
        # Escaped already, text by text.
        "tree": Markup(path_fragment(path)) if path is not None else "",
        "severity": finding.severity,
        "verdict": finding.verdict,
        "headline": headline(finding),
        "facts": facts(finding),
        "stack": [(str(site), site.source) for site in finding.stack],
        "signature": finding.signature,
        "open": first,
    }


def _chart(history: History) -> dict[str, Any] | None:
    """Points of an SVG line, or None where there is no curve to show."""
    stride = max(len(history.steps) // _MOST_POINTS, 1)
    steps = history.steps[::stride]
    live = history.live_bytes[::stride]
    if len(steps) < 2 or steps[-1] <= steps[0] or max(live) <= 0:
        return None
    width, top = steps[-1] - steps[0], max(live)
    points = " ".join(
        f"{(step - steps[0]) / width * _WIDTH:.1f},"
        f"{_HEIGHT - size / top * _HEIGHT:.1f}"
        for step, size in zip(steps, live, strict=True)
    )
    return {
        "points": points,
        "width": _WIDTH,
        "height": _HEIGHT,
        "top": top,
        "first": steps[0],
        "last": steps[-1],
    }
