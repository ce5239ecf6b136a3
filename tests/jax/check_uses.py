"""Other ways in than the launcher: a process that runs already, a notebook,
pytest."""

from __future__ import annotations

from pathlib import Path

import framework_uses as uses

STEP = """
step = jax.jit(lambda w, x: (w - 0.01 * (x.T @ (x @ w)), (x @ w).sum()))
"""
OURS = uses.Framework(
    imports="import jax\nimport jax.numpy as jnp",
    step=STEP,
    ones="jnp.ones",
    full="jnp.full",
    sum="jnp.sum",
    device="jax:cpu:0",
    noun="array",
    line=15,
)


def test_a_process_that_runs_already(tmp_path: Path) -> None:
    uses.follows_a_process(tmp_path, OURS)


def test_a_notebook(tmp_path: Path) -> None:
    uses.follows_a_notebook(tmp_path, OURS)


def test_pytest_runs_a_test_again(tmp_path: Path) -> None:
    uses.follows_pytest(tmp_path, OURS)
