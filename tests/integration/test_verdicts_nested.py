"""Which of several containers is the holder, and what it goes by: lists in
dicts, storages that every step makes anew, programs that end."""

from __future__ import annotations

import asyncio
import gc
import json
import queue
import random
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm
from torch import nn

import impactarbiter
from impactarbiter import Finding, Report
from impactarbiter.core import hooks
from impactarbiter.judging import walks
from impactarbiter.judging.diagnostician import Diagnostician

pytestmark = pytest.mark.usefixtures("quiet")


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


# -- pairs that lead to the one before --------------------------------------


class Trail:
    def __init__(self) -> None:
        self.seen: Any = None
        self.count = 0

    def add(self) -> None:
        self.count += 1
        self.seen = (torch.ones(100), self.seen)

    def add_and_begin_anew(self) -> None:
        self.add()
        if self.count % 40 == 0:
            self.seen = None


def test_a_list_of_pairs_grows_by_the_line_that_puts_one_in_front() -> None:
    trail = Trail()
    report = watched(lambda _step: trail.add(), 300)
    finding = only(report)
    assert (finding.verdict, holder_of(finding)) == ("leak", "trail.seen")
    assert finding.bytes_per_step == pytest.approx(400, rel=0.05)
    assert finding.retained_bytes == pytest.approx(300 * 400, rel=0.05)
    assert finding.grown_at is not None
    assert finding.grown_at.function == "Trail.add"


def test_a_list_of_pairs_that_begins_anew_is_no_leak() -> None:
    trail = Trail()
    report = watched(lambda _step: trail.add_and_begin_anew(), 300)
    assert not any(f.confirmed for f in report.findings)


# -- values that are made larger in their places -----------------------------


class Banks:
    """Each of the two grows at every second step, by one statement."""

    def __init__(self) -> None:
        self.weak, self.strong = torch.ones(8, 16), torch.ones(8, 16)

    def push(self, name: str, keys: torch.Tensor) -> None:
        merged = torch.cat([getattr(self, name), keys])
        setattr(self, name, merged)

    def fill(self, name: str, keys: torch.Tensor) -> None:
        setattr(self, name, torch.ones(len(keys) * len(keys), 16))


def test_values_that_grow_in_turns_are_told_singly() -> None:
    """No container grows: it has two, as ever."""
    banks = Banks()
    by_name = {"a": torch.ones(8, 16), "b": torch.ones(8, 16)}

    def turn(step: int) -> None:
        banks.push(("weak", "strong")[step % 2], torch.ones(32, 16))
        key = "ab"[step % 2]
        by_name[key] = torch.cat([by_name[key], torch.ones(32, 16)])

    report = watched(turn, 120)
    assert {holder_of(f) for f in report.findings} == {
        "banks.weak",
        "banks.strong",
        "by_name['a']",
        "by_name['b']",
    }
    for finding in report.findings:
        assert finding.verdict == "leak"
        assert finding.grown_at is not None
        assert finding.grown_at.source.startswith(("setattr", "by_name[key]"))
        size = 32 * 16 * 4 / 2
        assert finding.bytes_per_step == pytest.approx(size, rel=0.1)


def test_larger_values_that_are_no_longer_the_one_before() -> None:
    banks = Banks()

    def turn(step: int) -> None:
        banks.fill(("weak", "strong")[step % 2], torch.ones(4 + step // 4))

    assert watched(turn, 120).findings == ()


# -- containers that come to lie in each other's places ----------------------


class Metric:
    """As a metric is moved to a device: its lists are made anew, with what
    they had, and one comes to lie where another one lay."""

    def __init__(self) -> None:
        self.preds: list[torch.Tensor] = []
        self.target: list[torch.Tensor] = []

    def update(self) -> None:
        self.preds.append(torch.ones(32))
        self.target.append(torch.zeros(32, dtype=torch.int64))

    def move(self) -> None:
        before = id(self.preds)
        self.preds = [*self.preds]
        self.target = [*self.target]
        assert id(self.target) == before


@pytest.mark.parametrize("moved", [(60,), (119,), (60, 119)])
def test_a_list_that_comes_to_lie_where_another_lay_is_not_that_one(
    moved: tuple[int, ...],
) -> None:
    metric = Metric()

    def turn(step: int) -> None:
        metric.update()
        if step in moved:
            metric.move()

    report = watched(turn, 120)
    found = {holder_of(f): f for f in report.findings}
    assert found.keys() == {"metric.preds", "metric.target"}
    for name, finding in found.items():
        assert finding.verdict == "leak"
        kind = {"metric.preds": "float32", "metric.target": "int64"}[name]
        assert [t.dtype for t in finding.tensors] == [kind]
        assert finding.grown_at is not None
        assert finding.grown_at.source.startswith(f"self.{name[7:]}.append")


# -- containers in containers -------------------------------------------------


class Log:
    def __init__(self) -> None:
        self.epochs: defaultdict[int, list[torch.Tensor]] = defaultdict(list)


@pytest.mark.parametrize("length", [3, 12])
def test_lists_that_are_filled_one_after_another(length: int) -> None:
    """Each of them is done when the next one begins: the dict grows."""
    log = Log()
    report = watched(
        lambda i: log.epochs[i // length].append(torch.ones(8)), 48
    )
    finding = only(report)
    assert finding.verdict == "leak"
    assert holder_of(finding) == "log.epochs"
    assert finding.retained_tensors >= 40
    assert report.taken_back == ()


def filled_in_a_call(arbiter: impactarbiter.Arbiter) -> None:
    """Twelve lists of sixty, in a dict that is gone at the report."""
    log = Log()
    for step in range(720):
        log.epochs[step // 60].append(torch.ones(8))
        arbiter.step()


def test_lists_that_nobody_visits_yet_are_walked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walks, "WALK_SHARE", 1e6)
    with impactarbiter.watch(step="manual") as arbiter:
        filled_in_a_call(arbiter)
        finding = only(arbiter.report())
    assert holder_of(finding) == "log.epochs"
    assert finding.retained_tensors > 360


def test_figures_of_lists_are_as_of_when_they_were_visited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walks, "WALK_SHARE", 1e6)
    monkeypatch.setattr(walks.Walks, "_wanted_anew", lambda *_given: False)
    with impactarbiter.watch(step="manual") as arbiter:
        filled_in_a_call(arbiter)
        finding = only(arbiter.report())
    assert finding.note is not None
    step = int(finding.note.rpartition(" ")[2])
    off = step * walks.LONGEST_PAUSE + 1
    assert finding.retained_tensors == pytest.approx(step, abs=off)


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


@pytest.mark.parametrize("apart", [None, 40])
def test_hooks_of_each_epoch_whose_values_are_replaced_at_every_step(
    apart: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dozen steps without a new hook replace all that the hooks have, be
    there a visit in between or not."""
    if apart is not None:
        every = apart
        monkeypatch.setattr(
            walks.Walks, "ticks_to_look", lambda *_args: every
        )
    layer, told = nn.Linear(4, 16), list[Finding]()
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for step in range(400):
            if step % 12 == 11:
                Tap(layer)
            layer(torch.ones(2, 4))
            arbiter.step()
        finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert holder_of(finding) == "layer._forward_hooks"
    assert finding.bytes_per_step == pytest.approx(64 / 12, rel=0.1)
    for passing in told:
        assert passing.bytes_per_step == pytest.approx(64 / 12, rel=0.5)


# -- what leaves a container and stays ----------------------------------------


class Link:
    """Of a list that goes both ways, or of a tree."""

    def __init__(self, value: torch.Tensor, before: Link | None) -> None:
        self.value, self.before, self.below = value, before, list[Link]()
        if before is not None:
            before.below.append(self)


def test_what_leaves_a_table_is_led_to_by_its_parent() -> None:
    """A table of a dozen leaves: those that it drops stay in the tree."""
    tree = Link(torch.ones(1), None)
    branches = [Link(torch.ones(1), tree) for _ in range(3)]
    table = dict[int, Link]()
    del tree

    def turn(step: int) -> None:
        table[step] = Link(torch.ones(256), branches[step % 3])
        if len(table) > 12:
            del table[next(iter(table))]

    report = watched(turn, 300)
    leaks = [f for f in report.findings if f.verdict == "leak"]
    assert sum(f.bytes_per_step for f in leaks) == pytest.approx(1024, rel=0.1)
    assert {f.verdict for f in report.findings} == {"leak"}


class Node:
    """Of a trie."""

    def __init__(self, parent: Node | None) -> None:
        self.parent, self.children = parent, dict[int, Node]()
        self.value: torch.Tensor | None = None


class Cached:
    """A table of a dozen leaves: those that it drops stay in the trie."""

    def __init__(self) -> None:
        self.root, self.order = Node(None), dict[tuple[int, ...], Node]()

    def insert(self, keys: tuple[int, ...], value: torch.Tensor) -> None:
        node = self.root
        for key in keys:
            node = node.children.setdefault(key, Node(node))
        node.value = value
        self.order[keys] = node
        if len(self.order) > 12:
            del self.order[next(iter(self.order))]


def test_what_leaves_a_table_and_is_led_to_by_what_it_has() -> None:
    """Each of many branches has some of it, the table's items lead to all."""
    cached = Cached()

    def turn(step: int) -> None:
        if step % 3 == 0:
            at = step // 3
            cached.insert((at % 3, at * 5 % 4, at), torch.ones(256))

    finding = only(watched(turn, 300))
    assert finding.verdict == "leak"
    assert holder_of(finding) == "cached.order"
    assert "what leaves it stays" in str(finding)
    assert "cut the references" in finding.advice
    assert finding.bytes_per_step == pytest.approx(1024 / 3, rel=0.1)


class Corrected:
    """Its function is wrapped in another one, which keeps a tensor."""

    def __init__(self) -> None:
        self.correct: Callable[..., Any] = max

    def wrap(self, most: int | None = None) -> None:
        inner = self.correct
        if most is not None:
            inner = cut(inner, most)
        self.correct = partial(sum, inner, torch.ones(256))


def cut(function: Any, most: int) -> Callable[..., Any]:
    """The same with so many wrappers at most."""
    if most == 0 or not isinstance(function, partial):
        return max
    return partial(sum, cut(function.args[0], most - 1), function.args[1])


def test_a_function_that_is_wrapped_again_and_again() -> None:
    """No name leads to the wrapper before, but by the one that is newest."""
    mine = Corrected()
    finding = only(watched(lambda at: at % 6 or mine.wrap(), 240))
    assert finding.verdict == "leak"
    assert holder_of(finding).startswith("mine.correct")
    assert "what leaves it stays" in str(finding)
    assert finding.bytes_per_step == pytest.approx(1024 / 6, rel=0.1)


def test_a_function_that_has_the_last_wrappers() -> None:
    mine = Corrected()
    report = watched(lambda at: at % 6 or mine.wrap(5), 240)
    assert all(f.verdict != "leak" for f in report.findings)


@pytest.mark.parametrize("each", [1, 3])
def test_what_leaves_a_table_and_dies(each: int) -> None:
    """Be it that what comes has ever more."""
    table = dict[int, list[torch.Tensor]]()

    def turn(step: int) -> None:
        table[step] = [torch.ones(64) for _ in range(each + step // 60)]
        if len(table) > 12:
            del table[next(iter(table))]

    report = watched(turn, 300)
    assert all(f.verdict != "leak" for f in report.findings)


class Meter:
    def __init__(self) -> None:
        self.history = list[torch.Tensor]()


def test_a_copy_of_what_a_list_had_is_no_leak_beside_it() -> None:
    """It is the shorter way there: what cutting both frees is not its own."""
    weight, told = torch.ones(64, requires_grad=True), list[Finding]()
    meter, recent = Meter(), list[torch.Tensor]()
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for step in range(240):
            meter.history.append((weight * step).square().mean())
            if step in (39, 170):
                recent = list(meter.history)[-20:]
            arbiter.step()
            if step % 30 == 0:
                arbiter.report()
        report = arbiter.report()
    leaks = [f for f in (*told, *report.findings) if f.verdict == "leak"]
    assert {holder_of(f) for f in leaks} == {"meter.history"}
    assert len(recent) == 20


# -- what has a value --------------------------------------------------------


class Bank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(0, 64))


def filled(arbiter: impactarbiter.Arbiter, steps: int) -> list[Bank]:
    mine = [Bank()]
    for _ in range(steps):
        mine[0].rows = torch.cat([mine[0].rows, torch.ones(4, 64)])
        arbiter.step()
    return mine


def test_a_value_is_one_finding_though_its_owner_goes_by_another_name() -> (
    None
):
    with impactarbiter.watch(step="manual") as arbiter:
        kept = filled(arbiter, 96)
        finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert holder_of(finding) == "kept[0].rows"
    assert finding.bytes_per_step == pytest.approx(1024, rel=0.05)
    assert len(kept[0].rows) == 4 * 96


trace: ContextVar[tuple[torch.Tensor, ...]] = ContextVar("trace", default=())


def test_a_task_s_variable_goes_by_its_own_name() -> None:
    """Which objects lead to the task changes with every request."""

    async def serve(requests: asyncio.Queue[int]) -> None:
        while True:
            size = await requests.get()
            trace.set((*trace.get(), torch.ones(size)))

    async def main(arbiter: impactarbiter.Arbiter) -> Report:
        requests: asyncio.Queue[int] = asyncio.Queue()
        server = asyncio.create_task(serve(requests))
        for _ in range(60):
            await requests.put(16)
            await asyncio.sleep(0)
            arbiter.step()
        report = arbiter.report()
        server.cancel()
        return report

    with impactarbiter.watch(step="manual") as arbiter:
        finding = only(asyncio.run(main(arbiter)))
    assert finding.holder is not None
    assert finding.holder.expression == "<context>[<ContextVar 'trace'>]"
    assert finding.bytes_per_step == pytest.approx(64, rel=0.1)


current: ContextVar[Span | None] = ContextVar("current", default=None)


class Span:
    """Whose end forgets to give back what was there before."""

    def __enter__(self) -> Span:
        self.parent = current.get()
        self.token = current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_what_one_call_hands_on_to_the_next_lasts() -> None:
    """Steps end inside of calls whose variable has the newest; the one before
    is its parent, and what its token remembers."""
    live: list[Finding] = []

    def handle(arbiter: impactarbiter.Arbiter) -> None:
        with Span() as span:
            span.made = torch.ones(64)  # type: ignore[attr-defined]
            arbiter.step()

    def main() -> Report:
        with impactarbiter.watch(
            step="manual", on_finding=live.append
        ) as arbiter:
            for _ in range(400):
                handle(arbiter)
            return arbiter.report()

    finding = only(copy_context().run(main))
    assert [one.verdict for one in live] == ["leak"]
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression == "<context>[<ContextVar 'current'>]"
    assert finding.bytes_per_step == pytest.approx(256, rel=0.1)
    assert finding.retained_bytes == pytest.approx(400 * 256, rel=0.1)


@pytest.mark.parametrize("aside", [False, True])
def test_what_makes_a_context_s_variable_grow(aside: bool) -> None:
    """Where steps end in a context of their own, the thread's is not there to
    be visited; nothing has let go of it for that."""

    def step(arbiter: impactarbiter.Arbiter) -> None:
        if aside:
            copy_context().run(arbiter.step)
        else:
            arbiter.step()

    def main() -> Report:
        with impactarbiter.watch(step="manual") as arbiter:
            for _ in range(60):
                trace.set((*trace.get(), torch.ones(16)))
                step(arbiter)
            return arbiter.report()

    finding = only(copy_context().run(main))
    assert str(finding.path).startswith("<context>[<ContextVar 'trace'>]")
    assert finding.verdict == "leak"
    if not aside:
        assert finding.grown_at is not None
        assert "trace.set(" in (finding.grown_at.source or "")


def test_the_example_is_the_largest_of_an_item() -> None:
    kept: list[dict[str, torch.Tensor]] = []

    def turn(step: int) -> None:
        sizes = {"weight": 64, "bias": 8}
        kept.append({name: torch.ones(n) for name, n in sizes.items()})

    finding = only(watched(turn, 60))
    assert str(finding.path).endswith("['weight']")
    assert finding.tensors[0].shape == (64,)


def test_state_of_parameters_that_only_their_optimizer_has() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8, bias=False))
    optimizer = torch.optim.Adam(net.parameters())

    def turn(step: int) -> None:
        if step % 4 == 3:
            net[1] = nn.Linear(8, 8, bias=False)
            optimizer.add_param_group({"params": list(net[1].parameters())})
        net(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    found = {holder_of(one): one for one in watched(turn, 160).findings}
    groups, state = "optimizer.param_groups", "optimizer.state"
    assert set(found) == {groups, state}
    size = 8 * 8 * 4
    # A parameter; two means, and the number of its steps.
    for name, each, statement in (
        (groups, size, "optimizer.add_param_group("),
        (state, 2 * size + 4, "optimizer.step()"),
    ):
        finding = found[name]
        assert finding.verdict == "leak"
        assert finding.bytes_per_step == pytest.approx(each / 4, rel=0.1)
        assert finding.grown_at is not None
        assert statement in (finding.grown_at.source or "")
        assert finding.advice.startswith("take what is trained no more out")


@pytest.mark.parametrize("when", [5, 100])
def test_a_graph_of_which_something_has_a_part_grows_as_fast(
    monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """A mean on the way has the graph until then: two nodes a step."""
    monkeypatch.setattr(walks, "WALK_SHARE", 1e6)
    state = {"sum": torch.zeros((), requires_grad=True) * 1}
    means: list[torch.Tensor] = []

    def turn(step: int) -> None:
        state["sum"] = state["sum"] + torch.ones((), requires_grad=True)
        if step == when:
            means.append(state["sum"] / when)

    finding = only(watched(turn, 120))
    assert finding.graph is not None
    assert finding.graph_bytes_per_step == pytest.approx(
        finding.graph.node_bytes / 120, rel=0.2
    )


# -- programs that end -------------------------------------------------------


WEIGHTS = """
w = torch.nn.Parameter(torch.ones(64))
opt = torch.optim.SGD([w], lr=0.1)

def step():
    loss = w.square().sum()
    loss.backward()
    opt.step()
    return loss
"""


def report_of(folder: Path, text: str, fresh: bool = False) -> dict[str, Any]:
    script = folder / "program.py"
    script.write_text("import torch\n" + WEIGHTS + textwrap.dedent(text))
    command = ["-m", "impactarbiter", "run"]
    command += ["--json", "report.json", script.name]
    if fresh:
        python = [sys.executable, "-P", *command]
        subprocess.run(python, cwd=folder, capture_output=True, timeout=120)
    else:
        warm.run(command, cwd=folder, modules=warm.OPTIMIZERS)
    answer: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return answer


@pytest.mark.parametrize("end", ["sys.exit(0)", "raise ValueError(3)", "pass"])
def test_a_holder_keeps_the_name_that_it_had_in_the_run(
    tmp_path: Path, end: str
) -> None:
    report = report_of(
        tmp_path,
        f"""
import sys

def main():
    history = []
    for i in range(60):
        history.append(step())
    {end}

main()
""",
        fresh="raise" in end,
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
        """
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
        """
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


QUEUES = """
from collections import deque

def main():
    rings = [deque() for _ in range({count})]
    for i in range(200):
        kept = step().detach()
        for ring in rings:
            ring.append(kept.repeat(16))
            while len(ring) > {most}:
                ring.popleft()

main()
"""


@pytest.mark.parametrize("count", [2, 40])
def test_holders_that_are_alike_are_looked_at_to_the_end(
    tmp_path: Path, count: int
) -> None:
    """All is gone with the end: what was seen last is what is known."""
    full = report_of(tmp_path, QUEUES.format(count=count, most=16))
    assert full["findings"] == []

    endless = QUEUES.format(count=count, most=1000)
    (finding,) = report_of(tmp_path, endless)["findings"]
    assert finding["verdict"] == "leak"
    assert finding["tensors_per_step"] == pytest.approx(count, rel=0.05)
    assert finding["holder"]["alike"] == count
    assert finding["holder"]["length"] > 170
    assert finding["holder"]["growth_per_step"] == pytest.approx(1, rel=0.05)


PARTS = """
class Part:
    def __init__(self):
        self.me, self.seen = self, []

def main():
    parts = [Part() for _ in range(3)]
    for i in range(80):
        kept = step().detach()
        for part in parts:
            part.seen.append(kept.repeat(64))

main()
"""

ITEMS = """
class Item:
    def __init__(self, value):
        self.me, self.value = self, value

def main():
    kept = []
    for i in range(80):
        kept.append(Item(step().detach().repeat(64)))

main()
"""


@pytest.mark.parametrize(
    ("text", "holder", "count"),
    [(PARTS, r"main\(\).parts\[\d\].seen", 3), (ITEMS, r"main\(\).kept", 1)],
)
def test_what_dies_in_a_cycle_at_the_end_is_its_holders(
    tmp_path: Path, text: str, holder: str, count: int
) -> None:
    (finding,) = report_of(tmp_path, text)["findings"]
    assert finding["verdict"] == "leak"
    assert re.fullmatch(holder, finding["holder"]["expression"])
    assert finding["holder"]["alike"] == count
    assert finding["tensors_per_step"] == pytest.approx(count, rel=0.1)


def test_what_only_a_traceback_has_kept_is_told(
    tmp_path: Path,
) -> None:
    """Too few steps for a look before all of it is garbage, which no collector
    takes before the report.  It goes by one that is on the cycle: its owner,
    or a call that the traceback went through."""
    report = report_of(
        tmp_path,
        """
import gc

gc.disable()

class Fit:
    def __init__(self):
        self.skipped = []

    def turn(self):
        values = step().detach().repeat(64)
        raise ValueError("no")

    def run(self):
        for i in range(11):
            try:
                self.turn()
            except ValueError as error:
                self.skipped.append((i, error))

Fit().run()
""",
    )
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] in {
        "<Fit>.skipped",
        "Fit.run().self.skipped",
        "Fit.turn().self.skipped",
    }
    statement = "self.skipped.append((i, error))"
    assert finding["maybe_grown_at"]["source"] == statement
    assert "str(error)" in finding["advice"]


def test_garbage_that_waits_for_the_collector_does_not_grow(
    tmp_path: Path,
) -> None:
    report = report_of(
        tmp_path,
        """
import gc

class Member:
    def __init__(self, turn):
        self.samples = []
        if turn == 0:
            self.me = self

def train(turn):
    member = Member(turn)
    for i in range(70):
        kept = step().detach()
        if i % 4 == 0:
            member.samples.append(kept.repeat(1 << 14))

gc.disable()
for turn in range(3):
    train(turn)
""",
    )
    # That the members of later turns are let go may have been seen, or not.
    found = {finding["verdict"] for finding in report["findings"]}
    assert found <= {"accumulation"}
    assert report["taken_back"] == []


def test_what_training_kept_until_it_returned_is_a_leak(
    tmp_path: Path,
) -> None:
    """The model is tried afterwards: a weaker event than a step."""
    report = report_of(
        tmp_path,
        """
def train():
    kept = []
    for i in range(60):
        kept.append(step().detach())

def main():
    train()
    with torch.no_grad():
        for i in range(3):
            torch.nn.Linear(4, 4)(torch.ones(4))

main()
""",
    )
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "train().kept"
    assert "released by now" in finding["note"]
    assert report["taken_back"] == []


@pytest.mark.parametrize("kept", ["made", "(made, made + 1)"])
@pytest.mark.parametrize("calls", [300, 3000])
def test_what_training_kept_is_a_leak_however_long_the_model_serves_then(
    tmp_path: Path, kept: str, calls: int
) -> None:
    """Nothing comes to it by a call: calls after training are not its time."""
    report = report_of(
        tmp_path,
        f"""
def train(kept):
    for i in range(100):
        step()
        made = torch.ones(1 << 14)
        if i >= 6:
            kept.append({kept})

def main():
    kept = []
    train(kept)
    with torch.no_grad():
        model = torch.nn.Linear(4, 4)
        for i in range({calls}):
            model(torch.ones(4))

main()
""",
    )
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "main().kept"
    assert report["taken_back"] == []


@pytest.mark.parametrize("begins", [0, 10])
def test_what_was_full_long_before_the_end_is_no_leak(
    tmp_path: Path, begins: int
) -> None:
    """A walk does not count what came to it in the warm-up."""
    report = report_of(
        tmp_path,
        f"""
def main():
    kept = []
    for i in range(100):
        step()
        if {begins} <= i < 62:
            kept.append(torch.ones(1 << 14))

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
            nn.Linear(2, 2)(torch.ones(2))
            assert ledger.status().position == 0
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


class Recurrent:
    def __init__(self) -> None:
        self.cell = nn.LSTMCell(4, 8)
        self.h, self.c = torch.zeros(2, 8), torch.zeros(2, 8)


def test_results_on_one_graph_are_one_leak_of_both_names() -> None:
    model = Recurrent()

    def turn(step: int) -> None:
        x = torch.ones(2, 4)
        model.h, model.c = model.cell(x, (model.h, model.c))

    report = watched(turn, 60)
    finding = only(report)
    assert finding.verdict == "leak" and finding.holder is not None
    names = {finding.holder.expression, *finding.holder.beside}
    assert {name.rpartition(".")[2] for name in names} == {"h", "c"}
    assert finding.graph is not None and finding.graph.nodes > 60 * 10
    assert finding.graph_bytes_per_step == pytest.approx(
        finding.graph.node_bytes / 60, rel=0.3
    )
    assert finding.patch is None
    assert all(name in str(report) for name in names)


class Sums:
    loss: Any = 0.0
    penalty: Any = 0.0


def test_graphs_that_have_parameters_in_common_are_not_one() -> None:
    model, sums = nn.Linear(8, 8), Sums()

    def turn(step: int) -> None:
        sums.loss += model(torch.ones(4, 8)).square().mean()
        sums.penalty += (model.weight.abs() + model.bias).norm(1)

    report = watched(turn, 60)
    found = {
        f.holder.expression.rpartition(".")[2]: f
        for f in report.findings
        if f.holder
    }
    assert found.keys() == {"loss", "penalty"}
    assert not any(f.holder.beside for f in found.values() if f.holder)


def test_arrays_that_two_lists_hold_cost_what_both_keep() -> None:
    first: list[np.ndarray] = []
    second: list[np.ndarray] = []

    def turn(step: int) -> None:
        first.append(np.ones(4096))
        second.append(first[-1])

    finding = only(watched(turn, 60))
    assert finding.holder is not None and finding.holder.shared
    assert finding.retained_bytes >= 50 * 4096 * 8


def test_a_rate_told_in_passing_is_no_part_of_a_step() -> None:
    """The line that makes the states has many more alive while it trains."""
    cell = nn.GRUCell(4, 8)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    state = torch.zeros(1, 8)
    told: list[Finding] = []

    def advance(old: torch.Tensor) -> torch.Tensor:
        new: torch.Tensor = cell(torch.ones(1, 4), old)
        return new

    with impactarbiter.watch(on_finding=told.append) as arbiter:
        for _step in range(60):
            state = advance(state)
            trained = torch.zeros(1, 8)
            for _time in range(12):
                trained = advance(trained)
            optimizer.zero_grad()
            trained.sum().backward()
            optimizer.step()
        (finding,) = arbiter.report().findings
    first = next(f for f in told if f.signature == finding.signature)
    assert first.tensors_per_step < 1.5 * finding.tensors_per_step
    assert first.all_bytes_per_step < 1.5 * finding.all_bytes_per_step
    assert finding.holder is not None and not finding.holder.shared


@pytest.mark.parametrize("keeps", [True, False])
def test_growth_after_the_last_step_is_told_without_a_verdict(
    keeps: bool,
) -> None:
    """Too few calls, beside those of the training, to be steps themselves."""
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    answers: list[torch.Tensor] = []
    with impactarbiter.watch() as arbiter:
        for _step in range(30):
            for _part in range(4):
                model(torch.ones(8, 64)).sum().backward()
            optimizer.step()
        with torch.no_grad():
            for _request in range(100):
                answer = model(torch.ones(1, 64))
                if keeps:
                    answers.append(answer)
        report = arbiter.report()
    grown = report.later_growth
    assert not report.findings and (grown is not None) == keeps
    if grown is not None:
        assert (grown.after_step, grown.calls) == (30, 100)
        assert grown.bytes_per_call == pytest.approx(256, rel=0.1)
        (line,) = grown.lines
        assert "model(torch.ones(1, 64))" in line.site.source
        assert line.path is not None and str(line.path).endswith(".answers")


@pytest.mark.parametrize("carries", [True, False])
def test_a_service_that_carries_a_graph_on_is_judged(carries: bool) -> None:
    """However few its calls are beside those of the training."""
    cell = nn.GRUCell(4, 8)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    answers: list[torch.Tensor] = []
    with impactarbiter.watch() as arbiter:
        for _step in range(40):
            state = torch.zeros(1, 8)
            for _time in range(24):
                state = cell(torch.ones(1, 4), state)
            optimizer.zero_grad()
            state.sum().backward()
            optimizer.step()
        state = torch.zeros(1, 8)
        for _request in range(1200):
            state = cell(torch.ones(1, 4), state)
            if not carries:
                answers.append(state)
                state = state.detach()
        report = arbiter.report()
    verdicts = [f.verdict for f in report.findings]
    assert verdicts == (["leak"] if carries else [])
    if carries:
        assert "state" in str(report.findings[0].path)
        assert report.step_kind == "module call"
        assert report.later_growth is None
    else:
        assert report.later_growth is not None


def test_a_value_that_had_stopped_long_before_it_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was made at the step at which it became as long as it is."""
    look = Diagnostician.look

    def seldom(self: Diagnostician, tick: int) -> None:
        if 50 < tick < 185:
            hooks.look_at(tick + 1)
        else:
            look(self, tick)

    monkeypatch.setattr(Diagnostician, "look", seldom)
    points = torch.ones(16)

    def turn(step: int) -> None:
        nonlocal points
        if step % 5 == 0 and step <= 120:
            points = torch.cat([points, torch.ones(16)])

    assert watched(turn, 200).findings == ()


def test_lists_that_grow_beside_keys_that_still_come() -> None:
    """Fewer in each of them than there are keys, and one came of late."""
    marks: dict[int, list[torch.Tensor]] = {}
    draw = np.random.default_rng(0)

    def turn(step: int) -> None:
        band = min(int(draw.exponential(4.0)), 39)
        marks.setdefault(band, []).append(torch.full((64,), float(step)))

    finding = only(watched(turn, 240))
    assert finding.verdict == "leak"
    assert re.fullmatch(r"marks\[\d+\]", holder_of(finding).split(".")[-1])


@pytest.mark.parametrize("room", [64, 250])
def test_a_cache_that_evicts_before_it_takes_in_lets_go(room: int) -> None:
    """A new item lies where the one that went has lain."""
    cache: dict[int, list[torch.Tensor]] = {}

    def turn(step: int) -> None:
        if len(cache) >= room:
            del cache[next(iter(cache))]
        cache[step] = [torch.full((64,), float(step))]

    report = watched(turn, 3 * room)
    assert [f for f in report.findings if f.severity != "info"] == []


def test_a_list_that_is_cut_and_made_anew_lets_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looks are rare: one sees it before it was cut, the next long after."""
    monkeypatch.setattr(walks, "LOOK_SHARE", 1e-9)
    columns: dict[str, list[torch.Tensor]] = {"loss": []}

    def turn(step: int) -> None:
        column = [*columns["loss"], torch.full((64,), float(step))]
        if len(column) > 100:
            column = column[-50:]
        columns["loss"] = column

    report = watched(turn, 150)
    assert [f for f in report.findings if f.severity != "info"] == []


def test_arrays_of_a_cache_that_is_full_do_not_grow() -> None:
    """Its new ones are larger than those that left, for most of the time."""
    kernels: dict[tuple[int, int], np.ndarray] = {}
    draw = np.random.default_rng(0)

    def turn(step: int) -> None:
        wide = min(step, 1500)
        key = int(draw.integers(60)), wide // 40
        if key in kernels:
            kernels[key] = kernels.pop(key)
            return
        kernels[key] = np.ones(200 + 5 * wide)
        while len(kernels) > 40:
            del kernels[next(iter(kernels))]

    report = watched(turn, 2000)
    assert [f for f in report.findings if f.severity != "info"] == []


def test_an_array_that_holds_tensors_grows_by_these() -> None:
    """It is as large as it was."""
    kept = np.empty(4000, dtype=object)

    def turn(step: int) -> None:
        kept[step] = torch.full((64,), float(step))

    finding = only(watched(turn, 120))
    assert finding.verdict in ("leak", "growing")
    assert finding.bytes_per_step == pytest.approx(256, rel=0.2)


class Dialog:
    def __init__(self) -> None:
        self.state = torch.zeros(64)
        self.outputs: list[torch.Tensor] = []

    def advance(self) -> None:
        self.state = self.state + 1
        self.outputs.append(torch.ones(256))


def test_full_lists_of_many_items_are_not_what_grows() -> None:
    """One user's dialogs come after the other's: the list of each has some
    steps in it, the dict of three lists all of them."""
    by_user: dict[str, list[Dialog]] = {}
    with impactarbiter.watch(step="manual") as arbiter:
        for user in ("ann", "bo", "cy"):
            by_user[user] = []
            for _ in range(60):
                dialog = Dialog()
                by_user[user].append(dialog)
                for _turn in range(4):
                    dialog.advance()
                    arbiter.step()
        report = arbiter.report()
    (finding,) = (f for f in report.findings if f.severity != "info")
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression.endswith(".by_user")
    assert finding.bytes_per_step == pytest.approx(1024 + 64, rel=0.05)
    assert finding.grown_at is not None
    assert finding.grown_at.source == "by_user[user].append(dialog)"


class Sampler:
    """The losses of each of many noise levels, with their graphs."""

    def __init__(self, levels: int) -> None:
        self.history: list[list[torch.Tensor]] = [[] for _ in range(levels)]

    def update(self, levels: list[int], losses: torch.Tensor) -> None:
        for level, loss in zip(levels, losses, strict=True):
            self.history[level].append(loss)


@pytest.mark.parametrize("steps", [60, 240])
def test_lists_that_go_with_the_training_before_the_program_ends(
    steps: int,
) -> None:
    """Their list is as long as ever, until some of them have more than it."""
    drawn = random.Random(0)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        sampler = Sampler(300)
        for _ in range(steps):
            loss = model(torch.ones(8, 8)).mean(1)
            sampler.update([drawn.randrange(300) for _ in range(8)], loss)
            loss.sum().backward()
            optimizer.step()

    with impactarbiter.watch() as arbiter:
        train()
        with torch.no_grad():
            for _ in range(20):
                model(torch.ones(8, 8))
        report = arbiter.report()
    (finding,) = (f for f in report.findings if f.severity != "info")
    assert finding.verdict == "leak" and not report.taken_back
    assert finding.holder is not None
    assert ".history" in finding.holder.expression
    assert "each one keeps the graph" in finding.advice


class Feed(threading.Thread):
    """Blocks when its queue is full, and nobody takes the rest."""

    def __init__(self, count: int = 12) -> None:
        super().__init__(daemon=True)
        self.queue: queue.Queue[torch.Tensor] = queue.Queue(4)
        self.count = count
        self.start()

    def run(self) -> None:
        for _ in range(self.count):
            self.queue.put(torch.ones(1 << 16))

    def drain(self) -> None:
        while self.is_alive():
            with suppress(queue.Empty):
                self.queue.get(timeout=0.01)


@pytest.mark.parametrize("feeds", [20, 40])
def test_ever_more_full_queues_are_a_leak_though_each_has_a_bound(
    feeds: int,
) -> None:
    """Forty are more than are told singly."""
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(feeds):
            feed = Feed()
            for _ in range(6):
                feed.queue.get()
                while not feed.queue.full():
                    time.sleep(0.001)
                arbiter.step()
        report = arbiter.report()
    for thread in threading.enumerate():
        if isinstance(thread, Feed):
            thread.drain()
    (finding,) = (f for f in report.findings if f.severity != "info")
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression == "Feed.run().self.queue.queue"
    assert finding.holder.alike >= feeds - 4
    # Four of six stay.
    assert finding.bytes_per_step == pytest.approx((4 << 18) / 6, rel=0.3)


def test_full_queues_that_are_used_side_by_side_are_bounded() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        feeds = [Feed(300) for _ in range(30)]
        for _ in range(40):
            for feed in feeds:
                feed.queue.get()
                while not feed.queue.full():
                    time.sleep(0.001)
            arbiter.step()
        report = arbiter.report()
        for feed in feeds:
            feed.drain()
    assert {f.severity for f in report.findings} <= {"info"}


class FeatureBank:
    def __init__(self) -> None:
        self.features = torch.ones(4, 64)

    def push(self) -> None:
        self.features = torch.cat([self.features, torch.ones(4, 64)])


@pytest.mark.parametrize(
    "look",
    [
        lambda whole: whole[-8:],
        lambda whole: whole[:1].expand(9999, 64),
        lambda whole: whole[:-1].unfold(0, 3, 1),
    ],
    ids=["slice", "expanded", "unfolded"],
)
def test_who_has_the_whole_is_told_before_who_looks_at_a_part(
    look: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    bank = FeatureBank()
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(200):
            negatives = look(bank.features)
            arbiter.step()
            bank.push()
        report = arbiter.report()
    (finding,) = report.findings
    assert len(negatives) > 0
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")
    assert finding.holder is not None
    assert finding.holder.expression.endswith("bank.features")
    assert finding.bytes_per_step == pytest.approx(4 * 64 * 4)


@pytest.mark.parametrize(
    ("cleared", "leaks"),
    [
        (lambda optimizer: None, True),
        (lambda optimizer: optimizer.zero_grad(), False),
        (lambda optimizer: optimizer.zero_grad(set_to_none=False), False),
    ],
    ids=["never", "gone", "zeroed"],
)
def test_a_sparse_gradient_that_nobody_clears_grows(
    cleared: Callable[[torch.optim.Optimizer], object], leaks: bool
) -> None:
    items = nn.Embedding(5000, 16, sparse=True)
    optimizer = torch.optim.SparseAdam(list(items.parameters()))
    chosen = torch.Generator().manual_seed(0)

    def step(_: int) -> None:
        count = int(torch.randint(20, 60, (), generator=chosen))
        rows = torch.randint(5000, (count,), generator=chosen)
        cleared(optimizer)
        items(rows).square().sum().backward()
        optimizer.step()

    told = [f for f in watched(step, 200).findings if f.severity != "info"]
    assert [f.verdict for f in told] == ["leak"] * leaks
    for finding in told:
        assert str(finding.path).endswith("items.weight.grad")
        # Rows and their numbers, and 39.5 of them a step.
        true = 39.5 * (16 * 4 + 8)
        assert finding.advice.startswith("call zero_grad() of its")
        assert finding.bytes_per_step == pytest.approx(true, rel=0.2)
