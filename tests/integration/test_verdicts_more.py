"""Verdicts beside the plain leak: cycles, C++ holders, bounds that do not
bound; and what users can say about findings: rules, phases, masks."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import itertools
import json
import multiprocessing
import operator
import os
import queue
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import warm

import impactarbiter
from impactarbiter import Finding, Report
from impactarbiter.judging.masks import obfuscated

STEPS = 24

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def watched(
    turn: Callable[[], object], steps: int = STEPS, **options: Any
) -> Report:
    """Calls ``turn`` once a step; the report is made while all is alive."""
    with impactarbiter.watch(step="manual", **options) as arbiter:
        for _ in range(steps):
            turn()
            arbiter.step()
        return arbiter.report()


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


# -- what no path holds -------------------------------------------------------


class Node:
    def __init__(self) -> None:
        self.me = self
        self.data = torch.ones(64)


def test_a_garbage_cycle(no_collector: None) -> None:
    finding = only(watched(Node))
    assert finding.verdict == "cycle"
    assert finding.cycle is not None
    assert str(finding.cycle.path) == "<Node>.me"
    assert finding.cycle.collectable
    assert finding.retained_bytes == 256 * finding.retained_tensors
    assert finding.retained_tensors >= STEPS - 4
    assert "break the reference cycle" in finding.advice
    assert "-> itself" in str(Report(findings=(finding,)))


class Branch:
    def __init__(self, stem: Branch | None = None) -> None:
        self.stem = stem
        self.twigs: list[Branch] = []
        self.leaf = torch.ones(64)

    def fork(self) -> Branch:
        self.twigs = [Branch(stem=self) for _ in range(2)]
        return self


class KeepsItsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.scale = torch.ones(64)
        ctx.doubled = x * 2
        return ctx.doubled

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


class Twice:
    """By two statements."""

    def __init__(self) -> None:
        self.data = torch.ones(64)
        if self.data.dim():
            self.both = self
        else:
            self.both = self


class Elsewhere:
    """Has attributes of these names as well, and is on no cycle."""

    def __init__(self, other: Any) -> None:
        self.stem, self.this = other, other


class ByName:
    def __init__(self) -> None:
        self.data = torch.ones(64)
        self.__dict__.update(this=self)


@pytest.mark.parametrize(
    ("turn", "statement", "function"),
    [
        (ByName, None, None),
        (lambda: Branch().fork(), "self.stem = stem", "Branch.__init__"),
        (
            lambda: KeepsItsResult.apply(torch.ones(64, requires_grad=True)),
            "ctx.doubled = x * 2",
            "KeepsItsResult.forward",
        ),
        (Twice, None, None),
    ],
    ids=["by name", "back", "ctx", "two"],
)
def test_where_a_cycle_is_closed_is_a_guess(
    no_collector: None,
    turn: Callable[[], object],
    statement: str | None,
    function: str | None,
) -> None:
    finding = only(watched(turn))
    assert finding.verdict == "cycle"
    assert finding.grown_at is None
    guess = finding.maybe_grown_at
    assert (guess and guess.source) == statement
    assert (guess and guess.function) == function


def with_the_collector_run_at(
    *turns: int, enabled: bool = False, generation: int = 2
) -> tuple[Finding, list[Finding]]:
    """Where it does not run by itself: what was found, and told before;
    ``enabled``: it is turned on for each run."""
    made = 0

    def turn() -> None:
        nonlocal made
        torch.zeros(1 << 20)  # no cycle: does not count
        node: Node | None = Node()
        node.data = torch.ones(1 << 20)  # 4 MiB a step would be a warning
        made += 1
        if made in turns:
            if enabled:
                gc.enable()
            node = None
            gc.collect(generation)
            gc.disable()

    told: list[Finding] = []
    return only(watched(turn, 60, on_finding=told.append)), told


@pytest.mark.parametrize("enabled", [False, True])
def test_cycles_that_the_program_has_freed_now_and_then(
    no_collector: None, enabled: bool
) -> None:
    finding, told = with_the_collector_run_at(1, 20, 40, enabled=enabled)
    assert (finding.verdict, finding.rule) == ("accumulation", "collected")
    assert finding.cycle is not None
    assert finding.cycle.collected_bytes >= 4 << 20
    assert all(one.verdict == "accumulation" for one in told)


def test_cycles_that_the_program_has_freed_while_they_are_young(
    no_collector: None,
) -> None:
    """What is there is younger than the newest run, and the next one comes."""
    finding, told = with_the_collector_run_at(1, 20, 40, generation=1)
    assert (finding.verdict, finding.rule) == ("accumulation", "collected")
    assert {one.severity for one in (finding, *told)} <= {"info"}


def test_cycles_that_were_freed_while_they_were_young_and_no_more(
    no_collector: None,
) -> None:
    finding, _told = with_the_collector_run_at(3, 6, 9, 12, generation=1)
    assert finding.verdict == "cycle"
    assert finding.severity != "info" and finding.seconds_to_oom


def test_runs_that_came_by_themselves_are_none_of_the_program(
    no_collector: None,
) -> None:
    """Through what is young: they come no more when the collector is off."""
    steps = itertools.count(1)

    def turn() -> None:
        node = Node()
        node.data = torch.ones(1 << 20)
        step = next(steps)
        if step == 1:
            gc.enable()
        elif step == 30:
            gc.disable()
        elif step % 7 == 0 and step < 30:
            del node
            gc.collect(1)

    finding = only(watched(turn, 60))
    assert finding.verdict == "cycle"
    assert finding.severity != "info"


@pytest.mark.parametrize("enabled", [False, True])
def test_the_next_run_is_waited_for_where_one_was_asked_for(
    no_collector: None, enabled: bool
) -> None:
    """In another file, as far as the source here says."""
    collect = vars(gc)["collect"]

    def after(step: int, used: deque[Node]) -> None:
        if step in (19, 38, 57):
            used.clear()
            if enabled:
                gc.enable()
            collect(1)
            gc.disable()

    report, told = with_cycles_in_use(60, after)
    assert {f.severity for f in told} <= {"info"}
    assert report.steps == 60


def test_garbage_is_told_at_once_where_the_collector_was_turned_off(
    no_collector: None,
) -> None:
    """What it went through by itself before says nothing."""
    told: list[Finding] = []
    gc.enable()
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        gc.collect()
        gc.disable()
        for _ in range(60):
            node = Node()
            node.data = torch.ones(1 << 16)
            arbiter.step()
    assert [f.verdict for f in told] == ["cycle"]


def with_cycles_in_use(
    steps: int, after: Callable[[int, deque[Node]], None]
) -> tuple[Report, list[Finding]]:
    """Each step makes one cycle, which is in use until the next does, or what
    comes ``after`` it takes it out: the report, and what was told before."""
    told: list[Finding] = []
    used: deque[Node] = deque(maxlen=1)
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for step in range(1, steps + 1):
            used.append(Node())
            used[0].data = torch.ones(1 << 20)
            arbiter.step()
            after(step, used)
        return arbiter.report(), told


def test_what_runs_through_the_youngest_leave_goes_with_an_older_one(
    no_collector: None,
) -> None:
    """Each cycle is in use when the first run comes after it was made."""

    def after(step: int, used: deque[Node]) -> None:
        gc.collect(0)
        if step % 10 == 0:
            used.clear()
            gc.collect(1)

    report, told = with_cycles_in_use(100, after)
    assert {f.severity for f in (*report.findings, *told)} <= {"info"}
    assert report.peak_bytes > 8 << 22  # some were garbage at a time


@pytest.mark.parametrize("turns", [(5,), (3, 6, 9, 12)])
def test_cycles_that_the_program_has_had_freed_and_no_more(
    no_collector: None, turns: tuple[int, ...]
) -> None:
    finding, _told = with_the_collector_run_at(*turns)
    assert finding.verdict == "cycle"
    assert finding.cycle is not None
    assert finding.cycle.collected_bytes >= 4 << 20
    assert not finding.cycle.freed_in_time
    assert finding.severity != "info" and finding.seconds_to_oom


@pytest.fixture
def no_full_run() -> Iterator[None]:
    """The collector goes by itself through what is young alone."""
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], 1_000_000)
    yield
    gc.set_threshold(*before)


def with_young_runs(steps: int, gone: int) -> tuple[Report, list[Finding]]:
    """Each step makes one cycle that is used for thirty, and so many that are
    gone at once; the collector goes through what is young."""
    told: list[Finding] = []
    used: deque[Node] = deque(maxlen=30)
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for step in range(steps):
            for _ in range(gone):
                Node()
            used.append(Node())
            if step % 20 == 7:
                gc.collect(1)
            arbiter.step()
        return arbiter.report(), told


def test_cycles_that_go_while_they_are_young_are_no_leak(
    no_full_run: None,
) -> None:
    """All but a tenth of them: those were in use when the collector came."""
    report, told = with_young_runs(400, 9)
    (cycle,) = [f for f in report.findings if f.cycle is not None]
    assert (cycle.verdict, cycle.steps_to_oom) == ("cycle", None)
    assert "none: the collector was seen to free most of it" in str(report)
    assert {f.severity for f in (*report.findings, *told)} == {"info"}


def test_cycles_that_only_a_full_run_frees_grow_until_then(
    no_full_run: None,
) -> None:
    """The collector goes through what is young, and finds them in use."""
    report, _told = with_young_runs(200, 0)
    (cycle,) = [f for f in report.findings if f.cycle is not None]
    assert cycle.verdict == "cycle"
    assert cycle.bytes_per_step == pytest.approx(256, rel=0.1)


def test_cycles_that_runs_through_what_is_young_leave_are_a_leak(
    no_collector: None,
) -> None:
    """Most are gone at once; what was in use when the collector came stays,
    as the program never has it go through all."""
    report, _told = with_young_runs(200, 2)
    (cycle,) = [f for f in report.findings if f.cycle is not None]
    assert cycle.verdict == "cycle"
    assert cycle.steps_to_oom


class Strategy:
    """A cycle through C++: its value has a hook that needs it."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.memo = {"mean": weight * 2}
        node = self.memo["mean"].grad_fn
        assert node is not None
        node.register_hook(functools.partial(forget, self))


def forget(strategy: Strategy, *_: object) -> None:
    strategy.memo.clear()


@pytest.mark.parametrize("runs", [(), (0,), (2,), (0, 2)])
def test_a_cycle_goes_by_one_name_whatever_the_collector_has_run(
    no_collector: None, runs: tuple[int, ...]
) -> None:
    """In the middle, so that it lists some of them in another order."""
    weight = torch.ones(64, requires_grad=True)
    steps = itertools.count()

    def turn() -> None:
        Strategy(weight)
        if next(steps) == STEPS * 3 // 4:
            for generation in runs:
                gc.collect(generation)

    finding = only(watched(turn))
    assert finding.holder is not None
    assert (finding.verdict, finding.holder.expression) == (
        "cycle",
        "<Strategy>",
    )
    assert finding.bytes_per_step == pytest.approx(256, rel=0.1)


@pytest.mark.filterwarnings("ignore:Using backward.*create_graph")
def test_a_gradient_that_holds_its_own_graph() -> None:
    def turn() -> None:
        x = torch.ones(64, requires_grad=True)
        (x**3).sum().backward(create_graph=True)

    report = watched(turn)
    finding = report.findings[0]
    assert {f.verdict for f in report.findings} == {"cycle"}
    assert finding.cycle is not None and not finding.cycle.collectable
    assert "create_graph=True" in finding.advice
    assert "for ever" in str(report)


@pytest.mark.filterwarnings("ignore:Using backward.*create_graph")
@pytest.mark.parametrize("cleared", [False, True])
def test_a_gradient_that_is_never_cleared_keeps_every_graph(
    cleared: bool,
) -> None:
    """It is a parameter's that no optimizer has, and nobody has asked for it:
    no Python object stands for it."""
    net = torch.nn.Linear(8, 8)
    scale = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)

    def turn() -> None:
        loss = (net(torch.ones(4, 8)) * scale.exp()).sum()
        loss.backward(create_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        if cleared:
            scale.grad = None

    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        for _ in range(60):
            turn()
        report = arbiter.report()
    if cleared:
        assert report.findings == () and told == []
        return
    finding = only(report)
    assert finding.verdict == told[0].verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression.endswith(".scale")
    assert "create_graph=True" in finding.grown_at.source
    assert finding.graph_bytes_per_step > 0


def test_what_only_cpp_holds() -> None:
    futures: list[Any] = []

    def turn() -> None:
        future: Any = torch.futures.Future()
        future.set_result(torch.ones(256))
        futures.append(future)

    finding = only(watched(turn))
    assert finding.verdict == "native"
    assert finding.allocated_at.source.strip() == (
        "future.set_result(torch.ones(256))"
    )
    assert finding.retained_bytes == 1024 * finding.retained_tensors > 0
    assert "handed to C or C++ code" in finding.advice


class Writer:
    made: list[weakref.ref[Writer]] = []

    def __init__(self) -> None:
        self.rows = torch.ones(64)
        self.made.append(weakref.ref(self))

    def close(self) -> None: ...

    def closed_later(self) -> None:
        atexit.register(self.close)

    def closed_by_a_function(self) -> None:
        def close_it() -> None:
            self.close()

        atexit.register(close_it)
        self.unregister = lambda: atexit.unregister(close_it)


class 名前の長い書き手(Writer):
    """Of three bytes each letter, and none of them is cut."""

    def 閉じる(self) -> None: ...

    def closed_later(self) -> None:
        atexit.register(self.閉じる)

    def unregister(self) -> None:
        atexit.unregister(self.閉じる)


名前の長い書き手.閉じる.__qualname__ = "名前の" * 20


@pytest.mark.parametrize(
    ("how", "named"),
    [
        (Writer.closed_later, "<method Writer.close>"),
        (
            Writer.closed_by_a_function,
            "<function Writer.closed_by_a_function.<locals>.close_it>",
        ),
    ],
)
def test_what_c_holds_by_a_function_is_named_by_that(how, named) -> None:
    finding = only(watched(lambda: how(Writer())))
    try:
        assert finding.verdict == "native"
        assert finding.path is not None and finding.holder is not None
        assert finding.path.root == finding.holder.expression == named
        assert named not in str(obfuscated(Report(findings=(finding,))))
    finally:
        for one in Writer.made:
            writer = one()
            if writer is not None:
                atexit.unregister(writer.close)
                getattr(writer, "unregister", bool)()
        Writer.made.clear()


def test_a_long_name_of_what_c_holds_is_cut_between_letters() -> None:
    finding = only(watched(lambda: 名前の長い書き手().closed_later()))
    try:
        assert finding.path is not None
        begin, end = "<method ", "...>"
        room = 120 - 1 - len(begin) - len(end)
        cut = ("名前の" * 20)[: room // 3]
        assert finding.path.root == begin + cut + end
    finally:
        for one in Writer.made:
            writer = one()
            if writer is not None:
                writer.unregister()
        Writer.made.clear()


@pytest.fixture
def timers() -> Iterator[None]:
    """Those that are running are ended."""
    yield
    for one in threading.enumerate():
        if isinstance(one, threading.Timer):
            one.cancel()
            one.join()


def start_timer() -> threading.Timer:
    timer = threading.Timer(3600.0, print, (torch.ones(4096),))
    timer.start()
    return timer


def test_what_threads_that_do_not_end_were_given(timers: None) -> None:
    found = only(watched(start_timer))
    assert found.verdict == "leak"
    assert str(found.path).startswith("threading._active[")
    assert found.holder.expression == "threading._active"
    assert found.grown_at is None
    assert found.advice.startswith("have each thread end once it has served")
    assert "each Timer there leads to the tensor by `.args[0]`" in found.advice


def test_threads_that_end_keep_nothing(timers: None) -> None:
    assert not watched(lambda: start_timer().cancel()).findings


def test_the_value_that_a_call_is_returning_is_nobodys_leak() -> None:
    """A module's call ends a step with its result still in flight."""
    torch.manual_seed(0)
    cell, head = torch.nn.GRUCell(4, 8), torch.nn.Linear(8, 1)
    state = torch.zeros(1, 8)
    with impactarbiter.watch() as arbiter:
        for _ in range(60):
            state = cell(torch.randn(1, 4), state)
            head(state).item()
        finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert str(finding.path).endswith(".state")


# -- holders ------------------------------------------------------------------


def test_a_bounded_deque_whose_graphs_reach_back() -> None:
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(4, 8)
    states = deque([torch.zeros(1, 8)], maxlen=5)
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(60):
            state = cell(torch.randn(1, 4), states[-1])
            states.append(state)
            arbiter.step()
        finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert finding.holder is not None and finding.holder.bound == 5
    # `state` names the newest: it is no second holder of all the others.
    assert finding.graph is not None and finding.graph.nodes > 60
    assert finding.retained_bytes > 60 * 8 * 4


class Smoothed:
    """Each loss has the one before in its graph; the best is the newest
    again and again."""

    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.best: torch.Tensor | None = None
        self.window: deque[object] = deque(maxlen=20)

    def add(self, loss: torch.Tensor, best: bool) -> None:
        if self.losses:
            loss = loss + self.losses[-1]
        self.losses.append(loss)
        if best:
            self.best = loss


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_an_attribute_that_names_one_of_a_list_keeps_its_value_alone(
    every: int,
) -> None:
    """Not the graphs of all before it, which the list keeps."""
    weight = torch.ones(4, requires_grad=True)
    smoothed = Smoothed()
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(80):
            smoothed.add((weight * 2).sum(), step % every == every - 1)
            arbiter.step()
        finding = only(arbiter.report())
    assert finding.holder is not None
    assert finding.holder.expression.endswith("smoothed.losses")
    # A product, a sum, and what adds it to the one before.
    assert finding.graph is not None
    assert finding.graph.nodes == pytest.approx(80 * 3, abs=3)


@pytest.mark.parametrize("of_objects", [False, True])
def test_what_a_window_beside_has_is_not_the_list_s(of_objects: bool) -> None:
    weight = torch.ones(4, requires_grad=True)
    smoothed = Smoothed()
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(80):
            smoothed.best = (weight * 2).sum()
            smoothed.losses.append(smoothed.best)
            item = smoothed.best
            if of_objects:
                smoothed.window.append(SimpleNamespace(value=item))
            else:
                smoothed.window.append(item)
            del item
            arbiter.step()
        report = arbiter.report()
    finding = next(f for f in report.findings if f.verdict == "leak")
    assert finding.graph is not None
    assert finding.graph.nodes == pytest.approx(60 * 2, abs=3)


@pytest.mark.parametrize(
    "make",
    [
        queue.Queue,
        queue.LifoQueue,
        queue.PriorityQueue,
        asyncio.Queue,
        asyncio.LifoQueue,
        asyncio.PriorityQueue,
    ],
)
def test_a_queue_with_a_bound_that_nobody_drains(
    make: Callable[..., Any],
) -> None:
    waiting = make(maxsize=16)
    told: list[Finding] = []
    turns = itertools.count()

    def turn() -> None:
        with contextlib.suppress(queue.Full, asyncio.QueueFull):
            waiting.put_nowait((next(turns), torch.ones(64)))

    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for _ in range(15):
            turn()
            arbiter.step()
        finding = only(arbiter.report())
        for _ in range(45):
            turn()
            arbiter.step()
        report = arbiter.report()
    assert finding.verdict == "cache"
    assert finding.holder is not None and finding.holder.bound == 16
    assert {f.verdict for f in (*told, *report.findings)} <= {"cache"}


def test_a_queue_between_processes_with_a_bound() -> None:
    """Its items wait in a deque until a thread of its own has sent them."""
    waiting = multiprocessing.get_context("spawn").Queue(maxsize=16)
    told: list[Finding] = []
    with waiting._wlock:  # type: ignore[attr-defined]
        turns = itertools.count()

        def turn() -> None:
            with contextlib.suppress(queue.Full):
                waiting.put_nowait(numpy.full(64, next(turns)))

        report = watched(turn, 60, on_finding=told.append)
    while not waiting.empty():
        waiting.get(timeout=10)
    waiting.close()
    waiting.join_thread()
    assert {f.verdict for f in (*told, *report.findings)} <= {"cache"}


class Unbounded(queue.Queue[torch.Tensor]):
    def _qsize(self) -> int:
        return 0  # never full


@pytest.mark.parametrize("make", [queue.Queue, Unbounded])
def test_a_queue_that_is_filled_past_its_bound(
    make: Callable[..., queue.Queue[torch.Tensor]],
) -> None:
    waiting = make(maxsize=16)

    def turn() -> None:
        if make is Unbounded:
            waiting.put(torch.ones(64))
        else:
            waiting.queue.append(torch.ones(64))

    finding = only(watched(turn, 60))
    assert finding.verdict == "leak"
    assert finding.holder is not None and finding.holder.bound is None


def test_what_a_bounded_deque_has_cost_when_it_is_gone() -> None:
    """It is as long as ever at each visit; its items' graphs are not."""
    torch.manual_seed(0)
    cell, head = torch.nn.GRUCell(8, 32), torch.nn.Linear(32, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-3)

    def train() -> None:
        states = deque([torch.zeros(4, 32)], maxlen=8)
        for _ in range(120):
            state = cell(torch.randn(4, 8), states[-1])
            states.append(state)
            loss = head(state).square().mean()
            found = torch.autograd.grad(loss, list(head.parameters()))
            for parameter, grad in zip(head.parameters(), found, strict=True):
                parameter.grad = grad
            optimizer.step()

    with impactarbiter.watch() as arbiter:
        train()
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    # Each state's own 512 bytes, and what the cell has saved for it.
    assert finding.bytes_per_step > 512
    assert finding.advice.startswith("detach what is carried")


def test_a_bounded_deque_of_plain_tensors() -> None:
    kept: deque[torch.Tensor] = deque(maxlen=40)
    finding = only(watched(lambda: kept.append(torch.ones(64))))
    assert (finding.verdict, finding.severity) == ("cache", "info")


@pytest.mark.parametrize("behind", [0, 30, 180])
def test_iterators_of_a_tee_keep_a_block_or_all_that_one_is_behind(
    behind: int,
) -> None:
    """A block's 57 items go when all of them have been read."""
    first, second = itertools.tee(torch.ones(64) for _ in range(400))
    for _ in range(behind):
        next(first)
    told: list[Finding] = []

    def turn() -> None:
        next(first)
        if behind < 180:
            next(second)

    report = watched(turn, 100, on_finding=told.append)
    confirmed = [f for f in (*told, *report.findings) if f.confirmed]
    assert bool(confirmed) == (behind == 180)


def test_an_iterator_of_a_tee_falls_behind_while_it_is_watched() -> None:
    """Its first two blocks are all there is when a walk finds them."""
    first, second = itertools.tee(torch.ones(64) for _ in range(400))
    report = watched(lambda: next(first), 240)
    (finding,) = (f for f in report.findings if f.verdict == "leak")
    assert finding.bytes_per_step == pytest.approx(256, rel=0.1)
    next(second)


def test_iterators_of_a_tee_that_keep_step() -> None:
    first, second = itertools.tee(
        (torch.ones(64), torch.ones(8)) for _ in range(400)
    )
    report = watched(lambda: (next(first), next(second)), 360)
    assert not [f for f in report.findings if f.verdict == "leak"]


def test_names_made_up_as_the_program_runs() -> None:
    made = []

    def turn() -> None:
        name = f"snapshot_{len(made)}"
        made.append(name)
        globals()[name] = torch.ones(64)

    try:
        finding = only(watched(turn))
    finally:
        for name in made:
            del globals()[name]
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression == __name__
    assert finding.holder.type == "module"
    assert str(finding.path).startswith(f"{__name__}.snapshot_")
    assert finding.retained_bytes == 256 * finding.retained_tensors > 0


def test_a_leak_that_was_taken_for_a_cache_is_told_again() -> None:
    told: list[str] = []
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(4, 8)
    states = deque([torch.zeros(1, 8)], maxlen=3)

    def turn() -> None:
        states.append(cell(torch.randn(1, 4), states[-1]))

    watched(turn, 60, on_finding=lambda f: told.append(f.verdict))
    assert told == ["cache", "leak"]


# -- patience -----------------------------------------------------------------


def test_a_leak_is_confirmed_within_15_steps_after_warm_up() -> None:
    told: list[int] = []
    kept: list[torch.Tensor] = []
    with impactarbiter.watch(
        step="manual", warmup=3, on_finding=lambda f: told.append(len(kept))
    ) as arbiter:
        for _ in range(40):
            kept.append(torch.ones(64))
            arbiter.step()
    assert len(told) == 1 and told[0] <= 3 + 15


@pytest.mark.parametrize("limit", [None, 1 << 20])
def test_what_comes_now_and_then_waits_while_memory_lasts(
    limit: int | None,
) -> None:
    """A pool of workers fills like that, and a cache; where little memory is
    left, there is no time to wait."""
    told: list[int] = []
    kept: dict[int, torch.Tensor] = {}
    with impactarbiter.watch(
        step="manual",
        memory_limit=limit,
        on_finding=lambda f: told.append(len(kept)),
    ) as arbiter:
        for step in range(120):
            if step % 3 == 0:
                kept[step] = torch.ones(64)
            arbiter.step()
        assert bool(told) == (limit is not None)
        (finding,) = arbiter.report().findings
    assert finding.verdict == "leak" and len(told) == 1
    assert finding.confirmed_step is not None and finding.confirmed_step < 30


def test_what_has_filled_by_then_was_never_called_a_leak() -> None:
    told: list[Finding] = []
    kept: list[torch.Tensor] = []

    def turn() -> None:
        if len(kept) < 14:
            kept.append(torch.ones(64))

    report = watched(turn, 60, on_finding=told.append)
    assert report.findings == () and told == []


def test_a_finding_that_stops_growing_is_taken_back() -> None:
    kept: list[torch.Tensor] = []
    turns = itertools.count()

    def turn() -> None:
        if next(turns) < 30:
            kept.append(torch.ones(64))

    report = watched(turn, 90)
    assert report.findings == ()
    (back,) = report.taken_back
    assert back.verdict == "cache"
    assert back.note == "but has stopped growing (30 items)"
    assert f"grew for a while, {back.note}" in str(report)


def test_a_cache_of_functions_that_is_complete_was_no_leak() -> None:
    """Nobody said so: its keys may have come again."""

    @functools.cache
    def grid(size: int) -> torch.Tensor:
        return torch.ones(size + 1)

    turns = itertools.count()
    report = watched(lambda: grid(min(next(turns), 29)), 90)
    assert report.findings == report.taken_back == ()


def test_what_is_gone_before_the_end_was_let_go() -> None:
    """In a way that the source does not show."""
    kept: list[list[torch.Tensor]] = [[]]
    turns = itertools.count()

    def turn() -> None:
        if next(turns) < 40:
            kept[0].append(torch.ones(64))
        elif kept:
            operator.delitem(kept, 0)

    (back,) = watched(turn, 90).taken_back
    assert back.note == "but was let go before the end"


@pytest.mark.parametrize("kind", ["deque", "lru_cache"])
def test_what_is_full_is_said_to_be_full_and_since_when(kind: str) -> None:
    ring: deque[torch.Tensor] = deque(maxlen=12)

    @functools.lru_cache(maxsize=12)
    def made(turn: int) -> torch.Tensor:
        return torch.ones(turn + 64)

    turns = itertools.count()
    with impactarbiter.watch(step="manual") as arbiter:
        for turn in turns:
            if kind == "deque":
                ring.append(torch.ones(turn + 64))
            else:
                made(turn)
            arbiter.step()
            if turn == 10:
                filling = only(arbiter.report())
            if turn == 14:
                break
        finding = only(arbiter.report())
    assert filling.verdict == finding.verdict == "cache"
    assert "fills with" in str(filling)
    assert finding.holder is not None and finding.holder.length == 12
    assert finding.holder.full_since is not None
    assert 12 <= finding.holder.full_since <= 15
    assert "is full with 12 of 12, and has been since step" in str(finding)
    assert "more a step" not in str(finding)


def test_tensors_that_are_keys_count_with_their_values() -> None:
    answers: dict[torch.Tensor, torch.Tensor] = {}

    def turn() -> None:
        answers[torch.ones(64)] = torch.ones(64)

    report = watched(turn, 200)
    (finding,) = report.findings
    assert finding.verdict == "leak"
    assert finding.bytes_per_step == pytest.approx(512, rel=0.05)


@pytest.mark.parametrize("drained", [2, 3, 8])
def test_a_queue_that_is_filled_faster_than_drained(drained: int) -> None:
    waiting: deque[torch.Tensor] = deque()
    turns = itertools.count()

    def turn() -> None:
        waiting.append(torch.ones(64))
        if next(turns) % drained == drained - 1:
            waiting.popleft()

    report = watched(turn, 200)
    (finding,) = report.findings
    assert (finding.verdict, finding.rule) == ("leak", "outgrows")
    assert "less leaves than comes" in str(report)
    assert finding.bytes_per_step == pytest.approx(
        256 * (1 - 1 / drained), rel=0.15
    )


def test_a_queue_that_is_drained_in_time_is_none() -> None:
    waiting: deque[torch.Tensor] = deque()
    turns = itertools.count()

    def turn() -> None:
        waiting.append(torch.ones(64))
        if next(turns) % 7 == 6:
            for _ in range(min(len(waiting), 9)):
                waiting.popleft()

    report = watched(turn, 200)
    assert not [f for f in report.findings if f.verdict == "leak"]


# -- what users say -----------------------------------------------------------


class Rolling:
    def __init__(self) -> None:
        self.items: list[torch.Tensor] = []

    def __call__(self) -> None:
        self.items.append(torch.ones(64))


def the_type(rolling: Rolling) -> Any:
    return Rolling


RULES: dict[str, Callable[[Rolling], Any]] = {
    "site": lambda r: "test_verdicts_more.py:__call__",
    "site with folder": lambda r: "*/integration/*_more.py:Rolling.*",
    "path": lambda r: "*rolling.items*",
    "type": lambda r: Rolling,
    "predicate": lambda r: lambda finding: finding.tensors[0].bytes == 256,
}


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_silences_what_it_matches(kind: str) -> None:
    rolling, other = Rolling(), []

    def turn() -> None:
        rolling()
        other.append(torch.ones(65))

    rule = RULES[kind](rolling)
    report = watched(turn, allow=(rule,))
    finding = only(report)
    assert finding.tensors[0].bytes == 260
    assert report.warnings == ()


@pytest.mark.parametrize("name", [".kept", ".kept[0]"])
def test_a_rule_may_be_a_name_of_the_report_s(name: str) -> None:
    """The holder's or a path's, as it was printed; what is allowed is no
    growth that nobody explains."""
    kept = [None] if name == ".kept" else [[None]]
    into = kept if name == ".kept" else kept[0]
    frame = "test_a_rule_may_be_a_name_of_the_report_s()"
    report = watched(
        lambda: into.append(torch.ones(65)), allow=(frame + name,)
    )
    assert report.findings == () and report.warnings == ()
    assert report.grown_bytes_per_step > 0
    assert "no leak" in str(report).splitlines()[0]


def test_a_backward_is_one_though_steps_are_made_by_hand() -> None:
    model, kept = torch.nn.Linear(4, 4), []

    def turn() -> None:
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        kept.append(loss)

    assert "`.item()`" in str(only(watched(turn)).advice)


def test_a_dead_rule_is_reported() -> None:
    rolling = Rolling()
    report = watched(rolling, allow=("no_such_file.py:*",))
    assert only(report).verdict == "leak"
    assert any(
        "no_such_file.py" in said and "matched nothing" in said
        for said in report.warnings
    )


def test_a_rule_that_raises_allows_nothing_and_is_reported() -> None:
    def broken(finding: Finding) -> bool:
        raise KeyError("oops")

    rolling = Rolling()
    report = watched(rolling, allow=(broken,))
    assert only(report).verdict == "leak"
    assert any("raised KeyError: 'oops'" in said for said in report.warnings)


def test_an_allowed_block_counts_apart() -> None:
    kept = []

    def turn() -> None:
        with impactarbiter.allow("kv cache"):
            kept.append(torch.ones(64))

    report = watched(turn)
    assert report.findings == ()
    assert report.accounted["allowed"] == 256 * STEPS


def test_an_allowed_object() -> None:
    rolling, other = Rolling(), Rolling()
    impactarbiter.allow_object(rolling)

    def turn() -> None:
        rolling()
        other()

    finding = only(watched(turn))
    assert finding.holder is not None
    assert finding.holder.expression.endswith("other.items")


def test_a_finding_carries_its_phase() -> None:
    kept = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            with arbiter.phase("epoch"):
                torch.ones(8).sum()
                with arbiter.phase("validation"):
                    kept.append(torch.ones(64))
            arbiter.step()
        finding = only(arbiter.report())
    assert finding.phase is not None and "validation" in finding.phase


def test_every_checks_rarely_and_counts_exactly() -> None:
    kept: list[torch.Tensor] = []
    report = watched(lambda: kept.append(torch.ones(64)), 100, every=10)
    finding = only(report)
    assert finding.verdict == "leak"
    assert finding.bytes_per_step == pytest.approx(256)
    assert report.steps == 100


def test_nothing_of_the_users_is_in_an_obfuscated_report(
    tmp_path: Path,
) -> None:
    script = tmp_path / "topsecret.py"
    script.write_text(
        """
import torch
class Hush:
    def __init__(self):
        self.classified = {"mykey": []}
        self.confidential = torch.nn.Linear(37, 3)
    def covert(self):
        out = self.confidential(torch.ones(41, 37))
        self.classified["mykey"].append(out)
private_thing = Hush()
for _ in range(30):
    private_thing.covert()
"""
    )
    files = {
        kind: tmp_path / f"out.{kind}" for kind in ("json", "html", "sarif")
    }
    run = warm.run(
        ["-m", "impactarbiter", "run", "--obfuscate"]
        + [part for k, f in files.items() for part in (f"--{k}", str(f))]
        + [str(script)],
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "leak" in run.stderr
    outputs = {"stderr": run.stderr}
    outputs |= {kind: file.read_text() for kind, file in files.items()}
    secrets = [
        *("topsecret", "classified", "mykey", "confidential", "covert"),
        *("private_thing", "Hush", "41, 37", "[41", str(tmp_path)),
    ]
    for kind, text in outputs.items():
        told = [secret for secret in secrets if secret in text]
        assert told == [], kind
    data = json.loads(outputs["json"])
    (finding,) = data["findings"]
    # The same name has the same mask wherever it stands.
    assert finding["holder"]["expression"] in finding["path"]["text"]
    assert finding["holder"]["expression"] in finding["advice"]


def test_figures_add_up_with_two_holders_of_the_same() -> None:
    first: list[torch.Tensor] = []
    second: list[torch.Tensor] = []
    third: list[torch.Tensor] = []

    def turn() -> None:
        shared = torch.ones(256)
        first.append(shared)
        second.append(shared)
        third.append((shared * 2).requires_grad_() * 3)

    report = watched(turn)
    claimed = sum(f.retained_bytes for f in report.findings)
    assert 0 < claimed <= report.live_bytes
    assert sum(report.accounted.values()) == report.live_bytes


def test_a_warning_of_ours_is_none_of_pythons() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched(Rolling())


def test_a_listener_that_stops_and_watches_anew() -> None:
    """The look that told it goes on in a run that is another one."""
    rolling = Rolling()
    arbiters = []

    def told(_finding: Finding) -> None:
        arbiters[-1].stop()
        arbiters.append(impactarbiter.watch(step="manual"))

    arbiters.append(impactarbiter.watch(step="manual", on_finding=told))
    for _ in range(40):
        rolling()
        arbiters[-1].step()
    assert len(arbiters) == 2
    (finding,) = arbiters[-1].stop().findings
    assert finding.verdict == "leak"
    assert arbiters[-1].report().steps > 15


def test_a_child_may_watch_for_itself() -> None:
    with impactarbiter.watch(step="manual"):
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                rolling = Rolling()
                code = 0 if watched(rolling).findings else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class _Service:
    """What it keeps has a name that no other file of the tests has: all that
    were imported into their process are read for it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.unread_replies: list[torch.Tensor] = []

    def answer(self) -> torch.Tensor:
        with torch.no_grad():
            return self.model(torch.ones(1, 4))


def _trained(
    service: _Service, keep: Callable[[torch.Tensor], object]
) -> None:
    optimizer = torch.optim.SGD(service.model.parameters(), lr=0.1)
    for _ in range(40):
        loss = service.model(torch.ones(1, 4)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        keep(loss)


def test_a_service_after_its_training_leaks_by_the_call() -> None:
    service = _Service(torch.nn.Linear(4, 4))
    with impactarbiter.watch() as arbiter:
        _trained(service, lambda loss: None)
        for _ in range(250):
            service.unread_replies.append(service.answer())
        report = arbiter.report()
    (leak,) = report.findings
    assert leak.verdict == "leak" and leak.holder
    assert leak.holder.expression.endswith("service.unread_replies")
    assert leak.holder.growth_per_step == pytest.approx(1, rel=0.05)
    assert (report.steps, report.step_kind) == (290, "module call")


def test_a_service_that_keeps_graphs_needs_none_though_it_was_trained() -> (
    None
):
    service = _Service(torch.nn.Linear(4, 4))
    with impactarbiter.watch() as arbiter:
        _trained(service, lambda loss: None)
        for _ in range(250):
            service.unread_replies.append(service.model(torch.ones(1, 4)))
        (leak,) = arbiter.report().findings
    assert leak.verdict == "leak" and not leak.trains
    assert leak.advice and "torch.no_grad()" in leak.advice


def test_what_training_keeps_is_not_let_go_by_the_calls_of_a_service() -> None:
    service = _Service(torch.nn.Linear(4, 4))
    losses: list[torch.Tensor] = []
    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        _trained(service, losses.append)
        for _ in range(250):
            service.answer()
        report = arbiter.report()
    (leak,) = report.findings
    assert leak.verdict == "leak" and leak.holder
    assert leak.holder.expression.endswith("losses")
    assert leak.holder.growth_per_step == pytest.approx(1, rel=0.05)
    assert leak.last_step <= 40 and report.taken_back == ()


def test_a_long_evaluation_after_a_training_goes_with_its_call() -> None:
    service = _Service(torch.nn.Linear(4, 4))

    def evaluate() -> float:
        answers = []
        for _ in range(250):
            answers.append(service.answer())
        return torch.cat(answers).sum().item()

    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        _trained(service, lambda loss: None)
        evaluate()
        report = arbiter.report()
    assert report.findings == () and told == []


class _Queue(torch.nn.Module):
    queue: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(8, 8)
        self.register_buffer("queue", torch.randn(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer = self.encoder(x) @ self.queue[:64].T
        self.queue = torch.cat([x, self.queue])
        return answer.square().mean()


def test_a_buffer_that_grows_by_concatenation_while_a_graph_reads_it() -> None:
    """The buffer of before is alive until backward: two of one line."""
    model = _Queue()
    optimizer = torch.optim.SGD(model.encoder.parameters(), lr=0.1)
    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.randn(16, 8)).backward()
            optimizer.step()
        (leak,) = arbiter.report().findings
    assert (leak.verdict, len(told)) == ("leak", 1)
    assert leak.holder and leak.holder.expression.endswith("model.queue")
    assert leak.bytes_per_step == pytest.approx(16 * 8 * 4, rel=0.05)
    assert leak.retained_bytes == model.queue.nbytes
    assert leak.retained_tensors == 1


def test_a_mean_that_is_larger_than_the_sum_s_graph_is_not_what_keeps_it() -> (
    None
):
    """Both hang on the graph of all steps; the mean is made anew."""
    weight = torch.ones(1024, requires_grad=True)
    meter = SimpleNamespace(sum=0, mean=0, count=0)

    def turn() -> None:
        meter.sum += weight * 2
        meter.count += 1
        meter.mean = meter.sum / meter.count

    leak = only(watched(turn, 60))
    assert leak.verdict == "leak" and leak.holder
    assert leak.holder.expression.endswith("meter.sum")
    (mean,) = leak.holder.beside
    assert mean.endswith("meter.mean")


def says_so(warning: str) -> bool:
    return "graph was left out" in warning


@pytest.fixture
def busy() -> Iterator[Callable[[], None]]:
    """Has a thread that is busy in torch from then on."""
    future: Any = torch.futures.Future()
    thread = threading.Thread(target=future.wait)
    yield thread.start
    future.set_result(None)
    thread.join()


def left_out(turn: Callable[[], object], arbiter: Any) -> Report:
    """A report that has left graphs out, as soon as one does."""
    while True:
        turn()
        arbiter.step()
        report: Report = arbiter.report()
        if any(map(says_so, report.warnings)):
            return report


def test_a_look_that_leaves_graphs_out_does_not_change_what_is_known(
    busy: Callable[[], None],
) -> None:
    """What only a graph leads to looked as if nothing of Python's did, and a
    list of losses as if it kept next to nothing."""
    losses: list[torch.Tensor] = []

    def turn() -> None:
        layer = torch.nn.Linear(32, 32)
        losses.append(layer(torch.ones(32)).sum())

    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            turn()
            arbiter.step()
        before = only(arbiter.report())
        busy()
        during = only(left_out(turn, arbiter))
    for one in (before, during):
        assert one.verdict == "leak" and one.holder
        assert one.holder.expression.endswith("losses")
    assert during.bytes_per_step == pytest.approx(before.bytes_per_step, 0.2)


def test_garbage_cycles_need_no_graph(
    no_collector: None, busy: Callable[[], None]
) -> None:
    """Nor does that they are gone."""

    def turn() -> None:
        node = SimpleNamespace(value=torch.ones(64))
        node.itself = node

    with impactarbiter.watch(step="manual") as arbiter:
        busy()
        left_out(turn, arbiter)
        for _ in range(STEPS):
            turn()
            arbiter.step()
        report = arbiter.report()
        assert any(map(says_so, report.warnings))
        assert only(report).verdict == "cycle"
        gc.collect()
        arbiter.step()
        report = arbiter.report()
        assert any(map(says_so, report.warnings))
        assert report.findings == ()


def test_what_a_look_without_graphs_finds_elsewhere_has_not_gone(
    busy: Callable[[], None],
) -> None:
    first, second = SimpleNamespace(kept=[]), SimpleNamespace()

    def turn() -> None:
        place = second if hasattr(second, "kept") else first
        place.kept.append(torch.ones(64))

    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            turn()
            arbiter.step()
        arbiter.report()
        second.kept = first.kept
        del first.kept
        busy()
        left_out(turn, arbiter)
        for _ in range(STEPS):
            turn()
            arbiter.step()
        leak = only(arbiter.report())
    assert leak.verdict == "leak" and leak.holder and leak.note is None
    assert leak.holder.length == len(second.kept)


def test_averages_that_carry_a_graph_cost_what_their_graph_gains() -> None:
    """Not their own size, which is renewed: 4 KiB each, of two.  They go with
    their call: one walk has seen them."""
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 32, bias=False), torch.nn.Linear(32, 32, False)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        named = list(model.named_parameters())
        shadow = {name: p.detach().clone() for name, p in named}
        for _ in range(40):
            optimizer.zero_grad()
            model(torch.ones(4, 32)).square().mean().backward()
            optimizer.step()
            for name, p in named:
                shadow[name] = 0.9 * shadow[name] + 0.1 * p

    with impactarbiter.watch() as arbiter:
        train()
        (leak,) = arbiter.report().findings
    assert leak.verdict == "leak" and leak.holder
    assert leak.holder.expression.endswith("shadow")
    assert 0 < leak.bytes_per_step < 256 < leak.graph_bytes_per_step
