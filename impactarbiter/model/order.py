"""Which finding comes first, and how bad they are together."""

from __future__ import annotations

from collections.abc import Iterable

from .finding import Finding
from .words import SEVERITIES, VERDICTS, severity_rank


def worst(findings: Iterable[Finding]) -> str | None:
    """The highest severity among the findings, None without any."""
    ranks = [severity_rank(finding.severity) for finding in findings]
    return SEVERITIES[max(ranks)] if ranks else None


def reaches(findings: Iterable[Finding], threshold: str) -> bool:
    """Whether a finding is at least as severe as ``threshold``."""
    least = severity_rank(threshold)
    return any(severity_rank(f.severity) >= least for f in findings)


def by_rate(findings: Iterable[Finding]) -> list[Finding]:
    """Most bytes per step first, as ``Report.findings`` is ordered."""
    return sorted(
        findings,
        key=lambda f: (-f.all_bytes_per_step, -f.retained_bytes, f.signature),
    )


def by_urgency(findings: Iterable[Finding]) -> list[Finding]:
    """What kills the run first comes first, as a report is read."""

    def key(finding: Finding) -> tuple[float, ...]:
        soon = finding.steps_to_oom
        return (
            -severity_rank(finding.severity),
            float("inf") if soon is None else soon,
            VERDICTS.index(finding.verdict),
            -finding.all_bytes_per_step,
            -finding.retained_bytes,
        )

    return sorted(findings, key=key)
