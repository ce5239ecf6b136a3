"""The report as text, on a terminal or not: the same words in both."""

from __future__ import annotations

from typing import Literal

from ..base.units import format_bytes
from ..model.finding import Finding
from ..model.order import by_urgency
from ..model.report import LineBytes, Report
from .console import Line, TextStream, emit, line, plain
from .first_line import alarming, summary
from .wording import Fact, ages_text, facts, footer, headline

_SEVERITY_STYLE = {
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
}
_LABEL_WIDTH = 11

#: How much is said: one line, what to know, all that is known.
Detail = Literal["short", "usual", "full"]


def report_lines(report: Report, detail: Detail = "usual") -> list[Line]:
    """First the verdict and what to do, then the findings, then the cost."""
    urgent = alarming(report)
    style = _SEVERITY_STYLE[urgent[0].severity] if urgent else "bold green"
    children = report.children
    if children is not None and children.severity and not urgent:
        style = _SEVERITY_STYLE[children.severity]
    elif not urgent and (
        not report.complete or report.steps < max(report.needed_steps, 1)
    ):
        style = "bold yellow"
    lines = [line(("ImpactArbiter: ", "bold"), (summary(report), style))]
    if detail == "short":
        return lines
    shown: set[str] = set()
    for finding in by_urgency(report.findings):
        lines.append([])
        lines.extend(finding_lines(finding, shown))
        if detail == "full":
            lines.extend(_details(finding))
    told = children.findings if children is not None else ()
    for child in told:
        lines += [[], line(("on ", "dim"), child.on)]
        lines.extend(finding_lines(child.worst, shown))
    if report.lines:
        lines += [[], line(("alive by line, and since when", "bold"))]
        lines.extend(_line_rows(report.lines))
    if report.findings or told or report.lines:
        lines.append([])
    lines.extend(line((text, "dim")) for text in footer(report))
    lines.extend(
        line(("warning: ", "yellow"), text) for text in report.warnings
    )
    return lines


def finding_lines(
    finding: Finding, shown: set[str] | None = None
) -> list[Line]:
    """Severity and verdict, one sentence, then the labelled lines.

    A patch that is in ``shown`` stands above already; else it is put there.
    """
    head = f"{finding.severity.upper()} {finding.verdict}: "
    style = _SEVERITY_STYLE[finding.severity]
    lines = [line((head, style), (headline(finding), "bold"))]
    for fact in facts(finding):
        if fact.label == "patch" and shown is not None and finding.patch:
            if finding.patch in shown:
                fact = Fact("patch", "the same as above")
            shown.add(finding.patch)
        lines.extend(_fact_lines(fact))
    return lines


def _line_rows(found: tuple[LineBytes, ...]) -> list[Line]:
    """A line of the program each, and its bytes by age below it."""
    rows = []
    for one in found:
        rows.append(
            line(
                f"  {format_bytes(one.bytes):>10} {one.blocks:>7} \u00d7"
                f" {one.site}"
            )
        )
        rows.append(line(" " * 21, (ages_text(one), "dim")))
    return rows


def _details(finding: Finding) -> list[Line]:
    """What few want to know: the rule, and where in full it came from."""
    found = [Fact("rule", f"{finding.rule}, see docs/verdicts.md")]
    if len(finding.stack) > 1:
        frames = tuple(str(site) for site in finding.stack)
        found.append(Fact("stack", "innermost first", frames))
    if len(finding.grown_stack) > 1:
        frames = tuple(str(site) for site in finding.grown_stack)
        found.append(Fact("grown by", "innermost first", frames))
    return [
        one
        for fact in found[0 if finding.rule else 1 :]
        for one in _fact_lines(fact)
    ]


def _fact_lines(fact: Fact) -> list[Line]:
    label = f"  {fact.label:<{_LABEL_WIDTH}} "
    style = "bold green" if fact.label == "do" else ""
    lines = [line((label, "dim"), (fact.text, style))]
    indent = " " * (_LABEL_WIDTH + 3)
    lines.extend(
        line(indent, (text, _code_style(fact, text))) for text in fact.code
    )
    return lines


def _code_style(fact: Fact, text: str) -> str:
    if fact.label == "patch":
        return {"+": "green", "-": "red"}.get(text[:1], "dim")
    return "italic"


def report_text(report: Report) -> str:
    """The whole report without colour."""
    return plain(report_lines(report))


def finding_text(finding: Finding) -> str:
    """One finding without colour."""
    return plain(finding_lines(finding))


def print_report(
    report: Report, stream: TextStream, detail: Detail = "usual"
) -> None:
    """Writes the report to ``stream``, coloured where it is a terminal."""
    emit(report_lines(report, detail), stream)
