"""The optimization report's parts: summary, recommendations, score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .insights import PerformanceInsight
from .patterns import MemoryPattern
from .results import Results

#: Points off by severity of a pattern and by impact of an insight.
PATTERN_POINTS = {"critical": 20, "warning": 10, "info": 5}
INSIGHT_POINTS = {"high": 15, "medium": 8, "low": 3}
#: Lowest score of a grade, the best first.
GRADES = (
    (90, "A", "Memory is used well"),
    (80, "B", "Memory is used well, with small things to mend"),
    (70, "C", "Memory use is fair; some of it can be saved"),
    (60, "D", "Memory use is poor and needs a look"),
    (0, "F", "Memory use is critical: see to the worst issues at once"),
)
MOST_RECOMMENDATIONS = 10


def summary(results: Results) -> dict[str, Any]:
    """Totals: bytes, seconds, counts."""
    rows = results.array
    last = float(rows["after"]["timestamp"][-1]) if len(rows) else None
    return {
        "total_functions_analyzed": len(np.unique(rows["function"])),
        "total_function_calls": len(rows),
        "total_memory_allocated": int(rows["allocated"].sum()),
        "total_execution_time": float(rows["time"].sum()),
        "analysis_timestamp": last,
    }


def recommendations(
    patterns: Sequence[MemoryPattern], insights: Sequence[PerformanceInsight]
) -> list[dict[str, Any]]:
    """What to do, the most urgent first; ten at most."""
    ranked = [
        _recommendation("high", p)
        for p in patterns
        if p.severity == "critical"
    ]
    ranked += [
        {
            "priority": "high",
            "category": insight.category,
            "description": insight.description,
            "suggestions": insight.recommendations,
        }
        for insight in insights
        if insight.impact == "high"
    ]
    ranked += [
        _recommendation("medium", p)
        for p in patterns
        if p.severity == "warning"
    ]
    # A leak that is proven is worth fixing while it is small.
    ranked += [
        _recommendation("low", p)
        for p in patterns
        if p.severity == "info" and p.source == "ledger"
    ]
    return ranked[:MOST_RECOMMENDATIONS]


def _recommendation(priority: str, pattern: MemoryPattern) -> dict[str, Any]:
    return {
        "priority": priority,
        "category": pattern.pattern_type,
        "description": pattern.description,
        "suggestions": pattern.suggestions,
    }


def score(
    patterns: Sequence[MemoryPattern], insights: Sequence[PerformanceInsight]
) -> dict[str, Any]:
    """From 100 down to 0, and a grade for it."""
    lost = sum(PATTERN_POINTS[p.severity] for p in patterns)
    lost += sum(INSIGHT_POINTS[i.impact] for i in insights)
    points = max(100 - lost, 0)
    _, grade, description = next(g for g in GRADES if points >= g[0])
    return {
        "score": points,
        "grade": grade,
        "description": description,
        "issues_found": len(patterns) + len(insights),
    }
