"""When a tracker gives an alert: thresholds with hysteresis.

An alert is given once when a value reaches its threshold, and again only
after it has fallen clearly below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..base.cgroups import MemoryGroup
from ..base.records import dataclass
from ..base.units import format_bytes
from .devices import Figures

#: Percentages fall by so many points, shares by such a part of themselves,
#: before the same alert can come again.
SLACK_POINTS = 5.0
SLACK_SHARE = 0.2
#: Growth is that of the lowest of so many samples: what comes and goes with
#: every step is none.
FLOOR_SAMPLES = 10

DEFAULT_THRESHOLDS: Mapping[str, float] = {
    "memory_warning_percent": 80.0,
    "memory_critical_percent": 95.0,
    "memory_leak_threshold": 100.0 * (1 << 20),
    "large_allocation_threshold": 100.0 * (1 << 20),
    "fragmentation_threshold": 0.3,
    "gap_ratio_threshold": 0.05,
    "cgroup_percent": 95.0,
}


@dataclass(frozen=True)
class Alert:
    """What was noticed: ``severity`` is warning or critical, ``rule`` is
    usage, growth, large_allocation, fragmentation, gap or cgroup."""

    rule: str
    severity: str
    message: str
    value: float
    threshold: float


class Latch:
    """On from a threshold upwards, off only ``slack`` below it."""

    def __init__(self) -> None:
        self.on: bool = False

    def rises(self, value: float, threshold: float, slack: float) -> bool:
        """Whether it goes on with this value."""
        if self.on:
            self.on = value > threshold - slack
            return False
        self.on = value >= threshold
        return self.on


class Alarms:
    """All rules over the samples of one device.

    ``thresholds`` is read at each sample: see ``DEFAULT_THRESHOLDS``.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        self._thresholds = thresholds
        self._latches: dict[str, Latch] = {}
        self._samples = 0
        self._floor: float = float("inf")
        self._base: float | None = None
        self._before: int | None = None
        self._largest: float = 0.0
        self._first_gap: int | None = None

    def check(self, now: Figures, group: MemoryGroup | None) -> list[Alert]:
        """The alerts that this sample gives."""
        return [
            *self._usage(now),
            *self._growth(now),
            *self._large(now),
            *self._fragmentation(now),
            *self._gap(now),
            *self._group(group),
        ]

    def _latched(
        self,
        rule: str,
        severity: str,
        value: float,
        threshold: float,
        slack: float,
        say: Callable[[], str],
    ) -> Iterator[Alert]:
        latch = self._latches.setdefault(f"{rule}.{severity}", Latch())
        if latch.rises(value, threshold, slack):
            yield Alert(rule, severity, say(), value, threshold)

    def _usage(self, now: Figures) -> Iterator[Alert]:
        if not now.total or now.used is None:
            return
        percent = 100.0 * now.used / now.total
        total = now.total
        for severity in ("critical", "warning"):
            given = list(
                self._latched(
                    "usage",
                    severity,
                    percent,
                    self._thresholds[f"memory_{severity}_percent"],
                    SLACK_POINTS,
                    lambda: (
                        f"memory is {percent:.1f} % full: {now.used} of"
                        f" {total} bytes"
                    ),
                )
            )
            yield from given
            if given:
                # Worse was said: the milder level counts as said too.
                self._latches.setdefault("usage.warning", Latch()).on = True
                return

    def _growth(self, now: Figures) -> Iterator[Alert]:
        """What the floor of some samples has gained on the one before."""
        self._floor = min(self._floor, now.allocated)
        self._samples += 1
        if self._samples % FLOOR_SAMPLES:
            return
        floor, self._floor = self._floor, float("inf")
        if self._base is None or floor < self._base:
            self._base = floor
        gained = floor - self._base
        threshold = self._thresholds["memory_leak_threshold"]
        if gained <= threshold:
            return
        self._base = floor
        yield Alert(
            "growth",
            "warning",
            f"{format_bytes(gained)} more stay allocated than before",
            gained,
            threshold,
        )

    def _large(self, now: Figures) -> Iterator[Alert]:
        """More between two samples than ever was said: a training's every
        step allocates what the first one did."""
        before, self._before = self._before, now.allocated
        came = 0 if before is None else now.allocated - before
        threshold = self._thresholds["large_allocation_threshold"]
        if came <= max(threshold, self._largest * (1 + SLACK_SHARE)):
            return
        self._largest = came
        yield Alert(
            "large_allocation",
            "warning",
            f"{format_bytes(came)} were allocated between two samples",
            came,
            threshold,
        )

    def _fragmentation(self, now: Figures) -> Iterator[Alert]:
        share = now.fragmentation
        threshold = self._thresholds["fragmentation_threshold"]
        yield from self._latched(
            "fragmentation",
            "warning",
            share,
            threshold,
            SLACK_SHARE * threshold,
            lambda: (
                f"{share:.0%} of the reserved memory lies in split blocks"
                " that nobody uses"
            ),
        )

    def _gap(self, now: Figures) -> Iterator[Alert]:
        """What others than the allocator take, above the first sample."""
        if now.gap is None or not now.total:
            return
        if self._first_gap is None:
            self._first_gap = now.gap
        gained = now.gap - self._first_gap
        threshold = self._thresholds["gap_ratio_threshold"]
        yield from self._latched(
            "gap",
            "warning",
            gained / now.total,
            threshold,
            SLACK_SHARE * threshold,
            lambda: (
                f"{format_bytes(gained)} more than at the start are in use"
                " that torch's allocator does not know of"
            ),
        )

    def _group(self, group: MemoryGroup | None) -> Iterator[Alert]:
        if group is None:
            return
        yield from self._latched(
            "cgroup",
            "critical",
            group.percent,
            self._thresholds["cgroup_percent"],
            SLACK_POINTS,
            lambda: (
                f"the control group is {group.percent:.1f} % full:"
                f" {format_bytes(group.used)} of {format_bytes(group.limit)}"
            ),
        )
