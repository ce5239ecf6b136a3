"""How much memory something takes, beyond what the process had."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def extra_memory(call: Callable[[], Result]) -> tuple[Result, int]:
    """What the call gives, and by how many bytes it raised the process's peak
    of resident memory over what was resident before (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    result = call()
    return result, max(_status("VmHWM") - before, 0)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")
