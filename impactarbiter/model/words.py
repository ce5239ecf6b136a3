"""The words that findings are sorted by: verdicts and severities."""

from __future__ import annotations

from typing import Literal, get_args

#: The most certain harm first.
Verdict = Literal[
    "leak", "growing", "cycle", "native", "accumulation", "cache"
]
#: Mildest first.
Severity = Literal["info", "warning", "critical"]
#: What ``watch()`` is told of steps.
StepMode = Literal["auto", "manual"]
#: What a report's steps are; "allocation" in another tool's recording.
StepKind = Literal[
    "optimizer",
    "backward",
    "module call",
    "compiled call",
    "manual",
    "loop turn",
    "allocation",
]
#: What ``explain()`` says of an object.
RetentionVerdict = Literal["held", "cycle", "native", "free"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: Verdicts that report growth which is bounded: information, no alarm.
BOUNDED = frozenset({"accumulation", "cache"})
#: The index is the rank.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def is_confirmed(verdict: str | None) -> bool:
    """Whether it is settled, and settled to be no bounded growth."""
    return verdict not in (None, "growing") and verdict not in BOUNDED


def severity_rank(severity: str) -> int:
    """0 for ``info``, 2 for ``critical``."""
    return SEVERITIES.index(severity)
