"""Totals over profiled calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from .results import Results


def per_function(
    results: Results, values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Sums of ``values`` (one per call) by function, in floats."""
    return np.bincount(
        results.array["function"], values, minlength=len(results.names)
    )


def calls_of(results: Results) -> np.ndarray[Any, Any]:
    """Number of calls by function."""
    return np.bincount(results.array["function"], minlength=len(results.names))


def growth_of(results: Results) -> np.ndarray[Any, Any]:
    """Bytes that each call has left behind."""
    rows = results.array
    growth: np.ndarray[Any, Any] = (
        rows["after"]["allocated"] - rows["before"]["allocated"]
    )
    return growth


def still_growing(results: Results, calls: int) -> list[str]:
    """Functions each of whose last ``calls`` calls has left memory behind."""
    growth = growth_of(results)
    found = []
    for i, name in enumerate(results.names):
        last = growth[results.array["function"] == i][-calls:]
        if len(last) == calls and (last > 0).all():
            found.append(name)
    return found


def summary_of(results: Results) -> dict[str, Any]:
    """What ``get_summary`` says of the results themselves."""
    rows = results.array
    allocated, freed = rows["allocated"].sum(), rows["freed"].sum()
    return {
        "total_functions_profiled": len(np.unique(rows["function"])),
        "total_function_calls": len(rows),
        "total_execution_time": float(rows["time"].sum()),
        "total_memory_allocated": int(allocated),
        "total_memory_freed": int(freed),
        "net_memory_change": int(allocated - freed),
        "peak_memory_usage": int(rows["peak"]["allocated"].max()),
        "function_summaries": _by_function(results),
    }


def _by_function(results: Results) -> dict[str, dict[str, Any]]:
    rows = results.array
    calls = calls_of(results)
    times = per_function(results, rows["time"])
    sizes = per_function(results, rows["allocated"])
    peaks = np.zeros(len(results.names), "i8")
    np.maximum.at(peaks, rows["function"], rows["peak"]["allocated"])
    return {
        name: {
            "call_count": int(calls[i]),
            "total_time": float(times[i]),
            "avg_time": float(times[i] / calls[i]),
            "total_memory_allocated": int(sizes[i]),
            "avg_memory_allocated": float(sizes[i] / calls[i]),
            "peak_memory": int(peaks[i]),
        }
        for i, name in enumerate(results.names)
        if calls[i]
    }
