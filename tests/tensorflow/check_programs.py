"""Programs of TensorFlow: what is said of each, leaky, fixed and healthy."""

from __future__ import annotations

from pathlib import Path

import framework_programs as programs
import pytest

HERE = Path(__file__).resolve().parent
PAIRS = sorted((HERE / "pairs").glob("*.py"))
HEALTHY = sorted((HERE / "healthy").glob("*.py"))


@pytest.mark.parametrize("program", PAIRS, ids=lambda path: path.stem)
def test_leaky_programs_are_told(program: Path, tmp_path: Path) -> None:
    found = programs.report(program, "leaky", folder=tmp_path)
    programs.check_leaky(program, found)


@pytest.mark.parametrize("program", PAIRS, ids=lambda path: path.stem)
def test_fixed_programs_are_not(program: Path, tmp_path: Path) -> None:
    found = programs.report(program, "fixed", folder=tmp_path)
    programs.check_quiet(found)


def test_models_that_are_let_go_are_garbage(tmp_path: Path) -> None:
    models = HERE / "pairs" / "models.py"
    found = programs.report(models, "dropped", folder=tmp_path)["findings"]
    assert found
    # When the collector runs is its own affair: with it they are bounded.
    assert {f["verdict"] for f in found} <= {
        "cycle",
        "growing",
        "accumulation",
    }
    assert all(f["cycle"] and f["severity"] == "info" for f in found)


@pytest.mark.parametrize("program", HEALTHY, ids=lambda path: path.stem)
def test_healthy_programs_are_not(program: Path, tmp_path: Path) -> None:
    found = programs.report(program, folder=tmp_path)
    programs.check_quiet(found)
    assert found["steps"] >= 50
    kind = "backward" if program.stem == "eager" else "compiled call"
    assert found["step_kind"] == kind
