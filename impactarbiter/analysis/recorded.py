"""A phase with torch's own recording of the CUDA allocator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import ReportError, UsageError


@contextmanager
def recorded(device: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes what ``torch.cuda.memory._dump_snapshot`` does of the block.

    A recording that is on already goes on, and is in the file from its own
    beginning.  The file is written when the block raises, too.

    Raises UsageError for another device than a CUDA one, and ReportError where
    the file cannot be written.
    """
    memory = _memory_of(device)
    begun = not _is_recording()
    if begun:
        memory._record_memory_history(stacks="python")
    try:
        try:
            yield
        finally:
            _dump(memory, path)
    finally:
        if begun:
            memory._record_memory_history(enabled=None)


def _memory_of(device: str) -> Any:
    if not device.startswith("cuda"):
        raise UsageError(
            f"a memory snapshot was asked for on {device!r}: torch records"
            " its allocator's history on CUDA alone; without snapshot= the"
            " block is profiled all the same"
        )
    import torch

    return torch.cuda.memory


def _is_recording() -> bool:
    import torch

    asked = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return bool(asked()) if asked is not None else False


def _dump(memory: Any, path: str | os.PathLike[str]) -> None:
    try:
        memory._dump_snapshot(os.fspath(path))
    except OSError as error:
        raise ReportError(
            f"cannot write {os.fspath(path)}: {error.strerror or error}"
        ) from error
