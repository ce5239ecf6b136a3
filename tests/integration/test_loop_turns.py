"""Where a program has no step of its own, turns of its loops are its time."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm

import impactarbiter
from impactarbiter import Report
from impactarbiter.core import ledger

TURNS = 300
#: Of some microseconds each: boundaries lie further apart.
SHORT_TURNS = 30_000


class Filter:
    """Keeps all that it estimates."""

    def __init__(self) -> None:
        self.estimates: list[Any] = []
        self.state = torch.zeros(64)

    def update(self, seen: torch.Tensor) -> None:
        self.state = 0.9 * self.state + 0.1 * seen
        self.estimates.append(self.state.clone())


def watched(body: Callable[[], object]) -> Report:
    with impactarbiter.watch() as arbiter:
        body()
    return arbiter.stop()


def test_a_leak_in_a_loop_without_steps_is_found() -> None:
    made = Filter()
    with impactarbiter.watch() as arbiter:
        for turn in range(10 * TURNS):
            made.update(torch.full((64,), float(turn)))
    report = arbiter.stop()
    (finding,) = report.findings
    assert finding.verdict == "leak"
    assert str(finding.holder.expression).endswith("made.estimates")
    assert report.step_kind == "loop turn"
    assert 0.95 < finding.tensors_per_step < 2
    assert "turns of a loop" in str(report)


def test_each_turn_counts_once() -> None:
    """Whatever an instruction makes besides its result."""

    def body() -> None:
        for turn in range(TURNS):
            weights = torch.full((64,), float(turn))
            order = weights.argsort()  # two at once
            weights[order].sum()

    # On a busy machine the first few may pass for less.
    assert 0.1 * TURNS < watched(body).steps < 1.05 * TURNS


def test_a_loop_that_makes_one_tensor_a_turn() -> None:
    made = Filter()

    def body() -> None:
        for _ in range(SHORT_TURNS):
            made.estimates.append(torch.empty(4))

    report = watched(body)
    assert [f.verdict for f in report.findings] == ["leak"]
    assert 0.5 * SHORT_TURNS < report.steps < SHORT_TURNS


def test_arrays_alone() -> None:
    made = Filter()

    def body() -> None:
        for turn in range(SHORT_TURNS):
            scaled = np.full(150, float(turn))
            made.estimates.append(scaled * 2)

    report = watched(body)
    assert [f.verdict for f in report.findings] == ["leak"]
    assert report.step_kind == "loop turn"


#: Where a script goes on after its loop.
USES = {
    "all": ("torch.stack(field.history).sum()", "growing", "info"),
    "a few": ("field.history[-10:]", "growing", "info"),
    "given away": ("torch.save(field.history, os.devnull)", "growing", "info"),
    "its length": ("len(field.history)", "leak", "critical"),
    "one": ("field.history[0].sum()", "leak", "critical"),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_used_as_a_whole_may_be_what_it_is_for(
    tmp_path: Path, use: str
) -> None:
    code, verdict, severity = USES[use]
    text = textwrap.dedent(PREPARES).replace("# used", f"print({code})")
    _line, report = warm.watched(tmp_path, f"import os\n{text}")
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] == "main().field.history"
    assert (finding["verdict"], finding["severity"]) == (verdict, severity)


#: What its reader does not read: frames, and what slices are slices of.
BEHIND = """
    import time
    import torch

    class Intake:
        def __init__(self):
            self.kept = []

        def check(self, rows):
            if rows.sum() != 0:
                raise ValueError("not centred")

        def take(self, number):
            rows = torch.randn(4000)
            {how}

    def main():
        intake = Intake()
        for number in range(400):
            intake.take(number)
            time.sleep(0.004)
        print(len([id(one) for one in intake.kept]))

    main()
"""
ERRORS = """try:
                self.check(rows)
            except ValueError as error:
                self.kept.append(error)"""


@pytest.mark.parametrize("how", [ERRORS, "self.kept.append(rows[:4])"])
def test_what_is_kept_behind_what_is_used(tmp_path: Path, how: str) -> None:
    text = textwrap.dedent(BEHIND.format(how=how))
    _line, report = warm.watched(tmp_path, text)
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] == "main().intake.kept"
    assert finding["verdict"] == "leak"


def test_a_loop_that_keeps_nothing_is_quiet() -> None:
    def body() -> None:
        state = torch.zeros(64)
        for _ in range(TURNS):
            state = state * 0.5 + torch.ones(64)

    report = watched(body)
    assert not report.findings
    assert report.steps > TURNS / 10


@pytest.mark.parametrize("kind", ["backward", "module call", "manual"])
def test_a_stronger_kind_ends_the_counting(kind: str) -> None:
    model = torch.nn.Linear(4, 4)

    def step(arbiter: impactarbiter.Arbiter) -> None:
        if kind == "manual":
            arbiter.step()
            return
        result = model(torch.ones(4))
        if kind == "backward":
            result.sum().backward()

    with impactarbiter.watch() as arbiter:
        for turn in range(TURNS):
            torch.full((64,), float(turn)).argsort()
        for _ in range(20):
            step(arbiter)
        # What the turns prepared is no part of the curve.
        assert ledger.curves().points["tick"][0] > 1
    report = arbiter.stop()
    assert report.step_kind == kind
    assert report.steps == 20


def test_by_hand_alone_where_that_was_asked_for() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        for turn in range(TURNS):
            torch.full((64,), float(turn)).argsort()
    assert arbiter.stop().steps == 0


@pytest.mark.parametrize("comes", [True, False])
def test_of_a_worker_that_the_main_thread_waits_for(comes: bool) -> None:
    """Who waits for a lock comes for nothing meanwhile."""
    made = Filter()

    def work() -> None:
        for turn in range(TURNS):
            made.update(torch.full((64,), float(turn)))

    def wait() -> None:
        worker = threading.Thread(target=work)
        worker.start()
        while comes and worker.is_alive():
            worker.join(0.001)
        worker.join()

    assert [f.verdict for f in watched(wait).findings] == ["leak"]


#: The list on a stack that nothing shows; and a preparation, whose turns are
#: over in no time, before a loop whose turns are what a user would count.
PREPARES = """
    import time
    import torch

    class Field:
        def __init__(self):
            self.history = []
            self.now = torch.zeros(2000)

        def advance(self):
            self.now = torch.roll(self.now, 1) * 0.5 + sources[0]
            self.history.append(self.now.clone())

    def main():
        field = Field()
        for _ in range(400):
            field.advance()
            time.sleep(0.004)
        # used

    sources = [torch.full((2000,), float(i)) for i in range(2000)]
    main()
"""


def test_what_is_prepared_is_no_leak(tmp_path: Path) -> None:
    """And a holder is found while there is somebody who has it."""
    line, report = warm.watched(tmp_path, textwrap.dedent(PREPARES))
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] == "main().field.history"
    assert finding["grown_at"]["line"] == 12
    assert "field.history" in line
    assert not report["taken_back"]


#: All at a module's top level, whose variables last.
BUCKETS = """
    import torch

    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    buckets = [[] for _ in range(12)]
    for step in range(200):
        for turn in range(2):
            bucket = buckets[(5 * step + turn) % 12]
            bucket.append(torch.ones(64))
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
"""


def test_what_a_loop_of_a_module_sets_is_no_second_holder(
    tmp_path: Path,
) -> None:
    _line, report = warm.watched(tmp_path, textwrap.dedent(BUCKETS))
    (finding,) = report["findings"]
    assert finding["holder"]["expression"].startswith("__main__.buckets[")
    assert finding["holder"]["alike"] == 12


#: A thread takes one of three, and goes on when the main one has ended.
BACKLOG = """
    import queue
    import threading
    import torch

    class Writer:
        def __init__(self):
            self.inbox = queue.Queue()
            self.slots = threading.Semaphore(0)
            self.done = threading.Semaphore(0)
            threading.Thread(target=self.work, daemon=True).start()

        def submit(self, step, values):
            self.inbox.put((step, values))
            if step % 3 == 0:
                self.slots.release()
                self.done.acquire()

        def work(self):
            while True:
                self.slots.acquire()
                self.inbox.get()
                self.done.release()

    def main():
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        writer = Writer()
        for step in range(1, 301):
            values = model(torch.ones(64, 8))
            values.sum().backward()
            optimizer.step()
            writer.submit(step, values.detach())

    main()
"""


def test_what_a_call_had_until_the_end_goes_by_its_name(
    tmp_path: Path,
) -> None:
    """Though it has returned, and a thread's call leads there still."""
    _line, report = warm.watched(tmp_path, textwrap.dedent(BACKLOG))
    (finding,) = report["findings"]
    assert finding["rule"] == "outgrows"
    expression = finding["holder"]["expression"]
    assert expression == "main().writer.inbox.queue"


def test_reports_make_no_turns() -> None:
    """The arrays that they take their figures from are none of the loop's."""
    with impactarbiter.watch() as arbiter:
        made = Filter()
        for turn in range(10 * TURNS):
            made.update(torch.full((64,), float(turn)))
        before = ledger.status().ticks
        for _ in range(5):
            arbiter.report()
            arbiter.glance()
        assert ledger.status().ticks == before > 0
