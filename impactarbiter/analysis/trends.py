"""Trends of a series: by regression, and robustly.

All take two arrays of one length, times and values.  Regression and its p
value count every point; Theil-Sen looks at no more than ``SLOPE_POINTS`` of
them and Mann-Kendall at ``RANK_POINTS``, evenly spaced from the first to the
last, for the one needs time and memory in the square of the number.  SciPy
does the arithmetic (``pip install 'impactarbiter[analysis]'``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base.errors import MissingExtraError, UsageError
from ..base.records import dataclass

Array = np.ndarray[Any, Any]

#: Half a million slopes.
SLOPE_POINTS = 1000
RANK_POINTS = 20_000


@dataclass(frozen=True)
class Line:
    """A straight line through a series.

    ``slope`` is in values per unit of time, ``correlation`` is Pearson's r,
    ``p_value`` that of no slope at all (two-sided).
    """

    slope: float
    intercept: float
    correlation: float
    p_value: float


@dataclass(frozen=True)
class RobustTrend:
    """What outliers hardly change.

    ``slope`` is Theil's and Sen's, between ``low`` and ``high`` with 95 %
    confidence; ``tau`` is Kendall's, ``p_value`` that of no trend at all by
    Mann and Kendall (two-sided).  ``points`` were looked at for the slope.
    """

    slope: float
    low: float
    high: float
    tau: float
    p_value: float
    points: int


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise MissingExtraError("scipy", "a trend", "analysis") from None
    return stats


def _checked(times: Any, values: Any) -> tuple[Array, Array]:
    x, y = np.asarray(times, float), np.asarray(values, float)
    if x.ndim != 1 or x.shape != y.shape:
        raise UsageError(
            f"times have shape {x.shape}, values {y.shape}: expected two"
            " series of one length"
        )
    return x, y


def linear_trend(times: Any, values: Any) -> Line | None:
    """The line of least squares; None where there is none.

    There is none through fewer than three points, points of one time, or
    one value throughout.
    """
    x, y = _checked(times, values)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    line = _scipy_stats().linregress(x, y)
    if not math.isfinite(line.slope) or not math.isfinite(line.pvalue):
        return None
    return Line(
        float(line.slope),
        float(line.intercept),
        float(line.rvalue),
        float(line.pvalue),
    )


def thinned(count: int, most: int) -> Array:
    """Indices of at most ``most`` of ``count`` points, evenly spaced."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.intp)


def robust_trend(times: Any, values: Any) -> RobustTrend | None:
    """Theil-Sen and Mann-Kendall; None where there is no trend to tell.

    ``times`` ascend.  None for fewer than three points or one time only.
    """
    x, y = _checked(times, values)
    if len(x) < 3 or np.ptp(x) == 0:
        return None
    stats = _scipy_stats()
    few = thinned(len(x), SLOPE_POINTS)
    slope, _, low, high = stats.theilslopes(y[few], x[few], 0.95)
    some = thinned(len(x), RANK_POINTS)
    if np.ptp(y[some]) == 0:
        tau, p_value = 0.0, 1.0
    else:
        tau, p_value = stats.kendalltau(x[some], y[some])
    return RobustTrend(
        float(slope),
        float(low),
        float(high),
        float(tau),
        float(p_value),
        len(few),
    )


def correlation(first: Any, second: Any) -> float:
    """Pearson's r; 0 where one of the two never changes."""
    x, y = _checked(first, second)
    if len(x) < 2:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0
