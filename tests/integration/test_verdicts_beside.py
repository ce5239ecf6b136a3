"""Verdicts where reports are made while the training goes on: by another
thread, or in the middle of a step."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter.core import heap, wire

#: Steps before the first report, and while one is made.
STEPS = 40
BETWEEN = 9
REPORTS = 7

pytestmark = pytest.mark.usefixtures("quiet")


class Training:
    """A loop that keeps every loss, with a graph that backward has freed."""

    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.randn(64, 64))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.01)
        self.history: list[torch.Tensor] = []

    def run(
        self,
        steps: int,
        asks: Callable[[], object] = lambda: None,
        every: int = 1,
    ) -> None:
        """So many steps, of which some ask between forward and backward."""
        for step in range(1, steps + 1):
            batch = torch.randn(64, 64)
            loss = (self.weight * batch).tanh().square().mean()
            self.history.append(loss)
            if step % every == 0:
                asks()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def run_beside(self, steps: int) -> None:
        """Another thread has the interpreter for so many steps."""
        thread = Thread(target=self.run, args=(steps,))
        thread.start()
        thread.join()


@pytest.mark.parametrize("when", ["before the walk", "after the walk"])
def test_a_training_goes_on_beside_a_report(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between what a report asks the clock, its walk and its visits.
    training = Training()
    walk = heap.walk

    def slow(*asked: Any, **options: Any) -> wire.Walk:
        if when == "before the walk":
            training.run_beside(BETWEEN)
        found = walk(*asked, **options)
        if when == "after the walk":
            training.run_beside(BETWEEN)
        return found

    arbiter = impactarbiter.watch()
    training.run(STEPS)
    assert [f.verdict for f in arbiter.report().findings] == ["leak"]
    with monkeypatch.context() as patched:
        patched.setattr(heap, "walk", slow)
        for _ in range(REPORTS):
            arbiter.report()
            training.run(1)
    training.run(BETWEEN)
    (finding,) = arbiter.report().findings
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")


@pytest.mark.parametrize("every", [1, 3])
def test_reports_in_the_middle_of_steps(every: int) -> None:
    # What a step's graph has saved is alive then, and goes with the backward.
    training = Training()
    arbiter = impactarbiter.watch()
    training.run(STEPS // 2)
    arbiter.report()
    training.run(8 * every, arbiter.report, every)
    training.run(3)
    (finding,) = arbiter.report().findings
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")
    assert finding.bytes_per_step == pytest.approx(4.0, rel=0.5)
    assert finding.retained_bytes == 4 * len(training.history)


def test_a_report_keeps_nothing_of_the_step_that_asked() -> None:
    kept: list[torch.Tensor] = []
    asked: list[weakref.ref[torch.Tensor]] = []

    def step(*, asks: bool = False) -> None:
        value = torch.randn(64)
        kept.append(value + 1)
        if asks:
            report = arbiter.report()
            assert report.findings[0].patch_note
            asked.append(weakref.ref(value))
        arbiter.step()

    arbiter = impactarbiter.watch(step="manual")
    for _ in range(STEPS):
        step()
    gc.collect()
    gc.disable()
    try:
        step(asks=True)
        assert asked[0]() is None
    finally:
        gc.enable()
