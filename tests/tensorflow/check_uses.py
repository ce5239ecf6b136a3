"""Other ways in than the launcher: a process that runs already, a notebook,
pytest."""

from __future__ import annotations

from pathlib import Path

import framework_uses as uses

STEP = """
@tf.function
def step(w, x):
    return w - 0.01 * (tf.transpose(x) @ (x @ w)), tf.reduce_sum(x @ w)
"""
OURS = uses.Framework(
    imports="import tensorflow as tf",
    step=STEP,
    ones="tf.ones",
    full="tf.fill",
    sum="tf.reduce_sum",
    device="tensorflow:cpu:0",
    noun="tensor",
    line=16,
)


def test_a_process_that_runs_already(tmp_path: Path) -> None:
    uses.follows_a_process(tmp_path, OURS)


def test_a_notebook(tmp_path: Path) -> None:
    uses.follows_a_notebook(tmp_path, OURS)


def test_pytest_runs_a_test_again(tmp_path: Path) -> None:
    uses.follows_pytest(tmp_path, OURS)
