"""The tracker: events, alerts with hysteresis, phases, limits."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import MemoryTracker, UsageError, _core, _torch
from impactarbiter.analysis.alerts import (
    DEFAULT_THRESHOLDS,
    FLOOR_SAMPLES,
    Alarms,
)
from impactarbiter.analysis.devices import Figures, cuda_peak, cuda_row
from impactarbiter.analysis.events import EventRing
from impactarbiter.analysis.sampler import Sampler
from impactarbiter.base.cgroups import MemoryGroup
from impactarbiter.core.wire import Interval
from impactarbiter.reports.read_bundle import read_bundle
from impactarbiter.watching.arbiter import current

MIB = 1 << 20


def figures(
    allocated: int = 0,
    used: int | None = None,
    total: int | None = 1000 * MIB,
    reserved: int | None = None,
    inactive: int = 0,
) -> Figures:
    return Figures(
        ledger=allocated,
        allocated=allocated,
        reserved=allocated if reserved is None else reserved,
        inactive=inactive,
        used=used,
        free=None,
        total=total,
    )


@pytest.fixture
def alarms() -> Alarms:
    return Alarms(dict(DEFAULT_THRESHOLDS))


# -- alerts ------------------------------------------------------------------


def usage(alarms: Alarms, percents: list[float]) -> list[str]:
    said = []
    for percent in percents:
        now = figures(used=int(percent * 10 * MIB), reserved=0)
        given = [
            a.severity for a in alarms.check(now, None) if a.rule == "usage"
        ]
        said.append("/".join(given) or "-")
    return said


@pytest.mark.parametrize(
    "percents, said",
    [
        ([50, 81, 82, 81], ["-", "warning", "-", "-"]),
        # Around the threshold once; below 75 it may come again.
        ([81, 79, 81, 76, 81], ["warning", "-", "-", "-", "-"]),
        ([81, 74, 81], ["warning", "-", "warning"]),
        ([96, 96, 85, 96], ["critical", "-", "-", "critical"]),
        # The milder level was said with the worse one.
        (
            [96, 92, 85, 96, 60, 81],
            ["critical", *"--", "critical", "-", "warning"],
        ),
        ([81, 96, 94, 96], ["warning", "critical", "-", "-"]),
    ],
)
def test_usage(alarms: Alarms, percents: list[float], said: list[str]) -> None:
    assert usage(alarms, percents) == said


def growth(alarms: Alarms, sizes: list[int]) -> int:
    return sum(
        a.rule == "growth"
        for size in sizes
        for a in alarms.check(figures(allocated=size * MIB), None)
    )


def test_growth_of_the_floor(alarms: Alarms) -> None:
    """What comes and goes is none, however large; what stays is."""
    swings = [0, 900] * (5 * FLOOR_SAMPLES)
    assert growth(alarms, swings) == 0
    rising = [i // FLOOR_SAMPLES * 60 for i in range(6 * FLOOR_SAMPLES)]
    # 60, 120 (said), 180, 240 (said), 300 ...
    assert growth(alarms, rising) == 2
    assert growth(alarms, [300] * 100) == 0


def large(alarms: Alarms, sizes: list[int]) -> list[float]:
    return [
        alert.value / MIB
        for size in sizes
        for alert in alarms.check(figures(size * MIB), None)
        if alert.rule == "large_allocation"
    ]


def test_a_large_allocation_is_told_once(alarms: Alarms) -> None:
    # What was there at the first sample was not allocated since.
    assert large(alarms, [500, 550, 600]) == []
    # As large as the first time, or hardly larger: each step does it.
    assert large(alarms, [900, 600, 900, 600, 950]) == [300]
    assert large(alarms, [600, 1000, 1300]) == [400]


def test_the_threshold_of_a_large_allocation(alarms: Alarms) -> None:
    alarms._thresholds["large_allocation_threshold"] = 10.0 * MIB
    assert large(alarms, [0, 10, 21]) == [11]


def test_growth_after_a_fall(alarms: Alarms) -> None:
    block = FLOOR_SAMPLES
    assert growth(alarms, [500] * block + [100] * block) == 0
    assert growth(alarms, [250] * block) == 1


def test_fragmentation(alarms: Alarms) -> None:
    def said(inactive: int) -> list[str]:
        now = figures(50, reserved=100, inactive=inactive)
        return [a.rule for a in alarms.check(now, None)]

    assert [said(n) for n in (10, 35, 29, 25, 35, 20, 35)] == [
        [],
        ["fragmentation"],
        [],
        [],
        [],
        [],
        ["fragmentation"],
    ]


def test_gap_above_the_start(alarms: Alarms) -> None:
    def said(used: int) -> list[str]:
        now = figures(10 * MIB, used=used * MIB)
        return [a.rule for a in alarms.check(now, None) if a.rule == "gap"]

    assert [said(n) for n in (300, 340, 360, 345, 320, 360)] == [
        [],
        [],
        ["gap"],
        [],
        [],
        ["gap"],
    ]


def test_control_group(alarms: Alarms) -> None:
    def said(used: int) -> list[str]:
        found = alarms.check(figures(), MemoryGroup("/", 1000, used))
        return [a.severity for a in found]

    assert [said(n) for n in (900, 960, 950, 960, 890, 990)] == [
        [],
        ["critical"],
        [],
        [],
        [],
        ["critical"],
    ]


def test_unknown_figures_alarm_nobody(alarms: Alarms) -> None:
    assert alarms.check(figures(used=None, total=None), None) == []
    assert alarms.check(figures(used=5, total=0), None) == []


def group(root: Path, maximum: int, current: int) -> None:
    """A control group's files, as both versions name them."""
    memory = root / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    (root / "memory.max").write_text(f"{maximum}\n")
    (root / "memory.current").write_text(f"{current}\n")
    (memory / "memory.limit_in_bytes").write_text(f"{maximum}\n")
    (memory / "memory.usage_in_bytes").write_text(f"{current}\n")


# -- CUDA's statistics -------------------------------------------------------


def stats(**values: int) -> dict[str, int]:
    return {
        f"{name}_bytes.all.{when}": value
        for key, value in values.items()
        for name, _, when in [key.rpartition("_")]
    }


def test_cuda_row() -> None:
    now = stats(
        allocated_current=3,
        reserved_current=8,
        allocated_peak=5,
        reserved_peak=9,
        active_current=4,
        inactive_split_current=2,
    )
    assert cuda_row(1.5, 7, now) == (1.5, 3, 8, 5, 9, 4, 2, 7)
    assert cuda_row(1.5, 7, {}) == (1.5, 0, 0, 0, 0, 0, 0, 7)


@pytest.mark.parametrize(
    "peak_before, peak_after, seen, wanted",
    [
        (100, 150, 0, 150),  # torch's own peak has risen: the call's
        (200, 200, 90, 190),  # the ledger saw it
        (200, 200, 0, 120),  # nobody did: the higher end
        (200, 200, 500, 200),  # never above torch's peak
    ],
)
def test_cuda_peak(
    peak_before: int, peak_after: int, seen: int, wanted: int
) -> None:
    then = stats(allocated_current=100, allocated_peak=peak_before)
    now = stats(allocated_current=120, allocated_peak=peak_after)
    interval = Interval(40, 0, 0, 40 + seen, 0, 0, 0, 0)
    peak = cuda_peak(then, cuda_row(0.0, 0, now), now, interval)
    assert peak[1] == wanted


# -- events ------------------------------------------------------------------


def test_the_ring_is_bounded() -> None:
    ring = EventRing(10, "cpu", 0)
    added = [
        ring.add(i, "sample", figures(i), phase=f"p{i % 3}", note=f"n{i}")
        for i in range(25)
    ]
    events = ring.events()
    assert events == added[15:]
    assert [e.timestamp for e in events] == list(range(15, 25))
    assert [e.context for e in events] == [f"n{i}" for i in range(15, 25)]
    assert [e.phase for e in events] == [f"p{i % 3}" for i in range(15, 25)]
    assert ring.dropped == 15 and len(ring.array()) == 10
    assert len(ring._notes) == 10
    assert events[0].device_used is None and events[0].device_total
    ring.clear()
    assert ring.events() == [] and ring.dropped == 0


def test_a_failing_sample_ends_the_thread() -> None:
    def fail() -> None:
        raise ValueError("no")

    sampler = Sampler(0.001, fail)
    sampler.stop()
    assert sampler.failure == "ValueError: no"
    with pytest.raises(UsageError, match="above 0"):
        Sampler(0, fail)


def test_samplers_end_before_the_interpreter() -> None:
    """The function that looks runs after the samplers' own."""
    source = (
        "import atexit, threading\n"
        "atexit.register(lambda: print(threading.active_count()))\n"
        "from impactarbiter.analysis.sampler import Sampler\n"
        "Sampler(3600, lambda: None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", source], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def settled(tracker: MemoryTracker, samples: int = 2) -> None:
    """Waits until so many more samples were taken."""
    wanted = len(tracker.get_events("sample")) + samples
    for _ in range(2000):
        if len(tracker.get_events("sample")) >= wanted:
            return
        threading.Event().wait(0.002)
    raise AssertionError("no samples")


def test_tracking() -> None:
    tracker = MemoryTracker("cpu", sampling_interval=0.001)
    assert not tracker.is_tracking and current() is None
    with tracker:
        assert tracker.is_tracking and current() is not None
        settled(tracker)
        kept = torch.ones(5 * MIB)
        settled(tracker)
        check = tracker.cross_check()
        del kept
        settled(tracker)
    assert not any(_torch.installed().values()) and current() is None
    assert check["ledger"] == check["allocated"] == 20 * MIB
    assert check["ledger_gap"] == 0
    assert check["gap"] == check["device_used"] - 20 * MIB
    changes = [e.memory_change for e in tracker.get_events("allocation")]
    assert sum(c or 0 for c in changes) == 20 * MIB
    (gone,) = tracker.get_events("deallocation")
    assert gone.context == "20.0 MiB less allocated"
    statistics = tracker.get_statistics()
    assert statistics["peak_memory"] == 20 * MIB
    assert statistics["total_deallocation_bytes"] == 20 * MIB
    assert statistics["failure"] is None
    tracker.clear_events()
    assert tracker.events == [] and tracker.stats["peak_memory"] == 0
    tracker.stop_tracking()


def test_phases_are_in_events_and_findings() -> None:
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        tracker = MemoryTracker("cpu", sampling_interval=0.001)
        with tracker, tracker.phase("epoch 3"), tracker.phase("train"):
            for _ in range(8):
                kept.append(torch.ones(10))
                arbiter.step()
            settled(tracker)
        assert current() is arbiter
        (finding,) = arbiter.report().findings
    assert finding.phase == "epoch 3/train"
    entered = [e.phase for e in tracker.get_events("phase_enter")]
    left = [e.phase for e in tracker.get_events("phase_exit")]
    assert entered == ["epoch 3", "epoch 3/train"] and left == entered[::-1]
    samples = tracker.get_events("sample")
    inside = [e for e in samples if e.phase == "epoch 3/train"]
    assert inside and inside[-1].step == 8


def test_an_alert_says_its_rule(tmp_path: Path) -> None:
    tracker = MemoryTracker("cpu", sampling_interval=60)
    tracker.set_threshold("large_allocation_threshold", MIB)
    with tracker:
        tracker._sample()
        kept = torch.ones(2 * MIB // 4 + 1)
        tracker._sample()
    (alert,) = (e for e in tracker.get_alerts() if e.rule)
    assert (alert.rule, alert.event_type) == ("large_allocation", "warning")
    assert "2.0 MiB were allocated between two samples" in alert.context
    others = [e for e in tracker.events if e.event_type not in ("warning",)]
    assert {event.rule for event in others} == {""}
    tracker.export_events(str(tmp_path / "events.json"), "json")
    saved = json.loads((tmp_path / "events.json").read_text())
    assert [e["rule"] for e in saved if e["rule"]] == ["large_allocation"]
    del kept


def test_alerts_reach_callbacks() -> None:
    tracker = MemoryTracker("cpu", sampling_interval=0.001)
    heard: list[Any] = []

    def broken(event: Any) -> None:
        raise ValueError("theirs")

    tracker.add_alert_callback(broken)
    tracker.add_alert_callback(heard.append)
    tracker.set_threshold("memory_leak_threshold", 10 * MIB)
    with tracker:
        settled(tracker, FLOOR_SAMPLES + 1)
        kept = torch.ones(5 * MIB)
        settled(tracker, 2 * FLOOR_SAMPLES)
        tracker.remove_alert_callback(heard.append)
        tracker.remove_alert_callback(broken)
        tracker.remove_alert_callback(broken)
    assert [e.context for e in heard] == [
        "20.0 MiB more stay allocated than before"
    ]
    assert tracker.get_alerts(1)[0].event_type == "warning"
    assert tracker.stats["alert_count"] == 1
    assert tracker.get_statistics()["failure"] is None
    with pytest.raises(UsageError, match="threshold 'x' is unknown"):
        tracker.set_threshold("x", 1)
    del kept


def test_timeline_and_export(tmp_path: Path) -> None:
    tracker = MemoryTracker("cpu", sampling_interval=0.001)
    assert tracker.get_memory_timeline()["timestamps"] == []
    with tracker:
        settled(tracker, 30)
    timeline = tracker.get_memory_timeline(0.01)
    sizes = {len(column) for column in timeline.values()}
    assert len(sizes) == 1 and sizes.pop() > 1
    stamps = [t - timeline["timestamps"][0] for t in timeline["timestamps"]]
    assert stamps == pytest.approx([round(t, 2) for t in stamps], abs=1e-5)
    assert stamps == sorted(set(stamps))
    tracker.export_events(str(tmp_path / "e.json"), "json")
    tracker.export_events(str(tmp_path / "e.csv"))
    data = json.loads((tmp_path / "e.json").read_text())
    with open(tmp_path / "e.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(data) == len(rows) == len(tracker.events)
    assert [r["event_type"] for r in rows] == [d["event_type"] for d in data]
    with pytest.raises(UsageError, match="expected 'csv' or 'json'"):
        tracker.export_events("x", "xml")


def test_a_nearly_full_control_group_is_recorded(tmp_path: Path) -> None:
    root, dumps = tmp_path / "cgroup", tmp_path / "dumps"
    group(root, 1000, 100)
    tracker = MemoryTracker(
        "cpu",
        sampling_interval=0.001,
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(dumps),
        cgroup_root=str(root),
    )
    kept = []
    with tracker:
        kept.append(torch.ones(1000))
        settled(tracker)
        assert tracker.last_oom_dump_path is None
        group(root, 1000, 970)
        settled(tracker, 5)
        path = tracker.last_oom_dump_path
        group(root, 1000, 980)
        settled(tracker, 5)
    assert path is not None and tracker.last_oom_dump_path == path
    bundle = read_bundle(path)
    assert "the control group is 97.0 % full" in bundle.header.reason
    assert bundle.header.live_bytes == 4000
    assert [e.event_type for e in tracker.get_alerts()] == ["critical"]


def test_out_of_memory_inside(tmp_path: Path) -> None:
    tracker = MemoryTracker(
        "cpu",
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(tmp_path),
    )
    with tracker:
        failure = pytest.raises(RuntimeError, match="can't allocate")
        with failure, tracker.capture_oom("forward"):
            torch.empty(10**15)
        with pytest.raises(KeyError), tracker.capture_oom():
            raise KeyError
    assert tracker.last_oom_dump_path is not None
    assert len(list(tmp_path.iterdir())) == 1
    (error,) = tracker.get_events("error")
    assert error.context.endswith("in forward")
    assert MemoryTracker("cpu").handle_exception(MemoryError("x")) is None


@pytest.mark.parametrize(
    "options", [{"sampling_interval": 0}, {"max_events": 0}]
)
def test_values_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="expected"):
        MemoryTracker("cpu", **options)  # type: ignore[arg-type]


def test_an_error_without_text(tmp_path: Path) -> None:
    tracker = MemoryTracker(
        "cpu",
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(tmp_path / "dumps"),
    )
    with pytest.raises(MemoryError), tracker:
        raise MemoryError
    assert not tracker.is_tracking and current() is None
    assert tracker.last_oom_dump_path is not None


def test_tracking_ends_whatever_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracker = MemoryTracker("cpu")
    with pytest.raises(OSError), tracker:
        monkeypatch.setattr(tracker, "_event", raise_os_error)
        raise MemoryError
    assert not tracker.is_tracking and current() is None


def raise_os_error(*_: Any, **__: Any) -> None:
    raise OSError


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tracker = MemoryTracker(
        "cpu",
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(tmp_path / "file"),
    )
    with pytest.raises(impactarbiter.ReportError):
        tracker.start_tracking()
    assert not tracker.is_tracking and current() is None
    assert not _core.is_active()
