"""What a turn of a loop gathers in a variable of its own goes with the turn,
and is told of nobody; what outlives the turn is a leak like any other."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import Finding

#: Steps of an epoch: more than a leak needs to be told.
EPOCH = 30

GOES_WITH_THE_TURN = {
    "a loop in the loop": """
        for epoch in range(3):
            losses = []
            for batch in range(EPOCH):
                losses.append(torch.ones(64))
                step()
        """,
    "a call in the loop that is given it": """
        def fit(log):
            for batch in range(EPOCH):
                log.append(torch.ones(64))
                step()
        epoch = 0
        while epoch < 3:
            epoch += 1
            losses = []
            fit(losses)
        """,
    "given to a generator, which alone has it": """
        def fit(log):
            for batch in range(EPOCH):
                log.append(torch.ones(64))
                yield
        for epoch in range(3):
            losses = [fit([])]
            for _ in range(EPOCH):
                next(losses[0])
                step()
        """,
    "behind a condition that has nothing to do with it": """
        for epoch in range(3):
            if epoch % 2:
                name = "odd"
            with torch.no_grad():
                losses = {"all": []}
                for batch in range(EPOCH):
                    losses["all"].append(torch.ones(64))
                    step()
        """,
}

STAYS = {
    "set before the loop": """
        losses = []
        for epoch in range(3):
            for batch in range(EPOCH):
                losses.append(torch.ones(64))
                step()
        """,
    "another name of what stays": """
        class Trainer: pass
        trainer = Trainer()
        trainer.losses = []
        for epoch in range(3):
            losses = trainer.losses
            for batch in range(EPOCH):
                losses.append(torch.ones(64))
                step()
        """,
    "made once, in the loop": """
        losses = None
        for epoch in range(3):
            if losses is None:
                losses = []
            for batch in range(EPOCH):
                losses.append(torch.ones(64))
                step()
        """,
    "made once, in an expression": """
        losses = None
        for epoch in range(3):
            losses = losses or []
            for batch in range(EPOCH):
                losses.append(torch.ones(64))
                step()
        """,
    "made longer": """
        losses = []
        for epoch in range(3):
            for batch in range(EPOCH):
                losses += [torch.ones(64)]
                step()
        """,
    "made anew of the one before": """
        losses = []
        for epoch in range(3):
            for batch in range(EPOCH):
                losses = losses + [torch.ones(64)]
                step()
        """,
    "made anew of the one before, with another": """
        def add(losses):
            return 0, losses + [torch.ones(64)]
        losses = []
        for epoch in range(3):
            for batch in range(EPOCH):
                loss, losses = add(losses)
                step()
        """,
    "made anew of what was made of the one before": """
        kept = {"all": ()}
        for epoch in range(3):
            for batch in range(EPOCH):
                given = {"more": 1, **kept}
                _, kept = 0, {"all": given["all"] + (torch.ones(64),)}
                step()
        """,
    "a loop beside it": """
        for epoch in range(3):
            losses = []
        with torch.no_grad():
            for batch in range(3 * EPOCH):
                losses.append(torch.ones(64))
                step()
        """,
}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ModuleType]:
    module = ModuleType("program")
    module.__file__ = str(tmp_path / "program.py")
    sys.modules["program"] = module
    yield module
    del sys.modules["program"]


def told(program: ModuleType, source: str) -> list[Finding]:
    """What is told while the program runs, after its first steps."""
    found: list[Finding] = []
    source = textwrap.dedent(source)
    Path(str(program.__file__)).write_text(source)
    names = vars(program)
    names.update(torch=torch, EPOCH=EPOCH)
    with impactarbiter.watch(step="manual", on_finding=found.append) as ours:
        names["step"] = ours.step
        exec(compile(source, str(program.__file__), "exec"), names)
        names.pop("main", lambda: None)()
    return [f for f in found if f.verdict == "leak"]


def in_a_function(source: str) -> str:
    return "def main():\n" + textwrap.indent(textwrap.dedent(source), "    ")


@pytest.mark.parametrize("name", GOES_WITH_THE_TURN)
def test_what_goes_with_the_turn_is_not_told(
    program: ModuleType, name: str
) -> None:
    source = GOES_WITH_THE_TURN[name]
    assert told(program, source) == []
    assert told(program, in_a_function(source)) == []


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_is_told(program: ModuleType, name: str) -> None:
    source = STAYS[name]
    assert len(told(program, source)) == 1
    assert len(told(program, in_a_function(source))) == 1


GRAPHS_OF_A_TURN = {
    "cleared": """
        losses = []
        for epoch in range(3):
            for batch in range(EPOCH):
                losses.append((weight * batch).sum())
                step()
            losses.clear()
        """,
    "of a turn": """
        for epoch in range(3):
            losses = []
            for batch in range(EPOCH):
                losses.append((weight * batch).sum())
                step()
        """,
    "of an evaluation that returns": """
        class Report:
            def begin(self):
                self.outputs = []
            def add(self, batch):
                self.outputs.append((weight * batch).sum())
        def report():
            of = Report()
            of.begin()
            for batch in range(EPOCH):
                of.add(batch)
                step()
        for epoch in range(3):
            report()
        """,
}


@pytest.mark.parametrize("name", GRAPHS_OF_A_TURN)
def test_graphs_that_the_source_lets_go_of_are_not_told(
    program: ModuleType, name: str
) -> None:
    """Each has one of its own: none reaches further back."""
    vars(program)["weight"] = torch.ones(64, requires_grad=True)
    assert told(program, in_a_function(GRAPHS_OF_A_TURN[name])) == []


def test_what_went_with_its_path_did_not_stand_at_the_end(
    program: ModuleType,
) -> None:
    """The lines of the first evaluation have as much again at the end, in
    another list."""
    source = """
        class Report:
            def begin(self):
                self.outputs = []
            def add(self, batch):
                self.outputs.append(torch.ones(64))
        def report(batches):
            of = Report()
            of.begin()
            for batch in range(batches):
                of.add(batch)
                step()
        def train():
            for batch in range(EPOCH):
                step()
        def main():
            report(2 * EPOCH)
            train()
            report(6 * EPOCH)
        """
    source = textwrap.dedent(source)
    Path(str(program.__file__)).write_text(source)
    names = vars(program)
    names.update(torch=torch, EPOCH=EPOCH)
    with impactarbiter.watch(step="manual") as ours:
        names["step"] = ours.step
        exec(compile(source, str(program.__file__), "exec"), names)
        names["main"]()
        verdicts = {f.verdict for f in ours.report().findings}
    assert verdicts <= {"accumulation"}


# -- containers of what has a bound ------------------------------------------


@pytest.mark.parametrize("bounded", [True, False])
def test_a_list_of_deques_that_fill_up(bounded: bool) -> None:
    most = 10 if bounded else None
    recent = [deque[torch.Tensor](maxlen=most) for _ in range(50)]
    chosen = torch.randint(50, (60, 8), generator=torch.manual_seed(1))
    found: list[Finding] = []
    with impactarbiter.watch(step="manual", on_finding=found.append) as ours:
        for step in range(60):
            for k in chosen[step].tolist():
                recent[k].append(torch.ones(16))
            ours.step()
        report = ours.report()
    verdicts = {f.verdict for f in (*found, *report.findings)}
    assert verdicts <= ({"cache"} if bounded else {"leak"})
    assert bounded or verdicts


def test_deques_of_ever_new_names_have_no_bound() -> None:
    recent: dict[int, deque[torch.Tensor]] = {}
    with impactarbiter.watch(step="manual") as ours:
        for step in range(60):
            recent.setdefault(step // 2, deque(maxlen=4)).append(torch.ones(8))
            ours.step()
        (finding,) = ours.report().findings
    assert finding.verdict == "leak"


class Ring:
    def __init__(self, most: int) -> None:
        self.rows: list[torch.Tensor] = []
        self.most, self.at = most, 0

    def push(self, row: torch.Tensor) -> None:
        if len(self.rows) < self.most:
            self.rows.append(row)
        else:
            self.rows[self.at % self.most] = row
        self.at += 1


@pytest.mark.parametrize("most", [40, 500])
def test_what_its_own_source_limits_is_not_told_while_it_fills_up(
    most: int,
) -> None:
    """What has not filled up by the end may never do so."""
    ring = Ring(most)
    found: list[Finding] = []
    with impactarbiter.watch(step="manual", on_finding=found.append) as ours:
        for _step in range(90):
            ring.push(torch.ones(64))
            ours.step()
        assert not [f for f in found if f.verdict == "leak"]
        verdicts = {f.verdict for f in ours.report().findings}
    assert verdicts <= ({"accumulation"} if most < 90 else {"leak"})
    assert verdicts or most < 90


def test_one_key_s_list_is_cleared_with_the_others() -> None:
    """Each epoch has other keys first; the last one is not yet over."""
    by_class: dict[int, list[torch.Tensor]] = {}
    with impactarbiter.watch(step="manual") as ours:
        for step in range(4 * EPOCH):
            if step % EPOCH == 0:
                by_class.clear()
            key = step % 3 + step // EPOCH
            by_class.setdefault(key, []).append(torch.ones(64))
            ours.step()
        report = ours.report()
    assert not [f for f in report.findings if f.verdict == "leak"]


class Service:
    """Answers what it is asked; its tasks are kept once they are done."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[torch.Tensor]] = set()
        self.asked: asyncio.Queue[Any] = asyncio.Queue()

    async def handle(self, number: int) -> torch.Tensor:
        future = asyncio.get_running_loop().create_future()
        await self.asked.put((number, future))
        answer: torch.Tensor = await future
        return answer

    def submit(self, number: int) -> asyncio.Task[torch.Tensor]:
        task = asyncio.create_task(self.handle(number))
        self.tasks.add(task)
        return task


async def answer(asked: asyncio.Queue[Any], arbiter: Any) -> None:
    """Has no other way to the service than by whom it answers."""
    while True:
        batch = [await asked.get()]
        arbiter.step()
        for number, future in batch:
            future.set_result(torch.full((64,), float(number)))
        del future


async def serve(arbiter: Any) -> None:
    service = Service()
    answering = asyncio.create_task(answer(service.asked, arbiter))
    for number in range(60):
        await service.submit(number)
    answering.cancel()


async def by_itself(arbiter: Any) -> None:
    """Nobody but whom it waits for knows what serves."""
    served = asyncio.Event()

    async def serving() -> None:
        await serve(arbiter)
        served.set()

    weakref.ref(asyncio.ensure_future(serving()))
    await served.wait()


@pytest.mark.parametrize(
    "run, name",
    [(serve, "serve().service.tasks"), (by_itself, "self.tasks")],
)
def test_what_a_waiting_call_was_given_is_of_no_turn_that_leads_to_it(
    run: Callable[[Any], Coroutine[Any, Any, None]], name: str
) -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        asyncio.run(run(arbiter))
        (leak,) = arbiter.report().findings
    assert leak.verdict == "leak" and leak.holder
    assert leak.holder.expression.endswith(name)
    assert leak.generations > 40


class Answers:
    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    async def answer(self, arbiter: Any) -> None:
        await asyncio.sleep(0)
        arbiter.step()
        self.kept.append(torch.ones(64))


async def inner(arbiter: Any) -> None:
    answers = Answers()
    for _ in range(40):
        await asyncio.gather(answers.answer(arbiter), asyncio.sleep(0))


async def outer(arbiter: Any) -> None:
    await inner(arbiter)


async def within_wait_for(arbiter: Any) -> None:
    await asyncio.wait_for(inner(arbiter), 60)


async def joined(arbiter: Any) -> None:
    """Has what grows in a variable, and nothing else has it."""
    answers = Answers()
    rows = torch.ones(0)
    for _ in range(40):
        await asyncio.gather(answers.answer(arbiter), asyncio.sleep(0))
        rows = torch.cat([rows, answers.kept.pop()])
    await asyncio.gather(reported(arbiter), asyncio.sleep(0))
    await reported(arbiter)


async def reported(arbiter: Any) -> None:
    (leak,) = arbiter.report().findings
    assert leak.holder and leak.holder.expression == "joined().rows"
    assert leak.retained_bytes == 40 * 64 * 4


def test_what_a_waiting_call_has_alone_is_freed_with_it() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        asyncio.run(joined(arbiter))


def in_a_loop(call: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(call)
    loop.close()


@pytest.mark.parametrize("run", [asyncio.run, in_a_loop])
@pytest.mark.parametrize("call", [inner, outer, within_wait_for])
def test_what_a_waiting_call_has_goes_by_its_own_name(
    run: Callable[[Coroutine[Any, Any, None]], None],
    call: Callable[[Any], Coroutine[Any, Any, None]],
) -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        run(call(arbiter))
        (leak,) = arbiter.report().findings
    assert leak.holder and leak.holder.expression == "inner().answers.kept"
    assert leak.grown_at and leak.grown_at.function == "Answers.answer"
