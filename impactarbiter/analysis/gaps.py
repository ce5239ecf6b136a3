"""Memory that a device has lost to others than torch's allocator.

The gap is what is in use on the device beyond what the allocator has
reserved: contexts, libraries, other processes.  Three rules over its course;
their thresholds and figures are those that users of gpumemprof know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..base.records import dataclass
from ..base.units import format_bytes
from ..model.words import severity_rank
from .given import rows_of
from .trends import linear_trend

#: Samples that a spike and a drift take at least.
SPIKE_SAMPLES, DRIFT_SAMPLES = 3, 5
#: Where a drift and fragmentation are critical.
CRITICAL_DRIFT, CRITICAL_FRAGMENTATION = 0.85, 0.5

_EVENTS = "events of a MemoryTracker"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GapFinding:
    """One thing that the gap shows.

    ``classification``: transient_spike, persistent_drift or
    fragmentation_like; ``confidence`` from 0 to 1; ``evidence`` in bytes,
    bytes a second and shares.  ``phase`` is where it shows most, "" outside
    any.
    """

    classification: str
    severity: str
    confidence: float
    evidence: dict[str, Any]
    description: str
    remediation: tuple[str, ...]
    phase: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "remediation": list(self.remediation)}


@dataclass(frozen=True)
class Samples:
    """Columns of the events that say what the device and the allocator have;
    seconds and bytes, ``inactive`` -1 where unknown."""

    times: Array
    used: Array
    reserved: Array
    inactive: Array
    total: Array
    phases: tuple[str, ...]

    @property
    def gaps(self) -> Array:
        """In use beyond what the allocator has reserved."""
        return self.used - self.reserved

    @classmethod
    def of(cls, events: Iterable[Any]) -> Samples:
        """Of a tracker's events, or of others with Stormlog's names."""
        made = rows_of(events, _EVENTS, _row)
        rows = [row for row in made if row is not None]
        times, used, reserved, inactive, total = (
            np.array([row[i] for row in rows]) for i in range(5)
        )
        phases = tuple(str(row[5]) for row in rows)
        return cls(times, used, reserved, inactive, total, phases)


def _row(event: Any) -> tuple[Any, ...] | None:
    used = _either(event, "device_used", "device_used_bytes")
    reserved = _either(event, "memory_reserved", "allocator_reserved_bytes")
    total = _either(event, "device_total", "device_total_bytes")
    if event.event_type != "sample" or used is None or reserved is None:
        return None
    if not total:
        return None
    inactive = _either(event, "inactive_memory", "allocator_inactive_bytes")
    time = getattr(event, "timestamp", None)
    return (
        time if time is not None else event.timestamp_ns / 1e9,
        used,
        reserved,
        -1 if inactive is None else inactive,
        total,
        getattr(event, "phase", None) or "",
    )


def _either(event: Any, ours: str, theirs: str) -> Any:
    value = getattr(event, ours, None)
    return getattr(event, theirs, None) if value is None else value


def listed(events: Iterable[Any]) -> list[Any]:
    """All of them, to be gone through more than once."""
    return list(rows_of(events, _EVENTS, lambda event: event))


def gap_findings(
    events: Iterable[Any], thresholds: Mapping[str, float]
) -> list[GapFinding]:
    """What the samples among the events show, the worst first.

    Raises MissingExtraError without SciPy, where there are samples enough for
    a drift.
    """
    samples = Samples.of(events)
    if len(samples.times) < SPIKE_SAMPLES:
        return []
    share = np.abs(samples.gaps / samples.total).max()
    if share < thresholds["gap_ratio_threshold"]:
        return []
    found = [f for rule in RULES for f in rule(samples, thresholds)]
    return sorted(
        found, key=lambda f: (-severity_rank(f.severity), -f.confidence)
    )


def spikes(
    samples: Samples, thresholds: Mapping[str, float]
) -> Iterator[GapFinding]:
    """Samples far above the others."""
    gaps = samples.gaps
    mean, spread = float(gaps.mean()), float(gaps.std(ddof=1))
    limit = thresholds["gap_spike_zscore"]
    if spread == 0:
        return
    scores = (gaps - mean) / spread
    worst = int(scores.argmax())
    highest = float(scores[worst])
    count = int((scores > limit).sum())
    if count == 0:
        return
    yield GapFinding(
        "transient_spike",
        "critical" if highest > 2 * limit else "warning",
        round(min(1.0, highest / (3 * limit)), 3),
        {
            "spike_count": count,
            "max_gap_bytes": float(gaps[worst]),
            "max_zscore": round(highest, 3),
            "mean_gap_bytes": round(mean, 1),
            "std_gap_bytes": round(spread, 1),
        },
        f"{count} of {len(gaps)} samples have far more in use beside torch's"
        f" allocator than the others: {format_bytes(float(gaps[worst]))}",
        (
            "See what else runs on the device then: workspaces of cuDNN,"
            " buffers of NCCL, other processes",
            "Name the phases of the program: the finding says in which one"
            " it was highest",
        ),
        samples.phases[worst],
    )


def drifts(
    samples: Samples, thresholds: Mapping[str, float]
) -> Iterator[GapFinding]:
    """A gap that grows steadily."""
    gaps = samples.gaps
    if len(gaps) < DRIFT_SAMPLES:
        return
    line = linear_trend(samples.times - samples.times[0], gaps)
    if line is None or line.slope <= 0:
        return
    explained = line.correlation**2
    if explained < thresholds["gap_drift_r_squared"]:
        return
    yield GapFinding(
        "persistent_drift",
        "critical" if explained > CRITICAL_DRIFT else "warning",
        round(min(1.0, explained), 3),
        {
            "slope_bytes_per_sec": round(line.slope, 1),
            "r_squared": round(explained, 4),
            "p_value": round(line.p_value, 6),
            "gap_start_bytes": float(gaps[0]),
            "gap_end_bytes": float(gaps[-1]),
        },
        f"{format_bytes(line.slope)} more a second are in use that torch's"
        " allocator does not know of",
        (
            "Look for memory that CUDA libraries or extensions take without"
            " torch",
            "See whether another process on the device grows",
        ),
        samples.phases[-1],
    )


def fragmented(
    samples: Samples, thresholds: Mapping[str, float]
) -> Iterator[GapFinding]:
    """Reserved memory in split blocks that nobody uses."""
    known = (samples.inactive >= 0) & (samples.reserved > 0)
    if not known.any():
        return
    shares = samples.inactive[known] / samples.reserved[known]
    mean = float(shares.mean())
    if mean < thresholds["gap_fragmentation_ratio"]:
        return
    yield GapFinding(
        "fragmentation_like",
        "critical" if mean > CRITICAL_FRAGMENTATION else "warning",
        round(min(1.0, mean / 0.6), 3),
        {
            "avg_fragmentation_ratio": round(mean, 4),
            "max_fragmentation_ratio": round(float(shares.max()), 4),
            "avg_gap_bytes": round(float(samples.gaps.mean()), 1),
            "sample_count": int(known.sum()),
        },
        f"{mean:.0%} of the reserved memory lies in split blocks that nobody"
        " uses",
        (
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "Pad or bucket inputs, so that few different sizes occur",
        ),
        samples.phases[int(np.flatnonzero(known)[shares.argmax()])],
    )


RULES: tuple[
    Callable[[Samples, Mapping[str, float]], Iterator[GapFinding]], ...
] = (spikes, drifts, fragmented)


def availability(events: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """What the events cannot answer, and why; empty where they can."""
    samples = Samples.of(events)
    missing = {}
    if not len(samples.times):
        missing["gap_analysis"] = (
            "no sample has both what the device and what the allocator has"
        )
    missing["collective_attribution"] = (
        "what collectives take is not told apart from other memory"
    )
    return {
        name: {"available": False, "reason": reason}
        for name, reason in missing.items()
    }
