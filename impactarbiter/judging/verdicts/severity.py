"""How bad a finding is: how soon it kills the run.

The verdict says what it is; what is bounded, or may be, kills nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.records import dataclass, replace
from ...base.units import GIB
from ...model.words import BOUNDED, Severity
from .rules import COLLECTS, MAY_END

if TYPE_CHECKING:
    from ...model.finding import Finding

DAY = 86_400.0


@dataclass(frozen=True)
class SeverityRules:
    """Thresholds; bytes are counted in 1024, times in steps and seconds.

    A finding is critical where it holds much already, or where memory runs
    out before somebody comes back to look: within the planned run or a day.
    It is a warning where it does so in a run as long as the longest are.
    """

    critical_bytes: int = GIB
    critical_seconds: float = DAY
    warning_steps: int = 1_000_000
    warning_seconds: float = 30 * DAY

    def of(
        self,
        finding: Finding,
        planned_steps: int | None = None,
    ) -> Severity:
        """The severity; ``planned_steps``: how many are still to come."""
        if finding.verdict in BOUNDED or finding.rule in (MAY_END, COLLECTS):
            return "info"
        if finding.goes_in_time:
            return "info"
        if finding.retained_bytes > self.critical_bytes:
            return "critical"
        steps, seconds = finding.steps_to_oom, finding.seconds_to_oom
        if steps is None:
            # Without a forecast nobody can say that it is harmless.
            return "warning" if finding.all_bytes_per_step > 0 else "info"
        if _within(steps, planned_steps):
            return "critical"
        if _within(seconds, self.critical_seconds):
            return "critical"
        if steps <= self.warning_steps:
            return "warning"
        return "warning" if _within(seconds, self.warning_seconds) else "info"

    def grade(
        self, finding: Finding, planned_steps: int | None = None
    ) -> Finding:
        """The finding with its severity by these rules."""
        return replace(finding, severity=self.of(finding, planned_steps))


def _within(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value <= limit


DEFAULT_RULES = SeverityRules()
