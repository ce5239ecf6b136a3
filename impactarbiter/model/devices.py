"""Where the memory of one device is."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.records import dataclass
from ..base.units import format_bytes

#: Whose tensors have a shape and no data.
META = "meta"


def is_on_host(device: str) -> bool:
    """Whether a device's memory is the process's own."""
    return device in ("cpu", "numpy") or ":cpu:" in device


def is_accelerator(device: str) -> bool:
    """Whether a device has memory, and another than the process's."""
    return device != META and not is_on_host(device)


def noun_of(devices: Iterable[str]) -> str:
    """What lies on all of these devices: "array" or "tensor"."""
    families = _families(devices)
    return "array" if families and families <= _OF_ARRAYS else "tensor"


def has_torchs(devices: Iterable[str]) -> bool:
    """Whether one of these is torch's; also where none is known."""
    families = _families(devices)
    return not families or bool(families - _OF_OTHERS)


def number_method_of(devices: Iterable[str]) -> str:
    """The method that gives the number of what has one element on these."""
    return "numpy" if "tensorflow" in _families(devices) else "item"


def _families(devices: Iterable[str]) -> set[str]:
    return {device.partition(":")[0] for device in devices}


#: Whose memory is that of arrays.
_OF_ARRAYS = {"numpy", "jax"}
#: Whose is not torch's.
_OF_OTHERS = {*_OF_ARRAYS, "tensorflow"}


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """Memory of one device, in bytes; None where nobody can say.

    ``live_bytes`` and ``peak_bytes`` are of storages born while watched.
    ``allocated_bytes`` is all that the allocator has given out (torch's
    ``memory_allocated``), ``pending_bytes`` what was freed while a stream
    still uses it, ``reserved_bytes`` what the allocator has of the driver,
    ``inactive_split_bytes`` the part of it that is free but shares its
    segment with what is not, ``largest_free_bytes`` the largest piece.
    ``other_bytes`` is in use beside the allocator: the CUDA context,
    libraries such as NCCL, other processes.  ``free_bytes`` and
    ``total_bytes`` are the driver's.
    """

    device: str
    live_bytes: int
    peak_bytes: int
    allocated_bytes: int | None = None
    pending_bytes: int | None = None
    reserved_bytes: int | None = None
    inactive_split_bytes: int | None = None
    largest_free_bytes: int | None = None
    other_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def fragmentation(self) -> float | None:
        """Share of the reserved memory that is free in used segments."""
        if not self.reserved_bytes or self.inactive_split_bytes is None:
            return None
        return self.inactive_split_bytes / self.reserved_bytes

    def __str__(self) -> str:
        if self.device == META:
            return (
                f"{META}: {format_bytes(self.live_bytes)} of what is live,"
                f" {format_bytes(self.peak_bytes)} at its peak: tensors of"
                " shapes alone, which take no memory"
            )
        parts = [f"{format_bytes(self.live_bytes)} live"]
        if self.allocated_bytes is not None:
            parts.append(f"{format_bytes(self.allocated_bytes)} allocated")
        if self.pending_bytes:
            parts.append(
                f"{format_bytes(self.pending_bytes)} freed but in use"
            )
        if self.reserved_bytes is not None:
            parts.append(f"{format_bytes(self.reserved_bytes)} reserved")
        if self.inactive_split_bytes:
            parts.append(
                f"{format_bytes(self.inactive_split_bytes)} of it free between"
                " used blocks"
            )
        if self.other_bytes:
            parts.append(
                f"{format_bytes(self.other_bytes)} beside torch's allocator"
                " (CUDA context, libraries, other processes)"
            )
        if self.free_bytes is not None and self.total_bytes is not None:
            parts.append(
                f"{format_bytes(self.free_bytes)} free of"
                f" {format_bytes(self.total_bytes)}"
            )
        return f"{self.device}: " + ", ".join(parts)
