"""Which of several containers is the holder, and what it goes by: lists in
dicts, storages that every step makes anew, programs that end."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import textwrap
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import impactarbiter
from impactarbiter import Finding, Report
from impactarbiter.watching.arbiter import current


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    left = current()
    if left is not None:
        left.stop()


def watched(turn: Callable[[int], object], steps: int) -> Report:
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(steps):
            turn(step)
            arbiter.step()
        return arbiter.report()


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def holder_of(finding: Finding) -> str:
    assert finding.holder is not None
    return finding.holder.expression.split("().", 1)[1]


# -- containers in containers -------------------------------------------------


class Log:
    def __init__(self) -> None:
        self.epochs: defaultdict[int, list[torch.Tensor]] = defaultdict(list)


@pytest.mark.parametrize(
    ("length", "holder"), [(3, "log.epochs"), (12, "log.epochs[3]")]
)
def test_lists_that_are_filled_one_after_another(
    length: int, holder: str
) -> None:
    log = Log()
    report = watched(
        lambda i: log.epochs[i // length].append(torch.ones(8)), 48
    )
    finding = only(report)
    assert finding.verdict == "leak"
    assert holder_of(finding) == holder
    assert finding.retained_tensors >= 40
    assert report.taken_back == ()


def test_lists_that_are_filled_side_by_side_are_holders() -> None:
    log = Log()
    # Some are fed more often than others.
    order = [0, 1, 0, 2, 0, 1, 3, 0]
    finding = only(
        watched(lambda i: log.epochs[order[i % 8]].append(torch.ones(8)), 64)
    )
    assert finding.verdict == "leak"
    assert holder_of(finding) in {f"log.epochs[{i}]" for i in range(4)}
    assert finding.holder is not None and finding.holder.alike == 4
    assert finding.bytes_per_step == pytest.approx(32, rel=0.3)


def test_a_dict_that_gets_ever_new_keys_is_the_holder_of_short_lists() -> None:
    log = Log()

    def turn(step: int) -> None:
        log.epochs[step].append(torch.ones(8))
        log.epochs[max(step - 5, 0)].append(torch.ones(8))

    assert holder_of(only(watched(turn, 48))) == "log.epochs"


def test_lists_of_two_lines_one_after_another_are_two_holders() -> None:
    log: dict[str, list[torch.Tensor]] = {"early": [], "late": []}

    def turn(step: int) -> None:
        if step < 40:
            log["early"].append(torch.ones(8))
        else:
            log["late"].append(torch.ones(8))

    found = watched(turn, 60).findings
    assert {holder_of(f) for f in found} <= {"log['early']", "log['late']"}
    assert "log['late']" in {holder_of(f) for f in found}


def test_what_torch_returns_in_a_named_tuple_is_followed() -> None:
    kept = []
    finding = only(watched(lambda i: kept.append(torch.ones(8, 8).max(1)), 40))
    assert finding.verdict == "leak"
    assert holder_of(finding) == "kept"
    assert str(finding.path).endswith((".values", ".indices", "[0]", "[1]"))


# -- made anew at every step --------------------------------------------------


class Tap:
    def __init__(self, layer: nn.Module) -> None:
        self.value: torch.Tensor | None = None
        layer.register_forward_hook(self.hook)

    def hook(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self.value = output.detach().mean(0)


def test_hooks_whose_values_are_all_replaced_at_every_step() -> None:
    layer = nn.Linear(4, 16)

    def turn(step: int) -> None:
        Tap(layer)
        layer(torch.ones(2, 4))

    finding = only(watched(turn, 96))
    assert finding.verdict == "leak"
    assert holder_of(finding) == "layer._forward_hooks"
    assert finding.bytes_per_step == pytest.approx(64, rel=0.2)


# -- programs that end -------------------------------------------------------


def report_of(folder: Path, text: str) -> dict[str, Any]:
    script = folder / "program.py"
    script.write_text("import torch\n" + textwrap.dedent(text))
    command = [sys.executable, "-P", "-m", "impactarbiter", "run"]
    command += ["--json", "report.json", script.name]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    answer: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return answer


WEIGHTS = """
w = torch.nn.Parameter(torch.ones(64))
opt = torch.optim.SGD([w], lr=0.1)

def step():
    loss = w.square().sum()
    loss.backward()
    opt.step()
    return loss
"""


@pytest.mark.parametrize("end", ["sys.exit(0)", "raise ValueError(3)", "pass"])
def test_a_holder_keeps_the_name_that_it_had_in_the_run(
    tmp_path: Path, end: str
) -> None:
    report = report_of(
        tmp_path,
        WEIGHTS
        + f"""
import sys

def main():
    history = []
    for i in range(60):
        history.append(step())
    {end}

main()
""",
    )
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "main().history"
    assert finding["grown_at"]["source"] == "history.append(step())"
    assert report["taken_back"] == []


def test_what_the_end_of_a_program_frees_was_not_let_go(
    tmp_path: Path,
) -> None:
    report = report_of(
        tmp_path,
        WEIGHTS
        + """
import weakref

class Model:
    pass

def main():
    model = Model()
    for i in range(60):
        step()
        weakref.finalize(model, print, torch.ones(64))

main()
""",
    )
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "weakref.finalize._registry"
    assert "released by now" in finding["note"]
    assert finding["retained_tensors"] > 40


def test_what_went_before_the_end_is_not_told(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        WEIGHTS
        + """
def warm_up():
    kept = []
    for i in range(20):
        kept.append(step().detach())

def main():
    warm_up()
    for i in range(60):
        step()

main()
""",
    )
    assert report["findings"] == []


def test_an_optimizer_that_was_frozen_before_the_watch_ends_the_steps() -> (
    None
):
    from impactarbiter.core import ledger

    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    gc.freeze()
    try:
        with impactarbiter.watch():
            assert ledger.status().kind == 0  # the strongest
    finally:
        gc.unfreeze()
    assert optimizer.param_groups


# -- several references to one growth -----------------------------------------


def test_a_graph_that_several_states_hold_costs_what_all_of_them_keep() -> (
    None
):
    cell, recent = nn.GRUCell(4, 8), deque[torch.Tensor](maxlen=8)
    carried = [torch.zeros(2, 8)]

    def turn(step: int) -> None:
        carried[0] = cell(torch.ones(2, 4), carried[0])
        recent.append(carried[0])

    finding = only(watched(turn, 60))
    assert finding.verdict == "leak"
    assert finding.holder is not None and finding.holder.shared
    assert finding.graph is not None and finding.graph.nodes > 60 * 5
    assert finding.graph_bytes_per_step == pytest.approx(
        finding.graph.node_bytes / 60, rel=0.3
    )
    assert "detach what is carried" in finding.advice
    assert "freed once nothing else holds the same" in str(
        Report(findings=(finding,))
    )


def test_arrays_that_two_lists_hold_cost_what_both_keep() -> None:
    first: list[np.ndarray] = []
    second: list[np.ndarray] = []

    def turn(step: int) -> None:
        first.append(np.ones(4096))
        second.append(first[-1])

    finding = only(watched(turn, 60))
    assert finding.holder is not None and finding.holder.shared
    assert finding.retained_bytes >= 50 * 4096 * 8
