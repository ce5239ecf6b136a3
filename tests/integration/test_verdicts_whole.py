"""Verdicts on programs as people write them, in small: what is told while they
run, and once they have let go of everything."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from heapq import heappush
from itertools import islice
from typing import ClassVar

import pytest
import torch
from torch import nn

import impactarbiter
from impactarbiter import Finding
from impactarbiter.judging import walks


class Engine:
    """Answers eight requests in turns; a client in seven hangs up, and its
    session is kept."""

    def __init__(self) -> None:
        self.model = nn.Linear(32, 32)
        self.sessions: dict[int, torch.Tensor] = {}

    def serve(self, requests: int) -> None:
        coming = iter(range(requests))
        active = {next(coming): 20 + turns for turns in range(8)}
        with torch.no_grad():
            while active:
                for request, left in list(active.items()):
                    state = self.sessions.get(request, torch.zeros(1, 32))
                    self.sessions[request] = self.model(state)
                    active[request] = left - 1
                    if left == 1:
                        self.close(request)
                        del active[request]
                        for new in islice(coming, 1):
                            active[new] = 20 + new % 13

    def close(self, request: int) -> None:
        if request % 7 != 3:
            del self.sessions[request]


def run(requests: int) -> None:
    Engine().serve(requests)


class Call:
    """Heard for as long as somebody talks; the class has a book of all."""

    book: ClassVar[list[torch.Tensor]] = []

    def __init__(self) -> None:
        self.heard: list[torch.Tensor] = []

    def hear(self, chunk: torch.Tensor) -> None:
        self.heard.append(chunk)

    def note(self, chunk: torch.Tensor) -> None:
        self.book.append(chunk)


class Exchange:
    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}

    def hang_up(self, name: str) -> None:
        del self.calls[name]


def told_of_a_call(
    keep: Callable[[Call, torch.Tensor], None],
) -> list[Finding]:
    """In passing, of one that goes on for forty steps."""
    told: list[Finding] = []
    exchange = Exchange()
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        exchange.calls["first"] = Call()
        for _step in range(40):
            keep(exchange.calls["first"], torch.ones(64))
            arbiter.step()
        in_passing = [*told]
        exchange.hang_up("first")
    return in_passing


def test_what_an_item_has_may_go_with_it() -> None:
    assert not told_of_a_call(Call.hear)


def test_what_its_class_has_does_not_go_with_an_item() -> None:
    (finding,) = told_of_a_call(Call.note)
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")


def test_what_outgrew_all_that_left_is_a_leak_when_its_owner_is_gone() -> None:
    with impactarbiter.watch() as arbiter:
        run(800)  # fewer are too short for what few looks see
        report = arbiter.report()
    (finding,) = report.findings
    assert (finding.verdict, finding.rule) == ("leak", "outgrows")
    assert finding.holder is not None
    assert finding.holder.expression.endswith(".sessions")
    assert finding.bytes_per_step == pytest.approx(128 / (7 * 26), rel=0.3)


def serve_in_a_thread(requests: int) -> None:
    engine = Engine()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(engine.serve, requests).result()


def test_the_name_is_that_of_the_thread_that_waits() -> None:
    """A worker's call, `Engine.serve().self`, is another at each request."""
    with impactarbiter.watch() as arbiter:
        serve_in_a_thread(2000)
        report = arbiter.report()
    (finding,) = report.findings
    assert finding.holder is not None
    name = finding.holder.expression
    assert name == "serve_in_a_thread().engine.sessions"


@dataclasses.dataclass(frozen=True)
class State:
    step: int
    history: list[torch.Tensor]


def advance(state: State) -> State:
    history = [torch.ones(64), *state.history]
    return dataclasses.replace(state, step=state.step + 1, history=history)


def test_a_state_that_each_step_makes_anew_is_followed() -> None:
    """Object and list are others each time; the eldest item is the same."""
    state = State(0, [])
    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        for _step in range(80):
            state = advance(state)
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert finding.verdict == "leak" and len(told) == 1
    assert finding.bytes_per_step == pytest.approx(256, rel=0.05)
    assert finding.holder is not None
    assert finding.holder.expression.endswith("().state.history")
    assert finding.grown_at is not None
    assert finding.grown_at.source == "state = advance(state)"
    assert len(state.history) == 80


def test_a_heap_that_keeps_all_has_another_first_item_all_the_time() -> None:
    order = random.Random(0)
    heap: list[tuple[float, torch.Tensor]] = []
    with impactarbiter.watch() as arbiter:
        for step in range(200):
            heappush(heap, (order.random() - step / 50, torch.ones(64)))
            arbiter.step()
            if step == 100:
                arbiter.report()  # walks to it again
        report = arbiter.report()
    (finding,) = report.findings
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")
    assert len(heap) == 200


def test_calls_are_seen_though_others_set_module_call_anew() -> None:
    """As torch.fx does for each trace."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    kept: list[torch.Tensor] = []
    with impactarbiter.watch() as arbiter:
        for _step in range(60):
            torch.fx.symbolic_trace(net)
            with torch.no_grad():
                kept.append(net(torch.ones(1, 4)))
        report = arbiter.report()
    assert report.steps >= 59
    assert len(report.findings) == 1 and len(kept) == 60


@functools.cache
def table(length: int) -> torch.Tensor:
    return torch.arange(length * 16.0)


def told_of_a_memo(keys: int) -> list[Finding]:
    """What is said in passing where so many lengths are all there are."""
    table.cache_clear()
    lengths = list(range(1, keys + 1))
    random.Random(0).shuffle(lengths)
    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        for step in range(2 * keys + 80):
            table(lengths[step % keys]).sum()
            arbiter.step()
        report = arbiter.report()
    table.cache_clear()
    assert not report.findings
    return told


def test_a_memo_may_end_while_the_program_runs() -> None:
    """Nobody knows after a hundred and thirty steps."""
    (finding,) = told_of_a_memo(160)
    assert (finding.verdict, finding.rule) == ("growing", "may-end")
    assert "keys that come again may end that" in str(finding)


def test_what_may_end_is_not_told_as_early_as_a_leak() -> None:
    assert not told_of_a_memo(60)


def test_a_memo_whose_keys_never_come_again_is_a_leak() -> None:
    table.cache_clear()
    with impactarbiter.watch() as arbiter:
        for step in range(60):
            table(step + 1).sum()
            arbiter.step()
        report = arbiter.report()
    table.cache_clear()
    (finding,) = report.findings
    assert finding.verdict == "leak"


def test_a_memo_whose_new_keys_get_rarer_is_not_known_to_leak() -> None:
    """So few are chance; what comes again is asked for first."""
    table.cache_clear()
    new = {1, 2, 4, 6, 9, 16, 24, 65, 73, 126, 203}
    with impactarbiter.watch() as arbiter:
        for step in range(290):
            table(1 + max(at for at in (1, *new) if at <= max(step, 1))).sum()
            arbiter.step()
        report = arbiter.report()
    table.cache_clear()
    assert {f.rule for f in report.findings} == {"may-end"}


def _table_of(store: dict[int, torch.Tensor], length: int) -> torch.Tensor:
    if length not in store:
        store[length] = torch.arange(length * 16.0)
    return store[length]


@pytest.mark.parametrize("of_functools", [False, True])
def test_a_memo_that_is_filled_is_no_leak(of_functools: bool) -> None:
    """Forty keys in forty steps, and in twelve more none that is new."""
    table.cache_clear()
    kept: dict[int, torch.Tensor] = {}
    lookup = table if of_functools else functools.partial(_table_of, kept)
    with impactarbiter.watch() as arbiter:
        for step in range(52):
            lookup(1 + step % 40).sum()
            arbiter.step()
        report = arbiter.report()
    table.cache_clear()
    (finding,) = report.findings
    assert (finding.verdict, finding.rule) == ("growing", "may-end")


@pytest.mark.parametrize("room", [40, 400])
def test_what_is_filled_up_to_its_own_limit_is_no_leak(room: int) -> None:
    kept: dict[int, torch.Tensor] = {}
    with impactarbiter.watch() as arbiter:
        for step in range(52):
            if len(kept) < room:
                kept[step] = torch.ones(64)
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    expected = (
        ("growing", "own-limit") if room == 40 else ("leak", "keeps-all")
    )
    assert (finding.verdict, finding.rule) == expected


def test_a_memo_whose_new_keys_come_in_bursts_is_a_leak() -> None:
    """Each epoch asks for keys of its own, and trains between."""
    kept: dict[int, torch.Tensor] = {}
    with impactarbiter.watch() as arbiter:
        for step in range(250):
            epoch, at = divmod(step, 50)
            _table_of(kept, 1 + 10 * epoch + min(at, 9)).sum()
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")


def test_an_evaluation_as_long_as_those_before_it_is_no_growth() -> None:
    """What it gathers is let go of when it ends, as those before did."""
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with impactarbiter.watch() as arbiter:
        for _epoch in range(3):
            for _step in range(30):
                model(torch.ones(8, 64)).sum().backward()
                optimizer.step()
            with torch.no_grad():
                outputs = [model(torch.ones(2, 64)) for _ in range(100)]
        report = arbiter.report()
    assert len(outputs) == 100 and not report.findings
    assert report.later_growth is None


def test_a_graph_that_began_late_is_as_large_as_its_steps() -> None:
    """Sixteen probes of a graph come with each doubling of the run: the last
    may be some steps older than the walk."""
    weight = torch.ones(64, requires_grad=True)
    scale = torch.zeros(64)
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(400):
            arbiter.step()
        for _ in range(200):
            scale = 0.9 * scale + weight * 0.1
            arbiter.step()
        (finding,) = arbiter.glance().findings
    assert finding.graph is not None
    # Two products and a sum at each step, and the leaf's node; as of the last
    # look.
    off = 3 * 600 * walks.LONGEST_PAUSE
    assert finding.graph.nodes == pytest.approx(3 * 200, abs=off)


class Seen:
    def __init__(self, seen: torch.Tensor) -> None:
        self.seen = seen


class Recurrent:
    """Has the state of the step before, too."""

    def __init__(self) -> None:
        self.before: Seen | None = None
        self.now = Seen(torch.ones(64))

    def step(self) -> None:
        more = torch.cat([self.now.seen, torch.ones(64)])
        self.before = self.now
        self.now = Seen(more)


def test_a_state_made_anew_whose_old_self_goes_by_another_name() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        trainer = Recurrent()
        for _step in range(300):
            trainer.step()
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")
    assert finding.holder is not None
    assert finding.holder.expression.endswith("trainer.now.seen")
    assert finding.bytes_per_step == pytest.approx(256)
