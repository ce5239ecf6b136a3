"""What grows and is no tensor: whole programs, and their first line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warm

#: Each step lasts long enough for resident memory to be read every few, and
#: malloc's, which is read the more seldom the longer malloc takes to answer,
#: often enough.
PROGRAM = """
import mmap, sys, tempfile, time
import torch

weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
kept = []
{before}
for step in range(150):
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    {turn}
    {fixed}
    time.sleep({pause})
"""
#: `gone` of each turn is larger than that of the one before.
FIXED = "kept.clear(); gone = []"

INTS = {
    "before": "",
    "turn": "kept.extend(range(step * 10000, (step + 1) * 10000))",
}
FILES = {
    "before": (
        "file = tempfile.TemporaryFile()\n"
        "size = 100 * mmap.PAGESIZE\n"
        "file.truncate(150 * size)"
    ),
    "turn": (
        "kept.append(mmap.mmap(file.fileno(), size, offset=step * size,"
        " prot=mmap.PROT_READ)); kept[-1][::mmap.PAGESIZE]"
    ),
}
#: What is let go lies between what stays, and is too small for what comes.
HOLES = {
    "before": "",
    "turn": (
        "size, gone = 3000 + 64 * step, [];"
        " [(kept.append(b'z' * size), gone.append(b'x' * (size - 32)))"
        " for _ in range(64)]"
    ),
}


#: Contexts of a function: nodes without a tensor.
NODES = {
    "pause": "0.015",
    "before": """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        kept.append(ctx)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
""",
    "turn": "[Twice.apply(weight + weight) for _ in range(20)]",
}


def run(folder: Path, **parts: str) -> tuple[str, dict[str, Any]]:
    """The report's first line, and its JSON."""
    text = PROGRAM.format(**{"fixed": "", "pause": "0.005", **parts})
    return warm.watched(folder, text)


@pytest.mark.parametrize(
    ("parts", "kind", "words"),
    [
        (INTS, "objects", "Python int"),
        (FILES, "files", "mapped files"),
        (HOLES, "kept", "memory that malloc keeps"),
    ],
    ids=["ints", "files", "holes"],
)
def test_what_grows_is_named(
    tmp_path: Path, parts: dict[str, str], kind: str, words: str
) -> None:
    first, report = run(tmp_path, **parts)
    growth = report["process_growth"]
    assert first.startswith("no leak among tensors; grew ")
    assert words in first
    assert growth[kind] > 0.3 * growth["process"]
    if kind == "objects":
        (most, *_rest) = growth["types"]
        assert most["type"] == "int"
        assert most["objects_per_step"] == pytest.approx(10000, rel=0.05)
        assert most["bytes_per_step"] == pytest.approx(320_000, rel=0.05)


def test_nodes_that_no_tensor_has_grow(tmp_path: Path) -> None:
    """A few KiB a step: far less than resident memory would tell."""
    first, report = run(tmp_path, **NODES)
    growth = report["process_growth"]
    assert first.startswith("grew ") and "autograd nodes" in first
    assert growth["nodes"] > 0.3 * growth["process"]
    assert "TwiceBackward" in {one["type"] for one in growth["types"]}


@pytest.mark.parametrize(
    "parts",
    [INTS, FILES, HOLES, NODES],
    ids=["ints", "files", "holes", "nodes"],
)
def test_what_is_let_go_is_not(tmp_path: Path, parts: dict[str, str]) -> None:
    first, report = run(tmp_path, fixed=FIXED, **parts)
    assert first == "no leak in 150 steps"
    assert report["process_growth"] is None
