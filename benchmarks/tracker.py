"""Profiling and tracking a step, beside Stormlog's doing the same.

Two loops: a tiny MLP (0.18 ms a step) and a small one (2.4 ms).  Each step is
one profiled call; for the trackers the steps are plain, while a thread
samples ten times a second.  Ours counts every storage exactly, Stormlog's
CPU half reads the process's resident memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pairs import Row, compare
from steps import Step, timed, tiny_mlp
from torch import nn

import impactarbiter


def small_mlp() -> Step:
    """About 2.4 ms a step on one core."""
    model = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()
    )
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(64, 256)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


#: Opens something around a block of steps, gives the step to measure.
Around = Callable[[Step], Any]


@contextmanager
def nothing(step: Step) -> Iterator[Step]:
    yield step


@contextmanager
def our_profiler(step: Step) -> Iterator[Step]:
    with impactarbiter.GPUMemoryProfiler("cpu") as profiler:
        yield lambda: profiler.profile_function(step)


@contextmanager
def their_profiler(step: Step) -> Iterator[Step]:
    from stormlog.cpu_profiler import CPUMemoryProfiler

    profiler = CPUMemoryProfiler()
    yield lambda: profiler.profile_function(step)
    profiler.clear_results()


@contextmanager
def our_tracker(step: Step) -> Iterator[Step]:
    with impactarbiter.MemoryTracker("cpu", sampling_interval=0.1):
        yield step


@contextmanager
def our_recorder(step: Step) -> Iterator[Step]:
    import tempfile

    with (
        tempfile.TemporaryDirectory() as folder,
        impactarbiter.FlightRecorder(folder),
    ):
        yield step


@contextmanager
def watching(step: Step) -> Iterator[Step]:
    with impactarbiter.watch():
        yield step


@contextmanager
def their_tracker(step: Step) -> Iterator[Step]:
    from stormlog.cpu_profiler import CPUMemoryTracker

    tracker = CPUMemoryTracker(sampling_interval=0.1)
    tracker.start_tracking()
    try:
        yield step
    finally:
        tracker.stop_tracking()


def row(
    name: str, step: Step, base: Around, with_: Around, count: int, rounds: int
) -> Row:
    def measure(around: Around) -> float:
        with around(step) as measured:
            return timed(measured, count)

    return compare(name, lambda: measure(base), lambda: measure(with_), rounds)


def run(effort: float) -> list[Row]:
    torch.set_num_threads(1)
    rows = []
    for name, step, count, rounds in (
        ("0.18 ms step", tiny_mlp(), 400, max(int(60 * effort), 4)),
        ("2.4 ms step", small_mlp(), 60, max(int(40 * effort), 4)),
    ):
        for _ in range(count):
            step()
        for what, base, with_ in (
            ("nothing added", nothing, nothing),
            ("watch()", nothing, watching),
            ("our profile_function", nothing, our_profiler),
            ("Stormlog's profile_function", nothing, their_profiler),
            ("our tracker", nothing, our_tracker),
            ("Stormlog's tracker", nothing, their_tracker),
            ("our flight recorder, beside watch()", watching, our_recorder),
        ):
            title = f"{name}, {what}"
            rows.append(row(title, step, base, with_, count, rounds))
    return rows
