"""Patterns in profiled calls: five rules over columns of numbers.

Thresholds, metrics, severities and their order are those that users of
gpumemprof know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..base.records import dataclass
from ..base.units import GIB, MIB
from ..model.finding import Finding
from .results import Results
from .summaries import calls_of, growth_of, per_function

#: Growth in all from which it counts, and average size up to which an
#: allocation is a small one.
LEAK_BYTES = 100 * MIB
SMALL_BYTES = 50 * MIB
MANY_CALLS = 10
#: Fragmentation from which it is critical.
CRITICAL_FRAGMENTATION = 0.5
#: As many spikes are critical.
CRITICAL_SPIKES = 5
#: How many functions a list of the worst ones names.
TOP = 5

DEFAULT_THRESHOLDS: Mapping[str, float] = {
    "memory_leak_ratio": 0.1,
    "fragmentation_ratio": 0.3,
    "inefficient_allocation_ratio": 0.5,
    "slow_function_percentile": 0.9,
    "high_memory_percentile": 0.9,
    "min_calls_for_analysis": 3,
    "gap_ratio_threshold": 0.05,
    "gap_spike_zscore": 2.0,
    "gap_drift_r_squared": 0.6,
    "gap_fragmentation_ratio": 0.3,
}


@dataclass
class MemoryPattern:
    """A pattern of memory use.

    ``pattern_type``: memory_leak, fragmentation, inefficient_allocation,
    memory_spikes or repeated_allocations.  ``severity``: info, warning or
    critical.  ``source`` says which rule spoke: "statistics" of the calls'
    figures, or the "ledger", whose ``findings`` then say who holds the
    memory; so does the metric ``evidence``, in plain data.
    """

    pattern_type: str
    description: str
    severity: str
    affected_functions: list[str]
    metrics: dict[str, Any]
    suggestions: list[str]
    findings: tuple[Finding, ...] = ()
    source: str = "statistics"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what reports and JSON hold."""
        from ..reports.jsonio import finding_to_dict

        findings = [finding_to_dict(finding) for finding in self.findings]
        return {**vars(self), "findings": findings}


def leak_metrics(
    growth: float, per_call: float, ratio: float, calls: int
) -> dict[str, Any]:
    """The metrics of a memory_leak; bytes, a share of the calls, calls."""
    return {
        "total_memory_growth": growth,
        "average_growth_per_call": per_call,
        "positive_growth_ratio": ratio,
        "call_count": calls,
    }


def memory_leaks(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[MemoryPattern]:
    """Functions whose calls leave ever more behind.

    One that frees in most of its calls is none, whatever the others left.
    """
    growth = growth_of(results)
    calls = calls_of(results)
    totals = per_function(results, growth)
    growing = per_function(results, growth > 0)
    freeing = per_function(results, growth < 0)
    for i, name in enumerate(results.names):
        if calls[i] < max(thresholds["min_calls_for_analysis"], 1):
            continue
        if 2 * freeing[i] > calls[i]:
            continue
        ratio = float(growing[i] / calls[i])
        if ratio <= thresholds["memory_leak_ratio"] or totals[i] <= LEAK_BYTES:
            continue
        yield MemoryPattern(
            pattern_type="memory_leak",
            description=(
                f"Function '{name}' shows potential memory leak pattern"
            ),
            severity="critical" if totals[i] > GIB else "warning",
            affected_functions=[name],
            metrics=leak_metrics(
                int(totals[i]),
                float(totals[i] / calls[i]),
                ratio,
                int(calls[i]),
            ),
            suggestions=[
                f"See what '{name}' keeps after it returns",
                "Store `.item()` or a detached copy instead of a tensor that"
                " still has its graph",
                "Bound or clear lists and caches that calls add to",
                "Release what a call needs once only before it returns",
            ],
        )


def fragmentation(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[MemoryPattern]:
    """Reserved memory that lies in split blocks which nobody uses."""
    after = results.array["after"]
    known = after["reserved"] > 0
    if not known.any():
        return
    shares = after["inactive"][known] / after["reserved"][known]
    average = float(shares.mean())
    if average <= thresholds["fragmentation_ratio"]:
        return
    high = shares > thresholds["fragmentation_ratio"]
    functions = _names(results, results.array["function"][known][high])
    yield MemoryPattern(
        pattern_type="fragmentation",
        description="High memory fragmentation detected across operations",
        severity=(
            "critical" if average > CRITICAL_FRAGMENTATION else "warning"
        ),
        affected_functions=functions,
        metrics={
            "average_fragmentation": average,
            "max_fragmentation": float(shares.max()),
            "high_fragmentation_functions": len(functions),
        },
        suggestions=[
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "Allocate what lives long before the loop begins",
            "Pad or bucket inputs, so that few different sizes occur",
        ],
    )


def inefficient_allocation(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[MemoryPattern]:
    """Calls that allocate far more in all than they need at once."""
    rows = results.array
    needed = rows["peak"]["allocated"] - rows["before"]["allocated"]
    counted = (rows["allocated"] > 0) & (needed > 0)
    share = needed / np.maximum(rows["allocated"], 1)
    limit = thresholds["inefficient_allocation_ratio"]
    wasteful = counted & (share < limit)
    calls = per_function(results, wasteful)
    least = max(thresholds["min_calls_for_analysis"], 1)
    found = np.flatnonzero(calls >= least)
    if len(found) == 0:
        return
    means = per_function(results, np.where(wasteful, share, 0.0))[found]
    order = _by_first(rows["function"][wasteful], found)
    yield MemoryPattern(
        pattern_type="inefficient_allocation",
        description=(
            "Functions with inefficient memory allocation patterns detected"
        ),
        severity="warning",
        affected_functions=[results.names[i] for i in order],
        metrics={
            "inefficient_function_count": len(found),
            "average_efficiency": float((means / calls[found]).mean()),
        },
        suggestions=[
            "Look for temporaries that are made and dropped in turn",
            "Compute in place where autograd allows it",
            "Allocate buffers once and write into them with `out=`",
            "Use views instead of copies",
        ],
    )


def memory_spikes(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[MemoryPattern]:
    """Calls that allocate far more than most: beyond Q3 + 1.5 IQR."""
    rows = results.array
    sizes = rows["allocated"][rows["allocated"] > 0]
    if len(sizes) < 3:
        return
    low, middle, high = np.quantile(sizes, (0.25, 0.5, 0.75))
    limit = float(high + 1.5 * (high - low))
    spikes = rows["allocated"] > limit
    count = int(spikes.sum())
    if count == 0:
        return
    yield MemoryPattern(
        pattern_type="memory_spikes",
        description=f"Detected {count} memory allocation spikes",
        severity="warning" if count < CRITICAL_SPIKES else "critical",
        affected_functions=_names(results, rows["function"][spikes]),
        metrics={
            "spike_count": count,
            "spike_threshold": limit,
            "max_allocation": int(sizes.max()),
            "median_allocation": float(middle),
        },
        suggestions=[
            "See which inputs make these calls larger than the others",
            "Split large batches",
            "Use gradient checkpointing where activations are the cause",
            "Watch these functions alone with profile_function",
        ],
    )


def repeated_allocations(
    results: Results, thresholds: Mapping[str, float]
) -> Iterator[MemoryPattern]:
    """Functions that are called often and allocate little each time."""
    calls = calls_of(results)
    totals = per_function(results, results.array["allocated"])
    average = totals / np.maximum(calls, 1)
    found = np.flatnonzero((calls >= MANY_CALLS) & (average < SMALL_BYTES))
    if len(found) == 0:
        return
    order = found[np.argsort(-totals[found], kind="stable")]
    top = [results.names[i] for i in order[:TOP]]
    yield MemoryPattern(
        pattern_type="repeated_allocations",
        description="Functions with frequent small allocations detected",
        severity="info",
        affected_functions=top,
        metrics={
            "function_count": len(found),
            "total_impact_functions": top,
            "total_memory_from_repeated": int(totals[found].sum()),
        },
        suggestions=[
            "Allocate once, outside the function, what it always needs",
            "Batch calls",
            "Keep buffers between calls",
            "Fuse small operations, with torch.compile for one",
        ],
    )


#: In the order in which their patterns are reported.
STATISTICAL_RULES = (
    memory_leaks,
    fragmentation,
    inefficient_allocation,
    memory_spikes,
    repeated_allocations,
)


def _names(results: Results, functions: np.ndarray[Any, Any]) -> list[str]:
    """Names of function numbers, each once, as they first appear."""
    unique, first = np.unique(functions, return_index=True)
    return [results.names[i] for i in unique[np.argsort(first)]]


def _by_first(
    functions: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]
) -> list[int]:
    """The wanted function numbers as they first appear."""
    unique, first = np.unique(functions, return_index=True)
    ordered = unique[np.argsort(first)]
    return [int(i) for i in ordered if i in set(wanted.tolist())]
