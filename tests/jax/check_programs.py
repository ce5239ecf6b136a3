"""Programs of JAX: what is said of each, leaky, fixed and healthy.

In every one of them the ledger has what ``jax.live_arrays()`` has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import framework_programs as programs
import pytest

HERE = Path(__file__).resolve().parent
PAIRS = sorted((HERE / "pairs").glob("*.py"))
HEALTHY = sorted((HERE / "healthy").glob("*.py"))


def report(program: Path, *args: str, folder: Path) -> dict[str, Any]:
    found = programs.report(program, *args, folder=folder)
    assert any("has the same" in said for said in found["cross_checks"])
    return found


@pytest.mark.parametrize("program", PAIRS, ids=lambda path: path.stem)
def test_leaky_programs_are_told(program: Path, tmp_path: Path) -> None:
    found = report(program, "leaky", folder=tmp_path)
    programs.check_leaky(program, found)


@pytest.mark.parametrize("program", PAIRS, ids=lambda path: path.stem)
def test_fixed_programs_are_not(program: Path, tmp_path: Path) -> None:
    programs.check_quiet(report(program, "fixed", folder=tmp_path))


@pytest.mark.parametrize("program", HEALTHY, ids=lambda path: path.stem)
def test_healthy_programs_are_not(program: Path, tmp_path: Path) -> None:
    found = report(program, folder=tmp_path)
    programs.check_quiet(found)
    assert found["steps"] >= 50
    trains = "grad(" in program.read_text()
    assert found["step_kind"] == ("backward" if trains else "compiled call")


def test_a_memo_is_no_variable_of_the_loop_that_fills_it(
    tmp_path: Path,
) -> None:
    program = HERE / "pairs" / "cached_steps.py"
    (finding,) = report(program, "leaky", folder=tmp_path)["findings"]
    assert finding["verdict"] == "leak"
