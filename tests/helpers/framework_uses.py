"""Ways in other than the launcher, for programs of a framework: a process
that runs already, the cells of a notebook, pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
