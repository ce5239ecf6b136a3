"""How bad a finding is, and which one comes first.

Severity says how soon a finding kills the run, the verdict what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.finding import Finding

#: Verdicts, the most certain harm first.
VERDICTS = ("leak", "growing", "cycle", "native", "accumulation", "cache")
#: Verdicts that report growth which is bounded: information, no alarm.
BOUNDED = frozenset({"accumulation", "cache"})
#: Severities, mildest first: the index is the rank.
SEVERITIES = ("info", "warning", "critical")

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class SeverityRules:
    """Thresholds; bytes are counted in 1024.

    A run that does not say how long it is counts as ``horizon_steps`` more,
    or as long again as it already was, whichever is longer.
    ``override`` is asked last: it gets the finding and the severity that the
    rules gave and returns the one to use.
    """

    critical_bytes: int = GIB
    warning_bytes: int = 100 * MIB
    warning_bytes_per_step: int = MIB
    horizon_steps: int = 1000
    override: Callable[[Finding, str], str] | None = None

    def horizon(self, steps: int, planned: int | None = None) -> int:
        """Steps still to come after ``steps``, of ``planned`` in all."""
        if planned is not None:
            return max(planned - steps, 0)
        return max(self.horizon_steps, steps)

    def of(
        self,
        verdict: str,
        retained_bytes: float,
        bytes_per_step: float,
        steps_to_oom: float | None = None,
        horizon: int | None = None,
    ) -> str:
        """The severity of these figures; ``horizon`` in steps from now."""
        if verdict in BOUNDED:
            return "info"
        within = self.horizon_steps if horizon is None else horizon
        runs_out = steps_to_oom is not None and steps_to_oom <= within
        if runs_out or retained_bytes > self.critical_bytes:
            return "critical"
        if (
            retained_bytes >= self.warning_bytes
            or bytes_per_step >= self.warning_bytes_per_step
        ):
            return "warning"
        return "info"

    def grade(self, finding: Finding, horizon: int | None = None) -> Finding:
        """The finding with its severity by these rules."""
        severity = self.of(
            finding.verdict,
            finding.retained_bytes,
            finding.all_bytes_per_step,
            finding.steps_to_oom,
            horizon,
        )
        if finding.cycle is not None and finding.cycle.collected_bytes:
            severity = "info"  # the collector comes in good time
        if self.override is not None:
            severity = self.override(finding, severity)
        return replace(finding, severity=severity)


DEFAULT_RULES = SeverityRules()


def severity_rank(severity: str) -> int:
    """0 for ``info``, 2 for ``critical``."""
    return SEVERITIES.index(severity)


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
