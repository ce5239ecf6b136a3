"""Arrays that programs keep, in each way that they are held: whole programs,
leaky and fixed, and their first line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warm

PROGRAM = """
import time
import numpy as np
import torch

class Sub(np.ndarray):
    pass

class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.seen = []
    def __len__(self):
        return 60
    def __getitem__(self, index):
        row = np.random.rand(4000)
        {item}
        return row

weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
loader = torch.utils.data.DataLoader(Data(), batch_size=1)
kept, grid = [], np.empty({room}, dtype=object)
table = np.zeros({room}, dtype=[("step", "i8"), ("obs", "O")])
one = np.zeros(0)
for step, row in enumerate(loader):
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    value = torch.randn(5000)
    {turn}
"""

#: What makes a turn of it that keeps nothing.
LAST = "; kept.clear()"
#: What a turn does, and the path to what is kept.
KINDS = {
    "dict": ("kept.append({'obs': value.numpy()})", "kept[", "['obs'].base"),
    "tuple": ("kept.append((step, value.numpy()))", "kept[", "[1].base"),
    "record": (
        "kept.append(np.zeros(99, [('n', 'i8'), ('x', 'f4', 30)])[5])",
        "kept[",
        "].base",
    ),
    "record of a view": (
        "kept.append(np.zeros(99, [('x', 'f4', 30)]).view(np.recarray)[5])",
        "kept[",
        "].base.base",
    ),
    "view": ("kept.append(np.random.rand(99, 99)[0])", "kept[", "].base"),
    "subclass": (
        "array = np.zeros(4).view(Sub); array.more = value.numpy();"
        " kept.append(array); del array",
        "kept[",
        "].more.base",
    ),
    "object array": ("grid[step % len(grid)] = value.numpy()", "grid[", ""),
    "structured array": (
        "table['obs'][step % len(table)] = value.numpy()",
        "table[",
        "['obs'].base",
    ),
    "pandas": (
        "import pandas;"
        " kept.append(pandas.DataFrame({'a': value.numpy() + 1}))",
        "kept[",
        "",
    ),
}


def run(folder: Path, **parts: Any) -> tuple[str, dict[str, Any]]:
    """The report's first line, and its JSON."""
    text = PROGRAM.format(**{"item": "", "room": 60, **parts})
    return warm.watched(folder, text)


@pytest.mark.parametrize("kind", KINDS)
def test_what_keeps_arrays_is_named(tmp_path: Path, kind: str) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    turn, holder, end = KINDS[kind]
    first, report = run(tmp_path, turn=turn)
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    text = finding["path"]["text"]
    assert text.startswith(f"__main__.{holder}") and text.endswith(end)
    # Of the elements of an array no statement is seen.
    seen = finding["grown_at"] is not None
    at = " a step at program.py:" if seen else ", allocated at program.py:"
    assert "1 leak: " in first and at in first


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_let_go_is_none(tmp_path: Path, kind: str) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    first, report = run(tmp_path, turn=KINDS[kind][0] + LAST, room=3)
    assert first == "no leak in 60 steps"
    assert report["findings"] == []


@pytest.mark.parametrize("fixed", [False, True])
def test_one_array_that_grows(tmp_path: Path, fixed: bool) -> None:
    parts = (
        "np.zeros(2000)" if fixed else "np.concatenate([one, row[0, :2000]])"
    )
    first, report = run(tmp_path, turn=f"one = {parts}")
    if fixed:
        assert first == "no leak in 60 steps"
        return
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["path"]["text"] == "__main__.one"
    assert finding["bytes_per_step"] == pytest.approx(16_000, rel=0.05)
    assert first.startswith("CRITICAL, 1 leak: 1")
    assert "`__main__.one` gets ever longer" in first


@pytest.mark.parametrize("fixed", [False, True])
def test_a_data_set_in_the_main_process(tmp_path: Path, fixed: bool) -> None:
    item = "" if fixed else "self.seen.append(row)"
    first, report = run(tmp_path, item=item, turn="pass")
    if fixed:
        assert first == "no leak in 60 steps"
        return
    (finding,) = report["findings"]
    assert ".seen[" in finding["path"]["text"]
    assert first.startswith("CRITICAL, 1 leak: 31.2 KiB a step at program.py")
