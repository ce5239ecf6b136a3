"""Findings of one report by signature, so that runs can be compared."""

from __future__ import annotations

from ..base.records import dataclass
from ..base.units import format_bytes
from ..model.finding import Finding
from ..model.order import by_urgency, worst
from ..model.report import Report
from ..model.words import BOUNDED, severity_rank
from ..reports.console import Line, line
from ..reports.wording import headline


@dataclass(frozen=True)
class FindingGroup:
    """All findings of one report with one signature, taken together."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """The most urgent of them."""
        return self.findings[0]

    @property
    def bytes_per_step(self) -> float:
        return sum(finding.all_bytes_per_step for finding in self.findings)

    @property
    def retained_bytes(self) -> int:
        return sum(finding.retained_bytes for finding in self.findings)

    @property
    def severity(self) -> str:
        return worst(self.findings) or "info"

    @property
    def alarms(self) -> bool:
        """Whether one of them is more than bounded growth."""
        return any(f.verdict not in BOUNDED for f in self.findings)

    @property
    def rank(self) -> int:
        return severity_rank(self.severity)


def group_findings(report: Report) -> dict[str, FindingGroup]:
    """Signature -> group, the most urgent first."""
    lists: dict[str, list[Finding]] = {}
    for finding in by_urgency(report.findings):
        lists.setdefault(finding.signature, []).append(finding)
    return {name: FindingGroup(tuple(found)) for name, found in lists.items()}


def group_lines(mark: str, style: str, group: FindingGroup) -> list[Line]:
    """Its headline, and where to look."""
    first = group.first
    head = f"{mark:<5} {group.severity.upper()} {first.verdict}: "
    lines = [line((head, style), headline(first))]
    if first.site.known:
        lines.append(line(f"      {first.site}"))
    return lines


def change_text(old: float, new: float) -> str:
    """``10.0 MiB -> 12.0 MiB`` with an arrow, or the one value of both."""
    if format_bytes(old) == format_bytes(new):
        return format_bytes(new)
    return f"{format_bytes(old)} \u2192 {format_bytes(new)}"
