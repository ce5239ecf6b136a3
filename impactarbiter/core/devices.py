"""Devices: where their memory is.

Nothing here initializes CUDA in a process that has not, makes a context on a
device that has none, synchronizes, or asks the driver while a CUDA graph is
being captured.
"""

from __future__ import annotations

from .. import _core
from ..model.devices import META, DeviceMemory
from . import ledger, wire
from .built import programs_torch
from .cuda_events import code_of, cuda

__all__ = ["code_of", "cuda", "known", "memory", "name_of", "room", "said"]


def name_of(code: int) -> str:
    """``cpu``, ``numpy``, ``cuda:0``, ``jax:cpu:0``."""
    return _core.device_name(code)


def known() -> list[wire.FollowedDevice]:
    """Devices whose allocators have reported."""
    return [wire.device_of(raw) for raw in _core.devices()]


# -- what is known -----------------------------------------------------------


def memory() -> tuple[DeviceMemory, ...]:
    """Every device that storages were seen on, or that reports."""
    totals, reporting = ledger.totals(), _reporting()
    names = dict.fromkeys([*totals.devices, *reporting])
    return tuple(
        _memory_of(name, totals.of(name), reporting.get(name))
        for name in names
        if name in totals.devices or reporting[name].reserved_bytes
    )


def _reporting() -> dict[str, wire.FollowedDevice]:
    return {d.device: d for d in known() if d.followed}


def _memory_of(
    name: str, live: wire.LiveBytes, device: wire.FollowedDevice | None
) -> DeviceMemory:
    figures: dict[str, int | None] = {}
    index = _index(name)
    if index is not None and (device is None or device.drift):
        figures = _by_the_allocator(index)
    elif device is not None:
        figures = {
            "allocated_bytes": device.allocated_bytes,
            "pending_bytes": device.pending_bytes,
            "reserved_bytes": device.reserved_bytes,
            "inactive_split_bytes": device.inactive_split_bytes,
            "largest_free_bytes": device.largest_free_bytes,
        }
    reserved = figures.get("reserved_bytes")
    driver = _driver(index) if index is not None and reserved else None
    if driver is not None and reserved is not None:
        free, total = driver
        figures |= {
            "free_bytes": free,
            "total_bytes": total,
            "other_bytes": max(total - free - reserved, 0),
        }
    return DeviceMemory(
        device=name, live_bytes=live.live, peak_bytes=live.peak, **figures
    )


def _index(name: str) -> int | None:
    """Of a CUDA device where CUDA is initialized, else None."""
    kind, _, number = name.partition(":")
    if kind != "cuda":
        return None
    torch = programs_torch()
    ready = torch is not None and torch.cuda.is_initialized()
    return int(number or 0) if ready else None


def _by_the_allocator(index: int) -> dict[str, int | None]:
    """The allocator's own statistics, where its events don't tell."""
    try:
        stats = programs_torch().cuda.memory_stats(index)
    except (RuntimeError, NotImplementedError):
        return {}
    active = stats.get("active_bytes.all.current")
    allocated = stats.get("allocated_bytes.all.current")
    return {
        "allocated_bytes": allocated,
        "pending_bytes": None
        if active is None or allocated is None
        else max(active - allocated, 0),
        "reserved_bytes": stats.get("reserved_bytes.all.current"),
        "inactive_split_bytes": stats.get("inactive_split_bytes.all.current"),
    }


def _driver(index: int) -> tuple[int, int] | None:
    """(free, total) of a device that has a context already."""
    torch = programs_torch()
    try:
        if torch.cuda.is_current_stream_capturing():
            return None
        free, total = torch.cuda.mem_get_info(index)
    except RuntimeError:
        return None
    return int(free), int(total)


def room(name: str, limit: int | None = None) -> int | None:
    """Bytes that storages on this device may still grow by, or None.

    ``limit`` is what they may have in all; else it is what the driver has
    left, and what the allocator has of it and does not use, within
    ``torch.cuda.set_per_process_memory_fraction``.
    """
    if name == META:
        return None  # its tensors take no memory
    now = _memory_of(name, ledger.totals().of(name), _reporting().get(name))
    used = now.allocated_bytes
    if used is None:
        used = now.live_bytes
    if limit is not None:
        return max(limit - used, 0)
    index = _index(name)
    if (
        index is None
        or now.free_bytes is None
        or now.total_bytes is None
        or now.reserved_bytes is None
    ):
        return None
    left = now.free_bytes + now.reserved_bytes - used
    return max(min(left, _fraction(index, now.total_bytes) - used), 0)


def _fraction(index: int, total: int) -> int:
    ask = getattr(
        programs_torch().cuda, "get_per_process_memory_fraction", None
    )
    return total if ask is None else int(ask(index) * total)


def said() -> list[str]:
    """What a reader of the report must know about devices."""
    lines = []
    if cuda.hidden:
        lines.append(
            f"CUDA allocations are not reported ({cuda.hidden}): only"
            " storages that Python tensors showed at a step's end are"
            " accounted for"
        )
    for device in known():
        if device.drift:
            lines.append(
                f"{device.drift} events of {device.device} did not fit"
                " what was known of it: its figures are those of torch's own"
                " statistics"
            )
        elif device.seen and not device.followed and not cuda.hidden:
            lines.append(
                f"{device.device} is accounted for no longer: memory was short"
            )
    return lines
