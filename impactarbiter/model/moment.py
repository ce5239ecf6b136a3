"""How far a watched program is: what is said of it while it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.records import dataclass
from .finding import Finding
from .words import StepKind


@dataclass(frozen=True)
class Moment:
    """Steps of ``step_kind``, and bytes; findings are those confirmed.

    ``steps_to_oom``, ``seconds_to_oom``: of the finding that ends it first.
    """

    steps: int
    step_kind: StepKind
    live_bytes: int
    peak_bytes: int
    resident_bytes: int
    bytes_per_step: float = 0.0
    findings: int = 0
    steps_to_oom: int | None = None
    seconds_to_oom: float | None = None

    @classmethod
    def of(
        cls,
        confirmed: Sequence[Finding],
        *,
        steps: int,
        step_kind: StepKind,
        live_bytes: int,
        peak_bytes: int,
        resident_bytes: int,
    ) -> Moment:
        """With what these findings say of it."""
        first = min(
            (f for f in confirmed if f.steps_to_oom is not None),
            key=lambda f: f.steps_to_oom or 0,
            default=None,
        )
        return cls(
            steps=steps,
            step_kind=step_kind,
            live_bytes=live_bytes,
            peak_bytes=peak_bytes,
            resident_bytes=resident_bytes,
            bytes_per_step=sum(f.all_bytes_per_step for f in confirmed),
            findings=len(confirmed),
            steps_to_oom=None if first is None else first.steps_to_oom,
            seconds_to_oom=None if first is None else first.seconds_to_oom,
        )
