"""The processes of this user that run PyTorch, read from /proc."""

from __future__ import annotations

import os
import re
from typing import Any

from ...attaching import target
from ...attaching.target import AttachError
from ...base.files import kernel_file
from .words import cut

#: Processes in one answer.
MOST_PROCESSES = 30
_TORCH = re.compile(r"/torch/_C\.cpython-|/libtorch_cpu\.so")
_OURS = re.compile(r"/impactarbiter/_core\.")


def with_torch(masked: bool) -> dict[str, Any]:
    """Each process that has torch in memory, and whether it can be watched.

    Nothing in them is touched.
    """
    found = []
    for pid in sorted(int(n) for n in os.listdir("/proc") if n.isdecimal()):
        files = _maps(pid)
        if _TORCH.search(files):
            found.append(_process(pid, files, masked))
    return {
        "processes": found[:MOST_PROCESSES],
        "left_out": max(0, len(found) - MOST_PROCESSES),
    }


def _process(pid: int, files: str, masked: bool) -> dict[str, Any]:
    try:
        target.find(pid)
        hindrance = None
    except AttachError as error:
        hindrance = cut(str(error))
    told: dict[str, Any] = {
        "pid": pid,
        "can_be_attached_to": hindrance is None,
        "hindrance": hindrance,
        "has_impactarbiter_loaded": bool(_OURS.search(files)),
    }
    if not masked:
        told["command"] = cut(_command(pid), 200)
    return told


def _maps(pid: int) -> str:
    """ "" for what is not ours to see."""
    try:
        with kernel_file(pid, "maps") as stream:
            return stream.read()
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words).strip()
