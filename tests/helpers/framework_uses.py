"""Ways in other than the launcher, for programs of a framework: a process
that runs already, the cells of a notebook, pytest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbclient
import nbformat


@contextmanager
def running(folder: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has said ``ready``, until the block ends."""
    file = folder / "program.py"
    file.write_text(program)
    with subprocess.Popen(
        [sys.executable, "-P", str(file)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def ask(*args: str) -> str:
    """What the command line says."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "impactarbiter", *args],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(folder: Path, *sources: str) -> list[str]:
    """What each cell of a notebook has shown."""
    made = nbformat.v4
    notebook: Any = made.new_notebook(
        cells=[made.new_code_cell(source) for source in sources]
    )
    nbclient.NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    return [
        "\n".join(
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.outputs
        )
        for cell in notebook.cells
    ]


def tensor_leaks(folder: Path, tests: str) -> str:
    """What `pytest --tensor-leaks` says of a file of tests."""
    file = folder / "test_arrays.py"
    file.write_text(tests)
    done = subprocess.run(
        [
            *[sys.executable, "-P", "-m", "pytest", "-q", "--tensor-leaks"],
            *["-p", "no:cacheprovider", str(file)],
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if "PYTEST" not in k},
    )
    return done.stdout


# -- the same uses of each framework ------------------------------------------

TRAINER = """
class Trainer:
    def __init__(self):
        self.losses = []

    def train(self, steps):
        w = {ones}((8, 4))
        for i in range(steps):
            w, loss = step(w, {full}((16, 8), 0.01 * (i % 5)))
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
PYTEST = """
{imports}
import pytest

history = []

def test_keeps():
    history.append({ones}(100))

def test_lets_go():
    assert float({sum}({ones}(100))) == 100
"""


@dataclass(frozen=True)
class Framework:
    """How a program of it is written, and what is said of one.

    ``step``: the source of a compiled ``step(w, x)``, behind ``imports``;
    ``line``: where the notebook's first cell appends.
    """

    imports: str
    step: str
    ones: str
    full: str
    sum: str
    device: str
    noun: str
    line: int

    @property
    def loop(self) -> str:
        trainer = TRAINER.format(ones=self.ones, full=self.full)
        return f"{self.imports}\n{self.step}\n{trainer}"


def follows_a_process(folder: Path, of: Framework) -> None:
    said = folder / "said.json"
    with running(folder, of.loop + FOREVER) as process:
        pid = str(process.pid)
        for _ in range(2):
            ask("attach", "--steps", "120", "--json", str(said), pid)
            found = json.loads(said.read_text())
            (finding,) = found["findings"]
            assert finding["verdict"] == "leak"
            assert finding["holder"]["expression"] == "__main__.trainer.losses"
            assert finding["grown_at"]["line"] == of.line
            assert found["step_kind"] == "compiled call"
            assert found["steps"] >= 120
        held = ask("attach", "--explain", "trainer.losses[3]", pid)
        assert "__main__.trainer.losses[3]" in held
        assert f"[] float32 {of.device}" in held
        once = ask("top", "--once", pid)
        # A watch of its own, and a few steps old.
        assert re.search(r"step \d+", once)
        assert process.poll() is None


def follows_a_notebook(folder: Path, of: Framework) -> None:
    shown = cells(
        folder,
        of.loop,
        "%load_ext impactarbiter\n%watch_memory",
        "trainer.train(60)",
        "%watch_memory report",
        "%watch_memory off",
        "%who_holds trainer.losses[3]",
        f"%%memory_leaks\nfor _ in range(40): step({of.ones}((8, 4)),"
        f" {of.ones}((16, 8)))",
        "kept = []",
        f"%%memory_leaks --runs 12\nkept.append({of.ones}(100) + 1.0)",
    )
    keeps = f"leak: __main__.trainer.losses keeps 4 B in 1 {of.noun}"
    assert keeps in shown[2]
    assert "holder      __main__.trainer.losses: list of 60" in shown[3]
    grown = rf"grown at    In\[1\]:{of.line} in Trainer.train"
    assert re.search(grown, shown[3])
    assert "kept by  __main__.trainer.losses[3]\n" in shown[5]
    assert "no leak in 40 steps" in shown[6]
    assert "holder      __main__.kept: list of 12" in shown[8]
    assert f"400 B in 1 {of.noun}" in shown[8]


def follows_pytest(folder: Path, of: Framework) -> None:
    tests = PYTEST.format(imports=of.imports, ones=of.ones, sum=of.sum)
    said = tensor_leaks(folder, tests)
    leak = f"{of.noun} leak: test_arrays.history keeps 400 B in 1 {of.noun}"
    assert leak in said
    assert "1 failed, 1 passed" in said
