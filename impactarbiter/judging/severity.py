"""How bad a finding is, and which one comes first.

Severity says how soon a finding kills the run, the verdict what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..base.units import GIB, MIB
from ..model.words import BOUNDED

if TYPE_CHECKING:
    from ..model.finding import Finding


@dataclass(frozen=True)
class SeverityRules:
    """Thresholds; bytes are counted in 1024.

    A run counts as ``horizon_steps`` more,
    or as long again as it already was, whichever is longer.
    """

    critical_bytes: int = GIB
    warning_bytes: int = 100 * MIB
    warning_bytes_per_step: int = MIB
    horizon_steps: int = 1000

    def horizon(self, steps: int) -> int:
        """Steps that a run of ``steps`` so far is taken to go on for."""
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
        return replace(finding, severity=severity)


DEFAULT_RULES = SeverityRules()
