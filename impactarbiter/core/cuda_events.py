"""Having torch's CUDA allocator report to the ledger.

Nothing here initializes CUDA in a process that has not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from .. import _core
from .built import programs_torch

#: Lines of a snapshot, by torch's name for a block's state.
_STATES = {
    "active_allocated": "known_allocated",
    "active_pending_free": "known_pending",
    "inactive": "known_free",
}
#: Snapshots that may be stale before we give up: other threads allocate.
_ATTEMPTS = 8


class CudaEvents:
    """Torch's CUDA allocator reports to the ledger, from ``install()`` on.

    ``hidden`` says in a sentence why it does not, where it does not.
    """

    def __init__(self) -> None:
        self.hidden: str | None = None
        self._wanted = False
        self._module: ModuleType | None = None  # once it reports

    def install(self) -> None:
        """Attaches now, or as soon as the program initializes CUDA."""
        torch = programs_torch()
        self.hidden = None
        if torch.version.cuda is None:
            return
        self._wanted = True
        with suppress(Exception):
            torch.cuda._lazy_call(self._start)

    def uninstall(self) -> None:
        """Imports nothing."""
        if not self._wanted:
            return
        self._wanted = False
        queue = getattr(programs_torch().cuda, "_queued_calls", [])
        queue[:] = [item for item in queue if item[0] != self._start]
        if self._module is not None:
            self._module.silence()

    def _start(self) -> None:
        """Runs inside torch's initialization: must not raise."""
        if not self._wanted:
            return
        try:
            self._attach()
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else "no reason"
            self.hidden = f"{type(error).__name__}: {reason}"

    def _attach(self) -> None:
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            self.hidden = "PYTORCH_NO_CUDA_MEMORY_CACHING is set"
            return
        try:
            from .. import _cuda
        except ImportError:
            self.hidden = (
                "impactarbiter was built without CUDA events: install the"
                " CUDA Toolkit's headers and build it anew"
            )
            return
        self._module = _cuda
        try:
            _cuda.attach()
        except RuntimeError:
            self.hidden = f"torch uses the {_cuda.allocator()} allocator"
            return
        _core.device_rules(*_cuda.rules())
        if not _follow_all():
            self.hidden = "other threads allocated all the time"


cuda: CudaEvents = CudaEvents()


def code_of(kind: str, index: int = 0) -> int:
    """A device as the core writes it: device type << 8 | index."""
    return _core.DEVICE_TYPES.index(kind) << 8 | index


def _action(name: str) -> int:
    return _core.DEVICE_ACTIONS.index(name)


def _follow_all() -> bool:
    """From a snapshot of what is allocated now, each device is followed."""
    torch = programs_torch()
    missing = set(range(torch.cuda.device_count()))
    for _ in range(_ATTEMPTS):
        seen = {d["code"]: d["seen"] for d in _core.devices()}
        segments = torch._C._cuda_memorySnapshot(None)["segments"]
        for index in sorted(missing):
            code = code_of("cuda", index)
            lines = snapshot_lines(
                [s for s in segments if s["device"] == index]
            )
            if _core.device_follow(code, lines, seen.get(code, 0)):
                missing.discard(index)
        if not missing:
            return True
    return False


def snapshot_lines(segments: list[dict[str, Any]]) -> Any:
    """Segments of ``memory_snapshot()`` as an array for the core."""
    import numpy as np

    return np.array(
        [line for segment in segments for line in _segment_lines(segment)],
        dtype=_core.DEVICE_COLUMNS,
    )


def _segment_lines(segment: dict[str, Any]) -> Iterator[tuple[int, ...]]:
    first, second = segment.get("segment_pool_id", (0, 0))
    place = (
        segment["stream"],
        first << 32 | second,
        code_of("cuda", segment["device"]),
    )
    kind = "segment_map" if segment.get("is_expandable") else "segment_alloc"
    yield (segment["address"], segment["total_size"], 0, *place, _action(kind))
    for block in segment["blocks"]:
        state = _action(_STATES[block["state"]])
        free = block["state"] == "inactive"
        asked = 0 if free else block["requested_size"]
        yield (block["address"], asked, block["size"], *place, state)
