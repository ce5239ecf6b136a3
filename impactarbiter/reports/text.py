"""The report as text, on a terminal or not: the same words in both."""

from __future__ import annotations

from ..model.finding import Finding
from ..model.order import by_urgency
from ..model.report import Report
from .console import Line, TextStream, emit, line, plain
from .wording import Fact, alarming, facts, footer, headline, summary

_SEVERITY_STYLE = {
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
}
_LABEL_WIDTH = 11


def report_lines(report: Report) -> list[Line]:
    """First the verdict and what to do, then the findings, then the cost."""
    urgent = alarming(report)
    style = _SEVERITY_STYLE[urgent[0].severity] if urgent else "bold green"
    if not urgent and report.steps < max(report.needed_steps, 1):
        style = "bold yellow"
    lines = [line(("ImpactArbiter: ", "bold"), (summary(report), style))]
    for finding in by_urgency(report.findings):
        lines.append([])
        lines.extend(finding_lines(finding))
    if report.findings:
        lines.append([])
    lines.extend(line((text, "dim")) for text in footer(report))
    lines.extend(
        line(("warning: ", "yellow"), text) for text in report.warnings
    )
    return lines


def finding_lines(finding: Finding) -> list[Line]:
    """Severity and verdict, one sentence, then the labelled lines."""
    head = f"{finding.severity.upper()} {finding.verdict}: "
    style = _SEVERITY_STYLE[finding.severity]
    lines = [line((head, style), (headline(finding), "bold"))]
    for fact in facts(finding):
        lines.extend(_fact_lines(fact))
    return lines


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


def print_report(report: Report, stream: TextStream) -> None:
    """Writes the report to ``stream``, coloured where it is a terminal."""
    emit(report_lines(report), stream)
