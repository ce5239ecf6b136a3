"""A folder from which we are imported as where there is no torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy

import impactarbiter

_NEEDED = ("numpy", "numpy.libs")


def make(folder: Path) -> Path:
    """NumPy and ourselves, as they are installed, without ``_torch``."""
    beside = Path(numpy.__file__).parent.parent
    for name in _NEEDED:
        if (beside / name).exists():
            (folder / name).symlink_to(beside / name)
    shutil.copytree(
        Path(impactarbiter.__file__).parent,
        folder / "impactarbiter",
        ignore=shutil.ignore_patterns("_torch.*", "__pycache__"),
    )
    return folder


def run(
    folder: Path, arguments: Sequence[str], tool: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """``tool python ARGUMENTS`` that sees what ``make`` made, and no more."""
    return subprocess.run(
        [*tool, sys.executable, "-S", "-P", *arguments],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
