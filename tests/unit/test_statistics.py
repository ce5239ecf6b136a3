"""Trends and tables of results against SciPy and the obvious."""

from __future__ import annotations

import math

import numpy as np
import pytest
import warm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from impactarbiter import MemoryAnalyzer, UsageError
from impactarbiter.analysis.results import (
    RESULT,
    MemorySnapshot,
    ProfileResult,
    Results,
)
from impactarbiter.analysis.trends import (
    RANK_POINTS,
    SLOPE_POINTS,
    correlation,
    linear_trend,
    robust_trend,
    thinned,
)

values = st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=80)
gaps = st.floats(0.001, 100)


@st.composite
def series(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    y = draw(values)
    x = np.cumsum(draw(st.lists(gaps, min_size=len(y), max_size=len(y))))
    return x, np.array(y, float)


@given(series())
def test_line_is_scipys(points: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = points
    line = linear_trend(x, y)
    if np.ptp(y) == 0:
        assert line is None
        return
    wanted = stats.linregress(x, y)
    assert line is not None
    assert line.slope == pytest.approx(wanted.slope, rel=1e-9)
    assert line.correlation == pytest.approx(wanted.rvalue, rel=1e-9)
    assert line.p_value == pytest.approx(wanted.pvalue, rel=1e-9)


@given(series())
def test_robust_is_scipys(points: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = points
    trend = robust_trend(x, y)
    assert trend is not None
    assert trend.slope == pytest.approx(stats.theilslopes(y, x).slope)
    assert trend.low <= trend.slope <= trend.high
    assert trend.points == len(x)
    if np.ptp(y) == 0:
        assert (trend.tau, trend.p_value) == (0.0, 1.0)
    else:
        wanted = stats.kendalltau(x, y)
        assert trend.tau == pytest.approx(wanted.statistic)
        assert trend.p_value == pytest.approx(wanted.pvalue)


@given(values, values)
def test_correlation_is_scipys(one: list[int], other: list[int]) -> None:
    size = min(len(one), len(other))
    x, y = np.array(one[:size], float), np.array(other[:size], float)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert correlation(x, y) == 0.0
        return
    # Where rounding alone makes the spread, so does it the correlation.
    assume(min(x.std(), y.std()) > 1e-3 * max(1, abs(x.mean())) / 1e9)
    wanted = stats.pearsonr(x, y).statistic
    assert correlation(x, y) == pytest.approx(wanted, abs=1e-6)


@given(
    st.floats(-1e6, 1e6).filter(lambda v: abs(v) > 1e-3),
    st.floats(-1e9, 1e9),
    st.integers(3, 200),
)
def test_a_line_is_found(slope: float, start: float, count: int) -> None:
    x = np.arange(count, dtype=float)
    trend = robust_trend(x, start + slope * x)
    assert trend is not None
    assert trend.slope == pytest.approx(slope, rel=1e-3, abs=1e-5)
    assert trend.tau == pytest.approx(math.copysign(1, slope))


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_outliers_change_little(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.arange(200.0)
    y = 5 * x + rng.normal(0, 1, 200)
    y[rng.choice(200, 30, replace=False)] += 1e6
    trend = robust_trend(x, y)
    assert trend is not None
    assert trend.low <= trend.slope <= trend.high
    assert trend.slope == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize(
    "x, y", [([], []), ([1, 2], [1, 2]), ([3, 3, 3, 3], [1, 2, 3, 4])]
)
def test_no_trend(x: list[float], y: list[float]) -> None:
    assert linear_trend(x, y) is None
    assert robust_trend(x, y) is None


def test_series_of_one_length_only() -> None:
    with pytest.raises(UsageError, match="of one length"):
        linear_trend([1, 2, 3], [1, 2])


@given(st.integers(0, 5000), st.integers(2, 500))
def test_thinning(count: int, most: int) -> None:
    picked = thinned(count, most)
    assert len(picked) == min(count, most)
    assert (np.diff(picked) > 0).all()
    if count:
        assert picked[0] == 0 and picked[-1] == count - 1


def test_long_series_are_bounded() -> None:
    """A million points: time and memory in the square would not end."""
    count = 1_000_000
    rng = np.random.default_rng(1)
    x = np.arange(count, dtype=float)
    trend = robust_trend(x, 3 * x + rng.normal(0, 1e5, count))
    assert trend is not None
    assert trend.points == SLOPE_POINTS < RANK_POINTS < count
    assert trend.slope == pytest.approx(3, rel=0.05)
    assert trend.p_value < 1e-6


# -- tables ------------------------------------------------------------------


def result(name: str, number: int) -> ProfileResult:
    snapshots = [
        MemorySnapshot(number + i, *range(number + i, number + i + 7))
        for i in range(3)
    ]
    return ProfileResult(
        name, number / 7, *snapshots, number + 1, number + 2, 3, 4, 5
    )


def test_results_read_as_they_were_written() -> None:
    written = [result(f"f{i % 3}", i) for i in range(200)]
    table = Results()
    for item in written[:100]:
        table.append(item)
    table.extend(written[100:])
    assert len(table) == 200 and table.names == ["f0", "f1", "f2"]
    for read, item in zip(table, written, strict=True):
        plain, wanted = read.to_dict(), item.to_dict()
        for when in ("before", "after", "peak"):
            # Named by what they were taken for.
            operation = plain[f"memory_{when}"].pop("operation")
            assert operation == f"{when}_{item.function_name}"
            wanted[f"memory_{when}"].pop("operation")
        assert plain == wanted
    assert table[-1].function_name == "f1"
    assert [r.execution_time for r in table[5:8]] == [5 / 7, 6 / 7, 1.0]
    with pytest.raises(IndexError):
        table[200]
    table.clear()
    assert len(table) == 0 and table.names == []


def test_filtered_results_are_a_table_again() -> None:
    table = Results.of(result(f"f{i % 3}", i) for i in range(30))
    only = Results.of([r for r in table if r.function_name == "f2"])
    assert only.names == ["f2"] and len(only) == 10
    assert (only.array["allocated"] == np.arange(3, 33, 3)).all()
    assert Results.of(only) is only


def test_rows_of_another_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="expected one dimension"):
        Results.from_array(["f"], np.zeros(3))
    rows = np.zeros(3, RESULT)
    rows["function"] = 1
    with pytest.raises(UsageError, match="numbers below 1"):
        Results.from_array(["f"], rows)


def test_a_million_results() -> None:
    """In columns, no object per result."""
    count = 1_000_000
    rng = np.random.default_rng(7)
    rows = np.zeros(count, RESULT)
    rows["function"] = rng.integers(0, 50, count)
    rows["time"] = rng.exponential(0.01, count)
    rows["before"]["timestamp"] = np.arange(count) * 0.01
    rows["before"]["allocated"] = np.arange(count) * 1000
    rows["after"]["allocated"] = np.arange(count) * 1000 + 1000
    rows["peak"]["allocated"] = np.arange(count) * 1000 + 5000
    rows["allocated"] = rng.integers(1, 1 << 20, count)
    table = Results.from_array([f"f{i}" for i in range(50)], rows)
    report = MemoryAnalyzer().generate_optimization_report(table)
    kinds = [p["pattern_type"] for p in report["all_patterns"]]
    assert kinds == ["inefficient_allocation", "repeated_allocations"]
    assert report["summary"]["total_function_calls"] == count
    (trend,) = [
        i for i in report["all_insights"] if i["category"] == "temporal"
    ]
    assert trend["data"]["growth_rate"] == pytest.approx(100_000, rel=1e-6)


def test_without_scipy_patterns_remain() -> None:
    """One line names the extra, where a trend is asked for."""
    program = """
import sys
sys.modules["scipy"] = None
from impactarbiter import MemoryAnalyzer, MissingExtraError
from impactarbiter.analysis.results import RESULT, Results
import numpy as np
rows = np.zeros(20, RESULT)
rows["before"]["timestamp"] = np.arange(20)
rows["after"]["allocated"] = np.arange(20)
table = Results.from_array(["f"], rows)
print(len(MemoryAnalyzer().analyze_memory_patterns(table)))
try:
    MemoryAnalyzer().generate_performance_insights(table)
except MissingExtraError as error:
    print(error)
"""
    done = warm.run(["-c", program])
    assert done.stdout.splitlines() == [
        "1",
        "a trend needs scipy, which is not installed:"
        " pip install 'scipy>=1.11'",
    ], done.stderr
