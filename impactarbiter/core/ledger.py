"""What the ledger knows, and the counting that is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from . import frameworks, wire

if TYPE_CHECKING:
    import numpy as np


def is_active() -> bool:
    """Whether something watches."""
    return _core.is_active()


def totals() -> wire.Totals:
    """Sums over what is alive now."""
    return wire.totals_of(_core.totals())


def status() -> wire.Status:
    """Where the clocks are."""
    return wire.status_of(_core.status())


def curves() -> wire.Curves:
    """What ticks were like, oldest first; a long run is thinned."""
    return wire.curves_of(_core.history())


def rows() -> np.ndarray[Any, Any]:
    """Live storages, a row each; see ``Snapshot`` for the columns."""
    return _core.rows()


def settle() -> None:
    """A report is asked for: what was seen so far is all there is."""
    _core.settle()


def refresh() -> None:
    """Accounts for storages that are only noticed at the ends of steps."""
    _core.refresh()
    frameworks.settle()


def probe_graphs() -> None:
    """Measures anew how far the graph of each line's newest tensor reaches."""
    _core.probe_graphs()


def site_frame(site: int) -> wire.Frame | None:
    """The user's line behind a site; None where no Python was running."""
    frame = _core.site_source(site)
    return None if frame is None else wire.Frame(*frame)


def stack_frames(stack: int) -> list[wire.Frame]:
    """All frames of a stack, innermost first."""
    return [wire.Frame(*frame) for frame in _core.stack_frames(stack)]


def is_library(file: str) -> bool:
    """Whether the code of a file is a library's and no user's."""
    return _core.is_library(file)


# -- counting intervals -------------------------------------------------------


def open_interval(device: int) -> int:
    """Begins to count on a device (type << 8 | index); the interval's handle.

    Too many at once give 0, which closes as an empty one.
    """
    return _core.interval_open(device)


def close_interval(handle: int) -> wire.Interval:
    """What was counted since."""
    counted = _core.interval_close(handle)
    return wire.Interval(*counted) if counted else wire.Interval()


def resident_bytes() -> int:
    """Resident memory of this process; 0: unknown."""
    return _core.resident_bytes()


def process_memory() -> wire.ProcessMemory:
    """Of this process, by kind."""
    return wire.ProcessMemory(*_core.process_memory())
