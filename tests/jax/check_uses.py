"""Other ways in than the launcher: a process that runs already, a notebook,
pytest."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import framework_uses as uses

LOOP = """
import jax
import jax.numpy as jnp

step = jax.jit(lambda w, x: (w - 0.01 * (x.T @ (x @ w)), (x @ w).sum()))


class Trainer:
    def __init__(self):
        self.losses = []

    def train(self, steps):
        w = jnp.ones((8, 4))
        for i in range(steps):
            w, loss = step(w, jnp.full((16, 8), 0.01 * (i % 5)))
            self.losses.append(loss)


trainer = Trainer()
"""
FOREVER = """
trainer.train(9)
print("ready", flush=True)
import time
while True:
    trainer.train(20)
    time.sleep(0.02)
"""


def test_a_process_that_runs_already(tmp_path: Path) -> None:
    said = tmp_path / "said.json"
    with uses.running(tmp_path, LOOP + FOREVER) as process:
        pid = str(process.pid)
        for _ in range(2):
            uses.ask("attach", "--steps", "120", "--json", str(said), pid)
            found = json.loads(said.read_text())
            (finding,) = found["findings"]
            assert finding["verdict"] == "leak"
            assert finding["holder"]["expression"] == "__main__.trainer.losses"
            assert finding["grown_at"]["line"] == 16
            assert found["step_kind"] == "compiled call"
            assert found["steps"] >= 120
        held = uses.ask("attach", "--explain", "trainer.losses[3]", pid)
        assert "__main__.trainer.losses[3]" in held
        assert "[] float32 jax:cpu:0" in held
        once = uses.ask("top", "--once", pid)
        # A watch of its own, and a few steps old.
        assert re.search(r"step \d+", once)
        assert process.poll() is None


def test_a_notebook(tmp_path: Path) -> None:
    shown = uses.cells(
        tmp_path,
        LOOP.strip(),
        "%load_ext impactarbiter\n%watch_memory",
        "trainer.train(60)",
        "%watch_memory report",
        "%watch_memory off",
        "%who_holds trainer.losses[3]",
        "%%memory_leaks\nfor _ in range(40): step(jax.numpy.ones((8, 4)),"
        " jax.numpy.ones((16, 8)))",
        "kept = []",
        "%%memory_leaks --runs 12\nkept.append(jax.numpy.ones(100) + 1)",
    )
    assert "leak: __main__.trainer.losses keeps 4 B in 1 array" in shown[2]
    assert "holder      __main__.trainer.losses: list of 60" in shown[3]
    assert re.search(r"grown at    In\[1\]:15 in Trainer.train", shown[3])
    assert "kept by  __main__.trainer.losses[3]\n" in shown[5]
    assert "no leak in 40 steps" in shown[6]
    assert "holder      __main__.kept: list of 12" in shown[8]
    assert "400 B in 1 array" in shown[8]


def test_pytest_runs_a_test_again(tmp_path: Path) -> None:
    said = uses.tensor_leaks(
        tmp_path,
        textwrap.dedent("""
            import jax.numpy as jnp
            import pytest

            history = []

            def test_keeps():
                history.append(jnp.ones(100))

            def test_lets_go():
                assert float(jnp.ones(100).sum()) == 100
        """),
    )
    assert "test_arrays.history keeps 400 B in 1 array" in said
    assert "1 failed, 1 passed" in said
