"""Accelerate: the tracker, and a plain loop with nothing of ours in it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

import impactarbiter
from impactarbiter.base.errors import UsageError
from impactarbiter.model.report import Report
from impactarbiter.watching.arbiter import current

SCRIPT = Path(__file__).parents[2] / "examples/integrations/accelerate_loop.py"


@pytest.fixture(scope="module", autouse=True)
def framework() -> None:
    """Not at the collection: what that imports, all walks go through."""
    global Accelerator, AcceleratorState, LeakDetectionTracker
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    from impactarbiter.integrations.accelerate import LeakDetectionTracker


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)
    assert current() is None


def test_the_example(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )

    done = warm.run([str(SCRIPT), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert "leak: main().total keeps" in done.stderr
    report = Report.load(tmp_path / "leaks.json")
    assert report.steps == 24  # of the optimizer; 48 micro-batches
    (finding,) = report.findings
    assert finding.site.source == "total = total + loss"
    read = EventAccumulator(str(tmp_path / "run"))
    read.Reload()
    assert read.Scalars("memory/live_bytes")[0].value > 0
    assert read.Scalars("memory/findings")[-1].value == 1


def loop(accelerator: Any, kept: list[Any], steps: int = 20) -> None:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(steps):
        output = model(torch.ones(2, 8))
        accelerator.backward(output.sum())
        optimizer.step()
        optimizer.zero_grad()
        kept.append(output)
        accelerator.log({"loss": 1.0}, step=step)


def test_a_plain_loop() -> None:
    kept: list[Any] = []
    with impactarbiter.watch() as arbiter:
        loop(Accelerator(cpu=True), kept)
        report = arbiter.report()
    (finding,) = report.findings
    assert (report.steps, finding.verdict) == (20, "leak")
    assert finding.holder is not None
    assert "kept" in finding.holder.expression


@pytest.mark.parametrize("registered", [False, True])
def test_the_tracker(
    registered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tracker: Any = LeakDetectionTracker()
    if registered:
        from accelerate.tracking import register_tracker_class

        register_tracker_class(LeakDetectionTracker)
        tracker = "impactarbiter"
    accelerator = Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("run", config={"lr": 0.1})
    arbiter = current()
    found = accelerator.get_tracker("impactarbiter", unwrap=True)
    assert found is arbiter is not None
    kept: list[Any] = []
    loop(accelerator, kept)
    assert accelerator.get_tracker("impactarbiter").metrics()[
        "memory/findings"
    ]
    accelerator.end_training()
    said = [r.message for r in caplog.records if r.name == "impactarbiter"]
    assert len(said) == 2
    assert "1 leak" in said[1]


def test_a_copy_watches_nothing() -> None:
    ours = LeakDetectionTracker(every=2)
    ours.start()
    other = pickle.loads(pickle.dumps(copy.deepcopy(ours)))
    assert other._watch == {"every": 2} and other.tracker is None
    other.finish()
    assert current() is ours.tracker
    ours.finish()


def test_wrong_options() -> None:
    with pytest.raises(UsageError):
        LeakDetectionTracker(every=0)
