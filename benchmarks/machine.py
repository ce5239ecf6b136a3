"""On what something was measured, and how busy that was."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe(*packages: str) -> dict[str, Any]:
    """Plain data; ``load`` is the machine's load average of one minute."""
    return {
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def remark(machine: dict[str, Any]) -> str:
    """One line; says where others were at work."""
    load, cores = machine["load"], machine["cores"]
    busy = "; busy, trust the ratios" if load > cores / 2 else ""
    return (
        f"{machine['processor']}, {cores} cores, load {load}{busy};"
        f" Python {machine['python']}, {machine['taken']}"
    )
