"""Programs of TensorFlow: what is said of each, leaky, fixed and healthy."""

from __future__ import annotations

import re
from pathlib import Path

import framework_programs as programs
import pytest

from impactarbiter.judging.patches.diffs import patched

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


HISTORY = """
import tensorflow as tf


class Trainer:
    def __init__(self):
        self.history = []
        self.weight = tf.Variable(tf.ones((16, 4)))

    @tf.function
    def step(self, x):
        self.weight.assign_sub(0.01 * tf.transpose(x) @ (x @ self.weight))
        return tf.reduce_sum(x @ self.weight)

    def fit(self):
        for i in range(60):
            loss = self.step(tf.fill((8, 16), 0.01 * i))
            self.history.append(loss)


trainer = Trainer()
trainer.fit()
print(float(trainer.history[-1]))
"""


def test_a_patch_of_numbers_runs(tmp_path: Path) -> None:
    program = tmp_path / "history.py"
    program.write_text(HISTORY)
    (finding,) = programs.report(program, folder=tmp_path)["findings"]
    after = patched(HISTORY, finding["patch"])
    assert after is not None
    program.write_text(after)
    programs.check_quiet(programs.report(program, folder=tmp_path))


@pytest.mark.parametrize("program", HEALTHY, ids=lambda path: path.stem)
def test_healthy_programs_are_not(program: Path, tmp_path: Path) -> None:
    found = programs.report(program, folder=tmp_path)
    programs.check_quiet(found)
    assert found["steps"] >= 50
    trains = re.search(r"GradientTape|\.fit\(", program.read_text())
    assert found["step_kind"] == ("backward" if trains else "compiled call")
