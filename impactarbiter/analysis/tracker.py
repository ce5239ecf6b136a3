"""``MemoryTracker``: a device's memory over time, with alerts and phases."""

from __future__ import annotations

import csv
import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import cgroups
from ..base.errors import UsageError
from ..base.files import write_atomic
from ..core import ledger
from ..watching.arbiter import current
from ..watching.lease import Lease
from ..watching.recorder import FlightRecorder, is_out_of_memory
from . import alerts
from .alerts import Alarms
from .devices import Figures, device_of
from .events import ALERTS, EventRing, TrackingEvent
from .sampler import Sampler

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)


class MemoryTracker:
    """Samples a device's memory in a thread, from start to stop.

    A sample reads totals; it looks at no tensor.  At most ``max_events`` are
    kept.  ``thresholds`` is a dict to change (see alerts.py); a callback of
    ``add_alert_callback`` gets each alert as a ``TrackingEvent``, once until
    the value has fallen clearly below its threshold.  With
    ``enable_oom_flight_recorder`` a bundle is written below ``oom_dump_dir``
    when memory runs out or the control group is nearly full.

    While tracking, hooks are in place: those of an active ``watch()``, else
    the tracker's own, which ``stop_tracking()`` takes out.

    Raises UsageError for values out of range or a device that is not there.
    """

    def __init__(
        self,
        device: str | int | torch.device | None = None,
        sampling_interval: float = 0.1,
        max_events: int = 10_000,
        enable_alerts: bool = True,
        enable_oom_flight_recorder: bool = False,
        oom_dump_dir: str = "oom_dumps",
        oom_buffer_size: int | None = None,
        oom_max_dumps: int = 5,
        oom_max_total_mb: int = 256,
        cgroup_root: str = cgroups.ROOT,
    ) -> None:
        if not sampling_interval > 0:
            raise UsageError(
                f"sampling_interval is {sampling_interval!r}: expected"
                " seconds, above 0"
            )
        if max_events < 1:
            raise UsageError(
                f"max_events is {max_events!r}: expected at least 1"
            )
        self._device = device_of(device)
        self.sampling_interval = sampling_interval
        self.max_events = max_events
        self.enable_alerts = enable_alerts
        self.thresholds: dict[str, float] = dict(alerts.DEFAULT_THRESHOLDS)
        self.alert_callbacks: list[Callable[[TrackingEvent], object]] = []
        self._ring = EventRing(
            max_events, self._device.name.partition(":")[0], self._device.index
        )
        self._recorder: FlightRecorder | None = None
        if enable_oom_flight_recorder:
            self._recorder = FlightRecorder(
                oom_dump_dir,
                events=oom_buffer_size or max_events,
                keep=oom_max_dumps,
                max_bytes=oom_max_total_mb << 20,
            )
        self._cgroup_root = cgroup_root
        self._sampler: Sampler | None = None
        self._lease: Lease | None = None
        self._phases: list[str] = []
        self._masks: dict[str, str] = {}
        self._reset()

    def _reset(self) -> None:
        self._alarms = Alarms(self.thresholds)
        self._last: Figures | None = None
        self._started: float | None = None
        self.stats: dict[str, int] = {
            "peak_memory": 0,
            "peak_device_used": 0,
            "total_allocations": 0,
            "total_deallocations": 0,
            "total_allocation_bytes": 0,
            "total_deallocation_bytes": 0,
            "alert_count": 0,
        }

    @property
    def device(self) -> torch.device:
        """The device that is tracked."""
        import torch

        return torch.device(self._device.name)

    # -- start and stop ---------------------------------------------------

    @property
    def is_tracking(self) -> bool:
        """Whether samples are being taken."""
        return self._sampler is not None

    def start_tracking(self) -> None:
        """Begins; a second call changes nothing."""
        if self._sampler is not None:
            return
        self._lease = Lease()
        try:
            if self._recorder is not None:
                self._recorder.start()
            self._started = time.time()
            self._sampler = Sampler(self.sampling_interval, self._sample)
        except BaseException:
            self._let_go()
            raise

    def stop_tracking(self) -> None:
        """Ends; events and statistics stay."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None
        self._let_go()

    def _let_go(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    def __enter__(self) -> MemoryTracker:
        self.start_tracking()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self.handle_exception(error)
        finally:
            self.stop_tracking()

    # -- samples ----------------------------------------------------------

    def _sample(self) -> None:
        now = self._device.figures()
        self._note(now)
        if self.enable_alerts:
            self._check(now)

    def _note(self, now: Figures) -> None:
        before, self._last = self._last, now
        change = now.allocated - before.allocated if before else 0
        stats = self.stats
        stats["peak_device_used"] = max(
            stats["peak_device_used"], now.used or 0
        )
        if now.allocated > stats["peak_memory"]:
            stats["peak_memory"] = now.allocated
            self._event("peak", now, change)
        if change > 0:
            stats["total_allocations"] += 1
            stats["total_allocation_bytes"] += change
            self._event("allocation", now, change)
        elif change < 0:
            stats["total_deallocations"] += 1
            stats["total_deallocation_bytes"] -= change
            self._event("deallocation", now, change)
        self._event("sample", now, change)

    def _check(self, now: Figures) -> None:
        group = cgroups.narrowest(self._cgroup_root, throttled=True)
        for alert in self._alarms.check(now, group):
            event = self._event(
                alert.severity, now, note=alert.message, rule=alert.rule
            )
            self.stats["alert_count"] += 1
            if alert.rule == "cgroup" and self._recorder is not None:
                self._recorder.capture(alert.message)
            self._call_back(event)

    def _call_back(self, event: TrackingEvent) -> None:
        for callback in list(self.alert_callbacks):
            try:
                callback(event)
            except Exception as error:
                _log.warning(
                    "an alert callback raised %s: %s",
                    type(error).__name__,
                    error,
                )

    def _event(
        self,
        kind: str,
        now: Figures,
        change: int = 0,
        note: str = "",
        rule: str = "",
    ) -> TrackingEvent:
        phase = "/".join(self._phases)
        watching = current()
        if watching is not None and watching.obfuscate:
            # An error's words may quote the program, as its phases do.
            note = "masked" if kind == "error" else note
            phase = self._masks.setdefault(
                phase, phase and f"phase{len(self._masks) + 1}"
            )
        return self._ring.add(
            time.time(),
            kind,
            now,
            change,
            phase,
            ledger.totals().generation,
            note,
            rule,
        )

    # -- phases -----------------------------------------------------------

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Names what happens inside, in events and findings; nests."""
        watching = current()
        marked = watching.phase(name) if watching else nullcontext()
        self._phases.append(str(name))
        self._event("phase_enter", self._device.figures())
        try:
            with marked:
                yield
        finally:
            self._event("phase_exit", self._device.figures())
            self._phases.pop()

    # -- alerts -----------------------------------------------------------

    def add_alert_callback(
        self, callback: Callable[[TrackingEvent], object]
    ) -> None:
        """Called with each alert, in the tracker's thread."""
        self.alert_callbacks.append(callback)

    def remove_alert_callback(
        self, callback: Callable[[TrackingEvent], object]
    ) -> None:
        """Takes one back; unknown ones are ignored."""
        if callback in self.alert_callbacks:
            self.alert_callbacks.remove(callback)

    def set_threshold(self, threshold_name: str, value: float) -> None:
        """Sets one of ``thresholds``; UsageError for an unknown name."""
        if threshold_name not in self.thresholds:
            raise UsageError(
                f"threshold {threshold_name!r} is unknown: expected one of"
                f" {', '.join(self.thresholds)}"
            )
        self.thresholds[threshold_name] = float(value)

    def get_alerts(self, last_n: int | None = None) -> list[TrackingEvent]:
        """Warnings, critical alerts and errors, oldest first."""
        found = [e for e in self._ring.events() if e.event_type in ALERTS]
        return found[-last_n:] if last_n else found

    # -- out of memory ----------------------------------------------------

    @property
    def last_oom_dump_path(self) -> str | None:
        """The newest bundle of this tracker."""
        return self._recorder.last if self._recorder else None

    def handle_exception(
        self, error: BaseException, context: str | None = None
    ) -> str | None:
        """The bundle of an out-of-memory error; None for any other error.

        Where the failure itself has written one, no second is written.
        """
        if not is_out_of_memory(error):
            return None
        said = (str(error).splitlines() or [""])[0]
        why = f"{type(error).__name__}: {said}"
        where = f" in {context}" if context else ""
        self._event("error", self._device.figures(), note=why + where)
        if self._recorder is None:
            return None
        return self._recorder.settle(f"{why}{where}")

    @contextmanager
    def capture_oom(self, context: str = "runtime") -> Iterator[None]:
        """Writes a bundle when memory runs out inside; raises it again."""
        try:
            yield
        except Exception as error:
            self.handle_exception(error, context)
            raise

    # -- what was seen ----------------------------------------------------

    @property
    def events(self) -> list[TrackingEvent]:
        """All that are kept, oldest first."""
        return self._ring.events()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The same as rows of dtype ``events.EVENT``; a copy."""
        return self._ring.array()

    def get_events(
        self,
        event_type: str | None = None,
        last_n: int | None = None,
        since: float | None = None,
    ) -> list[TrackingEvent]:
        """Events of one type, from a time on, the last n of them."""
        found = [
            event
            for event in self._ring.events()
            if event_type in (None, event.event_type)
            and (since is None or event.timestamp >= since)
        ]
        return found[-last_n:] if last_n else found

    def get_memory_timeline(
        self, interval: float = 1.0
    ) -> dict[str, list[Any]]:
        """The last event of each ``interval`` seconds, by column."""
        if not interval > 0:
            raise UsageError(
                f"interval is {interval!r}: expected seconds, above 0"
            )
        rows = self._ring.array()
        if len(rows):
            slot = (rows["timestamp"] - rows["timestamp"][0]) // interval
            last = np.append(np.flatnonzero(np.diff(slot)), len(rows) - 1)
            times = rows["timestamp"][0] + slot[last] * interval
            rows = rows[last]
        else:
            times = rows["timestamp"]
        columns = {
            name: [None if v < 0 else v for v in rows[field].tolist()]
            for name, field in (
                ("allocated", "allocated"),
                ("reserved", "reserved"),
                ("device_used", "used"),
                ("device_free", "free"),
                ("device_total", "total"),
            )
        }
        return {"timestamps": times.tolist(), **columns}

    def cross_check(self) -> dict[str, Any]:
        """What ledger, allocator and device say now, side by side; bytes.

        ``gap`` is what is in use on the device beyond the allocator's
        memory; ``ledger_gap`` what the allocator has and the ledger not:
        tensors older than the hooks, on the CPU always 0.
        """
        now = self._device.figures()
        return {
            "device": self._device.name,
            "ledger": now.ledger,
            "allocated": now.allocated,
            "reserved": now.reserved,
            "inactive": now.inactive,
            "fragmentation": now.fragmentation,
            "device_used": now.used,
            "device_total": now.total,
            "gap": now.gap,
            "ledger_gap": now.allocated - now.ledger,
        }

    def get_statistics(self) -> dict[str, Any]:
        """Totals since the start, and the newest figures."""
        last = self._last
        seconds = time.time() - self._started if self._started else 0.0
        return {
            **self.stats,
            "total_events": len(self._ring.array()),
            "history_dropped_events": self._ring.dropped,
            "backend": self._device.name.partition(":")[0],
            "tracking_start_time": self._started,
            "tracking_duration_seconds": seconds,
            "current_memory_allocated": last.allocated if last else None,
            "current_memory_reserved": last.reserved if last else None,
            "memory_utilization_percent": (
                100.0 * last.used / last.total
                if last and last.used is not None and last.total
                else None
            ),
            "fragmentation": last.fragmentation if last else None,
            "average_allocation_size": (
                self.stats["total_allocation_bytes"]
                / max(self.stats["total_allocations"], 1)
            ),
            "last_oom_dump_path": self.last_oom_dump_path,
            "failure": self._sampler.failure if self._sampler else None,
        }

    def export_events(self, filename: str, format: str = "csv") -> None:
        """Writes the events as "csv" or "json"; ReportError where it can't."""
        if format not in ("csv", "json"):
            raise UsageError(f"format is {format!r}: expected 'csv' or 'json'")
        records = [event.to_dict() for event in self._ring.events()]
        if format == "json":
            text = json.dumps(records, indent=2)
        else:
            rows = io.StringIO(newline="")
            writer = csv.DictWriter(
                rows, list(TrackingEvent.__dataclass_fields__)
            )
            writer.writeheader()
            writer.writerows(records)
            text = rows.getvalue()
        write_atomic(filename, text.encode("utf-8", "backslashreplace"))

    def clear_events(self) -> None:
        """Forgets events and statistics."""
        started = self._started
        self._ring.clear()
        self._reset()
        self._started = started
