"""NumPy's arrays alone, where there is no torch."""

from __future__ import annotations

from pathlib import Path

import without_torch

ARRAYS = Path(__file__).parents[1] / "sanitizers" / "arrays.py"


def test_arrays_without_torch(tmp_path: Path) -> None:
    done = without_torch.run(without_torch.make(tmp_path), [str(ARRAYS)])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "arrays: ok\n"
