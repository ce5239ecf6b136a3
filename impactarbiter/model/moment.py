"""How far a watched program is: what is said of it while it goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """Steps of ``step_kind``, and bytes; findings are those confirmed.

    ``steps_to_oom``, ``seconds_to_oom``: of the finding that ends it first.
    """

    steps: int
    step_kind: str
    live_bytes: int
    peak_bytes: int
    resident_bytes: int
    bytes_per_step: float = 0.0
    findings: int = 0
    steps_to_oom: int | None = None
    seconds_to_oom: float | None = None
