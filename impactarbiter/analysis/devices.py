"""What a device's memory looks like now, from the ledger and from torch.

CPU: the ledger knows what tensors occupy, the operating system what the
process does.  CUDA: ``torch.cuda.memory_stats`` is exact; the ledger adds
the peak of a call, which torch keeps for the whole process only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import MissingExtraError, UsageError
from ..base.records import dataclass
from ..core import ledger
from ..core.devices import code_of
from ..core.wire import Interval
from ..judging.verdicts.forecast import Forecast
from .results import Row

if TYPE_CHECKING:
    import torch

#: Types of the devices that are read.
_TYPES = ("cpu", "cuda")


class Measured(NamedTuple):
    """One call: snapshots before, after and at the peak; bytes."""

    before: Row
    after: Row
    peak: Row
    allocated: int
    freed: int


@dataclass(frozen=True)
class Figures:
    """A device at one moment, in bytes; None where nothing is known.

    ``ledger`` is what the ledger has, ``allocated`` and ``reserved`` what
    torch's allocator says, ``used``, ``free`` and ``total`` the device's own
    (CPU: the process's resident memory, and what it may use in all).
    """

    ledger: int
    allocated: int
    reserved: int
    inactive: int
    used: int | None
    free: int | None
    total: int | None

    @property
    def fragmentation(self) -> float:
        """Share of the reserved memory that lies in split, unused blocks."""
        return self.inactive / self.reserved if self.reserved > 0 else 0.0

    @property
    def gap(self) -> int | None:
        """Bytes in use on the device that torch's allocator has not."""
        return None if self.used is None else self.used - self.reserved


class CpuDevice:
    """The CPU: tensor memory by the ledger."""

    name = "cpu"
    code: int = code_of("cpu")
    index = 0

    def __init__(self, track_resident: bool = True) -> None:
        self._track_resident = track_resident

    def synchronize(self) -> None:
        """Nothing: torch computes on the CPU in place."""

    def now(self) -> tuple[float, int]:
        """What is to be known before a call."""
        return time.time(), self._resident()

    def measure(self, then: Any, interval: Interval) -> Measured:
        """The call between ``now()`` and this moment."""
        timestamp, resident = then
        end, resident_after = self.now()
        before = interval.before
        after = max(before + interval.born - interval.died, 0)
        return Measured(
            (timestamp, before, before, before, before, before, 0, resident),
            (
                end,
                after,
                after,
                *(interval.peak,) * 2,
                after,
                0,
                resident_after,
            ),
            (end, *(interval.peak,) * 5, 0, max(resident, resident_after)),
            interval.born,
            interval.died,
        )

    def snapshot(self) -> Row:
        """A row of ``SNAPSHOT`` now."""
        live, peak = ledger.totals().of(self.name)
        return time.time(), live, live, peak, peak, live, 0, self._resident()

    def figures(self) -> Figures:
        """The CPU's memory now."""
        live = ledger.totals().of(self.name).live
        forecast = Forecast()
        return Figures(
            ledger=live,
            allocated=live,
            reserved=live,
            inactive=0,
            used=ledger.resident_bytes() or None,
            free=forecast.room,
            total=forecast.limit,
        )

    def _resident(self) -> int:
        return ledger.resident_bytes() if self._track_resident else 0


class CudaDevice:
    """A CUDA device: torch's own statistics, with the ledger's peak."""

    def __init__(self, index: int, track_resident: bool = True) -> None:
        self.index = index
        self.name: str = f"cuda:{index}"
        self.code: int = code_of("cuda", index)
        self._track_resident = track_resident

    def synchronize(self) -> None:
        """Waits until the device has done what it was given."""
        import torch

        torch.cuda.synchronize(self.index)

    def now(self) -> tuple[float, int, Mapping[str, int]]:
        """What is to be known before a call."""
        resident = ledger.resident_bytes() if self._track_resident else 0
        return time.time(), resident, self._stats()

    def measure(self, then: Any, interval: Interval) -> Measured:
        """The call between ``now()`` and this moment."""
        now = self.now()
        before, after = cuda_row(*then), cuda_row(*now)
        return Measured(
            before,
            after,
            cuda_peak(then[2], after, now[2], interval),
            _counted(then[2], now[2], "allocated"),
            _counted(then[2], now[2], "freed"),
        )

    def snapshot(self) -> Row:
        """A row of ``SNAPSHOT`` now."""
        return cuda_row(*self.now())

    def figures(self) -> Figures:
        """The device's memory now."""
        import torch

        stats = self._stats()
        free, total = torch.cuda.mem_get_info(self.index)
        return Figures(
            ledger=ledger.totals().of(self.name).live,
            allocated=stats.get("allocated_bytes.all.current", 0),
            reserved=stats.get("reserved_bytes.all.current", 0),
            inactive=stats.get("inactive_split_bytes.all.current", 0),
            used=total - free,
            free=free,
            total=total,
        )

    def _stats(self) -> Mapping[str, int]:
        import torch

        stats: Mapping[str, int] = torch.cuda.memory_stats(self.index)
        return stats


Device = CpuDevice | CudaDevice


def cuda_row(timestamp: float, cpu: int, stats: Mapping[str, int]) -> Row:
    """A row of ``SNAPSHOT`` from ``torch.cuda.memory_stats``."""
    return (
        timestamp,
        stats.get("allocated_bytes.all.current", 0),
        stats.get("reserved_bytes.all.current", 0),
        stats.get("allocated_bytes.all.peak", 0),
        stats.get("reserved_bytes.all.peak", 0),
        stats.get("active_bytes.all.current", 0),
        stats.get("inactive_split_bytes.all.current", 0),
        cpu,
    )


def cuda_peak(
    then: Mapping[str, int],
    after: Row,
    now: Mapping[str, int],
    interval: Interval,
) -> Row:
    """The snapshot at the peak of a call.

    The process's peak is the call's where it has risen meanwhile; it is
    never reset, for it is the program's to read.  Else the ledger knows it
    where it sees the device's events; else it is one end of the call.
    """

    def highest(kind: str) -> int:
        before, ended = (s.get(f"{kind}.all.current", 0) for s in (then, now))
        peak = now.get(f"{kind}.all.peak", 0)
        if peak > then.get(f"{kind}.all.peak", 0):
            return peak
        risen = interval.peak - interval.before if kind != RESERVED else 0
        return min(max(before + risen, ended), max(peak, ended))

    row = list(after)
    row[1], row[2] = highest("allocated_bytes"), highest(RESERVED)
    row[5] = highest("active_bytes")
    return tuple(row)  # type: ignore[return-value]


RESERVED = "reserved_bytes"


def _counted(
    then: Mapping[str, int], now: Mapping[str, int], what: str
) -> int:
    name = f"allocated_bytes.all.{what}"
    return max(now.get(name, 0) - then.get(name, 0), 0)


def device_of(
    device: str | int | torch.device | None, track_resident: bool = True
) -> Device:
    """The device to read: as given, else the current CUDA one, else the CPU.

    Raises UsageError for one that is not there or not known here,
    MissingExtraError without torch.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "profiling", "") from None

    if device is None:
        if not torch.cuda.is_available():
            return CpuDevice(track_resident)
        device = torch.cuda.current_device()
    try:
        if isinstance(device, int):
            named = torch.device("cuda", device)
        else:
            named = torch.device(device)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device is {device!r}: {reason}") from None
    if named.type not in _TYPES:
        raise UsageError(
            f"device is {str(named)!r}: expected 'cpu' or a CUDA device such"
            " as 'cuda:0'"
        )
    if named.type == "cpu":
        return CpuDevice(track_resident)
    if not torch.cuda.is_available():
        raise UsageError(
            f"device is {str(named)!r}, and torch sees no CUDA device here:"
            " leave device out to profile the CPU"
        )
    index = torch.cuda.current_device() if named.index is None else named.index
    if index >= torch.cuda.device_count():
        raise UsageError(
            f"device is {str(named)!r}: torch sees"
            f" {torch.cuda.device_count()} here"
        )
    return CudaDevice(index, track_resident)
