"""The words that findings are sorted by: verdicts and severities."""

from __future__ import annotations

#: Verdicts, the most certain harm first.
VERDICTS = ("leak", "growing", "cycle", "native", "accumulation", "cache")
#: Verdicts that report growth which is bounded: information, no alarm.
BOUNDED = frozenset({"accumulation", "cache"})
#: Severities, mildest first: the index is the rank.
SEVERITIES = ("info", "warning", "critical")


def severity_rank(severity: str) -> int:
    """0 for ``info``, 2 for ``critical``."""
    return SEVERITIES.index(severity)
