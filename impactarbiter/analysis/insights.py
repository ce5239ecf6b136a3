"""Insights: what times and sizes of calls say together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..base.records import dataclass
from .patterns import TOP
from .results import Results
from .summaries import calls_of, per_function
from .trends import correlation, linear_trend, robust_trend

#: Standard deviation over mean from which times count as inconsistent.
VARIABLE = 0.5
#: From so many slow functions on the impact is high.
MANY_SLOW = 3
CORRELATION_CALLS, CORRELATED = 10, 0.7
TREND_CALLS, TREND_R, TREND_P = 5, 0.5, 0.05
#: Bytes a second that are of high impact.
FAST_GROWTH = 1e6


@dataclass
class PerformanceInsight:
    """What the figures of many calls suggest.

    ``category``: execution_time, memory_efficiency, correlation or temporal.
    ``impact``: low, medium or high.  ``confidence``: from 0 to 1.
    """

    category: str
    title: str
    description: str
    impact: str
    confidence: float
    data: dict[str, Any]
    recommendations: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return dict(vars(self))


def slow_functions(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[PerformanceInsight]:
    """Functions whose mean time is beyond most others'."""
    found, means = _mean_times(results, thresholds)
    if len(found) == 0:
        return
    limit = np.percentile(means, thresholds["slow_function_percentile"] * 100)
    order = np.argsort(-means, kind="stable")
    slow = [results.names[found[i]] for i in order if means[i] > limit]
    if not slow:
        return
    yield PerformanceInsight(
        category="execution_time",
        title="Slow Function Detection",
        description=(
            f"Identified {len(slow)} functions with high execution times"
        ),
        impact="high" if len(slow) > MANY_SLOW else "medium",
        confidence=0.8,
        data={
            "slow_functions": slow[:TOP],
            "slowest_function": results.names[found[order[0]]],
            "slowest_time": float(means[order[0]]),
            "threshold": float(limit),
        },
        recommendations=[
            "Profile these functions with torch.profiler",
            "Look for copies between devices and for .item() in loops",
            "Look for waits for the device",
            "Use larger batches where memory allows",
        ],
    )


def variable_functions(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[PerformanceInsight]:
    """Functions whose times vary by more than half of their mean."""
    found, means = _mean_times(results, thresholds)
    calls = calls_of(results)
    rows = results.array
    centre = np.zeros(len(results.names))
    centre[found] = means
    squares = per_function(
        results, (rows["time"] - centre[rows["function"]]) ** 2
    )
    # One call has no spread.
    some = calls[found] > 1
    found, means = found[some], means[some]
    ratio = np.sqrt(squares[found] / (calls[found] - 1))
    ratio = np.divide(ratio, means, np.zeros_like(means), where=means > 0)
    high = np.flatnonzero(ratio > VARIABLE)
    if len(high) == 0:
        return
    worst = high[np.argmax(ratio[high])]
    yield PerformanceInsight(
        category="execution_time",
        title="Inconsistent Execution Times",
        description="Functions with highly variable execution times detected",
        impact="medium",
        confidence=0.7,
        data={
            "variable_functions": [results.names[found[i]] for i in high],
            "highest_variance": (
                results.names[found[worst]],
                float(ratio[worst]),
            ),
        },
        recommendations=[
            "Call functions once or twice before they are timed",
            "See whether inputs differ in size",
            "See what else runs on the machine or the device",
            "Look at the collector and at memory that is reserved anew",
        ],
    )


def memory_intensive(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[PerformanceInsight]:
    """Functions that allocate more per second than most calls do."""
    rows = results.array
    timed = rows["time"] > 0
    if not timed.any():
        return
    ratios = rows["allocated"][timed] / rows["time"][timed]
    limit = np.percentile(ratios, thresholds["high_memory_percentile"] * 100)
    above = rows["function"][timed][ratios > limit]
    if len(above) == 0:
        return
    unique, first = np.unique(above, return_index=True)
    names = [results.names[i] for i in unique[np.argsort(first)]]
    yield PerformanceInsight(
        category="memory_efficiency",
        title="Memory-Intensive Functions",
        description=f"Identified {len(names)} memory-intensive functions",
        impact="medium",
        confidence=0.75,
        data={
            "memory_intensive_functions": names[:TOP],
            "threshold_ratio": float(limit),
        },
        recommendations=[
            "Use smaller data types where precision allows",
            "Work on pieces of large inputs",
            "Accumulate gradients over smaller batches",
            "Free large temporaries as soon as they are used",
        ],
    )


def time_and_memory(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[PerformanceInsight]:
    """Whether calls that allocate more take longer."""
    rows = results.array
    if len(rows) < CORRELATION_CALLS:
        return
    r = correlation(rows["time"], rows["allocated"])
    if abs(r) <= CORRELATED:
        return
    yield PerformanceInsight(
        category="correlation",
        title="Time-Memory Correlation",
        description=(
            f"Strong correlation ({r:.2f}) between execution time and memory"
        ),
        impact="medium",
        confidence=0.8,
        data={
            "correlation_coefficient": r,
            "interpretation": "positive" if r > 0 else "negative",
        },
        recommendations=[
            "See how much of the time allocation itself takes",
            "Allocate buffers once where sizes repeat",
            "Look at the order in which memory is read and written",
            "Watch the bandwidth of memory",
        ],
    )


def growth_over_time(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[PerformanceInsight]:
    """A significant upward trend of allocated memory, in bytes a second.

    ``robust_growth_rate`` and ``mann_kendall_p`` say the same in a way that
    a few outliers do not change.
    """
    rows = results.array
    if len(rows) < TREND_CALLS:
        return
    stamps = rows["before"]["timestamp"]
    order = np.argsort(stamps, kind="stable")
    times = stamps[order] - stamps[order[0]]
    values = rows["after"]["allocated"][order]
    line = linear_trend(times, values)
    if line is None or line.slope <= 0:
        return
    if abs(line.correlation) <= TREND_R or line.p_value >= TREND_P:
        return
    robust = robust_trend(times, values)
    yield PerformanceInsight(
        category="temporal",
        title="Memory Growth Trend",
        description="Detected upward trend in memory usage over time",
        impact="high" if line.slope > FAST_GROWTH else "medium",
        confidence=abs(line.correlation),
        data={
            "growth_rate": line.slope,
            "correlation": line.correlation,
            "p_value": line.p_value,
            "time_span": float(times[-1]),
            "robust_growth_rate": robust.slope if robust else None,
            "mann_kendall_p": robust.p_value if robust else None,
        },
        recommendations=[
            "See which patterns are leaks, and who holds their memory",
            "Clear caches and histories that only grow",
            "Let the program run until the curve is flat, or is not",
            "Set a limit of memory for the process",
        ],
    )


#: In the order in which their insights are reported.
INSIGHT_RULES = (
    slow_functions,
    variable_functions,
    memory_intensive,
    time_and_memory,
    growth_over_time,
)


def _mean_times(
    results: Results, thresholds: Mapping[str, float]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Functions that were called often enough, and their mean seconds."""
    calls = calls_of(results)
    least = max(thresholds["min_calls_for_analysis"], 1)
    found = np.flatnonzero(calls >= least)
    sums = per_function(results, results.array["time"])
    return found, sums[found] / calls[found]
