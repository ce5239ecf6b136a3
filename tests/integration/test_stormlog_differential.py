"""Our analyzer beside the real Stormlog's, on the same recorded series.

Only the numbers count: names of types, severities, functions, metrics and
scores.  The wording is our own.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from impactarbiter import MemoryAnalyzer

stormlog_analyzer = pytest.importorskip("stormlog.analyzer")
stormlog_profiler = pytest.importorskip("stormlog.profiler")

MIB = 1 << 20
#: Where theirs and the documentation part, both are set alike.
LEAK_RATIOS = (0.1, 0.7)


def snapshot(at: float, allocated: int, reserved: int, inactive: int) -> Any:
    return stormlog_profiler.MemorySnapshot(
        timestamp=at,
        allocated_memory=allocated,
        reserved_memory=reserved,
        max_memory_allocated=allocated,
        max_memory_reserved=reserved,
        active_memory=allocated,
        inactive_memory=inactive,
        cpu_memory=0,
    )


def result(
    name: str,
    at: float,
    took: float,
    before: int,
    kept: int,
    allocated: int,
    peak: int,
    reserved: int = 0,
    inactive: int = 0,
) -> Any:
    return stormlog_profiler.ProfileResult(
        function_name=name,
        execution_time=took,
        memory_before=snapshot(at, before, reserved, 0),
        memory_after=snapshot(at + took, before + kept, reserved, inactive),
        memory_peak=snapshot(at + took, peak, reserved, inactive),
        memory_allocated=allocated,
        memory_freed=allocated - kept,
        tensors_created=1,
        tensors_deleted=0,
    )


def steady_leak(rng: random.Random) -> Iterator[Any]:
    live = 0
    for i in range(60):
        kept = rng.randrange(2 * MIB, 6 * MIB)
        yield result("step", i * 0.1, 0.01, live, kept, 9 * MIB, live + MIB)
        live += kept


def large_leak(rng: random.Random) -> Iterator[Any]:
    live = 0
    for i in range(30):
        kept = rng.choice([0, 80 * MIB, -5 * MIB, 90 * MIB])
        size = 100 * MIB
        yield result("step", i * 0.1, 0.01, live, kept, size, live + size)
        live += kept


def healthy(rng: random.Random) -> Iterator[Any]:
    for i in range(40):
        name = rng.choice(["forward", "backward", "optimize"])
        size = rng.randrange(1, 30 * MIB)
        yield result(name, i * 0.2, rng.random(), 5, 0, size, 5 + size)


def fragmented(rng: random.Random) -> Iterator[Any]:
    for i in range(20):
        reserved = 1000 * MIB
        inactive = rng.randrange(100 * MIB, 900 * MIB)
        name = f"f{rng.randrange(3)}"
        yield result(
            name, i, 0.1, 5, 0, 70 * MIB, 80 * MIB, reserved, inactive
        )


def wasteful(rng: random.Random) -> Iterator[Any]:
    for i in range(24):
        size = rng.randrange(60 * MIB, 300 * MIB)
        peak = 10 + rng.randrange(1, size)
        yield result(f"w{i % 4}", i, 0.1, 10, 0, size, peak)


def spiky(rng: random.Random) -> Iterator[Any]:
    for i in range(50):
        size = 900 * MIB if rng.random() < 0.12 else rng.randrange(1, MIB)
        yield result(f"s{i % 5}", i, 0.05, 7, 0, size, 7 + size)


def busy(rng: random.Random) -> Iterator[Any]:
    """Twelve functions of different speed, some of them irregular."""
    for i in range(240):
        number = rng.randrange(12)
        size = rng.randrange(MIB)
        took = 0.001 * 3**number * rng.choice([1, 1, 1, 4])
        yield result(f"b{number}", i, took, 3, 0, size, 3 + size // 3 + 1)


def correlated(rng: random.Random) -> Iterator[Any]:
    for i in range(30):
        took = rng.random() + 0.1
        size = int(took * 50 * MIB * rng.uniform(0.9, 1.1))
        yield result("c", i, took, 3, size // 100, size, 3 + size)


def constant(rng: random.Random) -> Iterator[Any]:
    for i in range(15):
        yield result("same", i, 0.5, 3, 0, MIB, 3 + MIB)


def few(rng: random.Random) -> Iterator[Any]:
    for i in range(rng.randrange(1, 5)):
        yield result("load", i, 0.5, i * 40 * MIB, 40 * MIB, 40 * MIB, 1)


def random_calls(rng: random.Random) -> Iterator[Any]:
    live = 100 * MIB
    scale = 10 ** rng.uniform(4, 9)
    for i in range(rng.randrange(2, 80)):
        size = int(rng.random() * scale)
        kept = int((rng.random() - 0.3) * size)
        reserved = int(live * rng.uniform(1, 3))
        yield result(
            f"r{rng.randrange(1, 5)}",
            i + rng.random(),
            rng.expovariate(1),
            live,
            kept,
            size,
            live + int(size * rng.random()),
            reserved,
            int(reserved * rng.random()),
        )
        live = max(live + kept, 0)


SERIES = (
    steady_leak,
    large_leak,
    healthy,
    fragmented,
    wasteful,
    spiky,
    busy,
    correlated,
    constant,
    few,
    random_calls,
)
#: Their order of names is that of a set.
UNORDERED = {"affected_functions", "memory_intensive_functions"}
#: What ours has beyond theirs.
OURS = {"robust_growth_rate", "mann_kendall_p"}


def assert_same(ours: Any, theirs: Any, key: str = "") -> None:
    """Numbers nearly equal; as sets, where order is none."""
    if isinstance(theirs, dict):
        assert set(ours) - OURS == set(theirs)
        for name in theirs:
            assert_same(ours[name], theirs[name], name)
    elif isinstance(theirs, (list, tuple)):
        order = sorted if key in UNORDERED else list
        assert len(ours) == len(theirs)
        for one, other in zip(order(ours), order(theirs), strict=True):
            assert_same(one, other)
    elif isinstance(theirs, (int, float, np.number)):
        assert ours == pytest.approx(float(theirs), rel=1e-9)
    else:
        assert ours == theirs


def of_pattern(pattern: Any) -> Any:
    return {
        "type": pattern.pattern_type,
        "severity": pattern.severity,
        "affected_functions": pattern.affected_functions,
        "metrics": pattern.metrics,
    }


def of_insight(insight: Any) -> Any:
    names = ("category", "title", "description", "impact", "confidence")
    data = {name: getattr(insight, name) for name in names}
    return {**data, "data": insight.data}


def both(results: list[Any], ratio: float) -> tuple[Any, MemoryAnalyzer]:
    theirs, ours = stormlog_analyzer.MemoryAnalyzer(), MemoryAnalyzer()
    theirs.thresholds["memory_leak_ratio"] = ratio
    ours.thresholds["memory_leak_ratio"] = ratio
    return theirs, ours


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ratio", LEAK_RATIOS)
@pytest.mark.parametrize("series", SERIES)
def test_same_answers(series: Any, ratio: float, seed: int) -> None:
    results = list(series(random.Random(seed)))
    theirs, ours = both(results, ratio)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy's, on constant series
        expected_patterns = theirs.analyze_memory_patterns(results)
        expected_insights = theirs.generate_performance_insights(results)
        expected = theirs.generate_optimization_report(results)
    patterns = ours.analyze_memory_patterns(results)
    insights = ours.generate_performance_insights(results)
    report = ours.generate_optimization_report(results)

    assert_same(
        [of_pattern(p) for p in patterns],
        [of_pattern(p) for p in expected_patterns],
    )
    assert_same(
        [of_insight(i) for i in insights],
        [of_insight(i) for i in expected_insights],
    )
    assert all(pattern.source == "statistics" for pattern in patterns)
    assert set(report) >= set(expected)
    for key in ("score", "grade", "issues_found"):
        score = report["optimization_score"]
        assert score[key] == expected["optimization_score"][key]
    assert_same(report["summary"], expected["summary"])
    for key in ("critical_issues", "all_patterns", "all_insights"):
        assert len(report[key]) == len(expected[key])
    assert [
        (r["priority"], r["category"]) for r in report["recommendations"]
    ] == [(r["priority"], r["category"]) for r in expected["recommendations"]]


def test_every_kind_of_answer_occurs() -> None:
    """The series above make both analyzers say all that they can say."""
    kinds, titles = set(), set()
    for series in SERIES:
        for seed in range(6):
            results = list(series(random.Random(seed)))
            ours = MemoryAnalyzer()
            kinds |= {
                (p.pattern_type, p.severity)
                for p in ours.analyze_memory_patterns(results)
            }
            titles |= {
                i.title for i in ours.generate_performance_insights(results)
            }
    assert kinds == {
        ("memory_leak", "warning"),
        ("memory_leak", "critical"),
        ("fragmentation", "warning"),
        ("fragmentation", "critical"),
        ("inefficient_allocation", "warning"),
        ("memory_spikes", "warning"),
        ("memory_spikes", "critical"),
        ("repeated_allocations", "info"),
    }
    assert len(titles) == 5
