"""A training step with and without ``watch()``, in one process.

The hooks go in and out between the blocks of steps; neither that nor the
report of ``stop()`` is timed.  Each has two rows.  The mean has all in it that
falls into a block, walks too, and all that the machine does besides.  The
fastest tenth is what a step takes where nothing comes between: others on the
machine only ever add to it.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from pairs import Row, compare_each
from torch import nn

import impactarbiter

Step = Callable[[], object]


def transformer() -> Step:
    """12 layers, about 40 ms a step on one core."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(4, 32, 128)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def tiny_mlp() -> Step:
    """The least that is still a training step: about 0.1 ms."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch, target = torch.randn(4, 8), torch.randn(4, 1)
    loss_of = nn.MSELoss()

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model(batch), target).backward()
        optimizer.step()

    return step


def smallest_op() -> Step:
    """a + a on four floats: one tensor is born and one dies."""
    a = torch.randn(4)

    def step() -> None:
        a + a

    return step


def small_array() -> Step:
    """np.empty(4): no block that is accounted for."""

    def step() -> None:
        np.empty(4)

    return step


def array_add() -> Step:
    """a + a on 32 KB: one array is born and one dies."""
    a = np.ones(4096)

    def step() -> None:
        a + a

    return step


def pipeline() -> Step:
    """A batch is cut, scaled and stacked in NumPy, then trained on: some 130
    arrays a step that are accounted for, about 10 ms."""
    images = np.random.default_rng(0).integers(
        0, 256, (64, 3, 36, 36), dtype=np.uint8
    )
    mean = np.full((3, 1, 1), 127.5, dtype=np.float32)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        rows = [
            (image[:, 2:34, 2:34].astype(np.float32) - mean) / 127.5
            for image in images
        ]
        batch = torch.from_numpy(np.stack(rows))
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def timed(step: Step, count: int) -> float:
    for _ in range(max(count // 5, 5)):
        step()
    gc.collect()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


#: Steps are timed in pieces, so that reading the clock is no part of it.
LEAST_PIECE = 20e-6


def pieces(
    step: Step, count: int, size: int, settle: Step = lambda: None
) -> tuple[float, float]:
    """Seconds of a step: the mean, and that of the fastest tenth.  ``settle``
    waits for what the steps of a piece have begun on a device."""
    for _ in range(max(count // 5, 5)):
        step()
    gc.collect()
    settle()
    took = []
    for _ in range(max(count // size, 1)):
        start = time.perf_counter()
        for _ in range(size):
            step()
        settle()
        took.append((time.perf_counter() - start) / size)
    return statistics.fmean(took), sorted(took)[len(took) // 10]


def pieces_with(
    step: Step, count: int, size: int, settle: Step = lambda: None
) -> tuple[float, float]:
    arbiter = impactarbiter.watch()
    try:
        return pieces(step, count, size, settle)
    finally:
        arbiter.stop()


def rows(
    name: str,
    step: Step,
    count: int,
    rounds: int,
    goal: float | None = None,
    measure: Callable[[Step, int, int], tuple[float, float]] = pieces_with,
) -> list[Row]:
    size = max(round(LEAST_PIECE / timed(step, 3 * count)), 1)
    return compare_each(
        {name: None, f"{name}, fastest tenth": goal},
        lambda: pieces(step, count, size),
        lambda: measure(step, count, size),
        rounds,
    )


def noise(name: str, step: Step, count: int, rounds: int) -> list[Row]:
    """The same on both sides: what a ratio of nothing looks like here."""
    return rows(name, step, count, rounds, measure=pieces)


def run_transformer(effort: float) -> list[Row]:
    torch.set_num_threads(1)
    rounds = max(int(40 * effort), 4)
    step = transformer()
    return [
        *noise("transformer step, nothing added", step, 10, rounds // 2),
        *rows("transformer step", step, 10, rounds, goal=1.01),
    ]


def run_tiny_mlp(effort: float) -> list[Row]:
    torch.set_num_threads(1)
    rounds = max(int(120 * effort), 4)
    step = tiny_mlp()
    return [
        *noise("tiny MLP step, nothing added", step, 200, rounds // 2),
        *rows("tiny MLP step", step, 200, rounds, goal=1.03),
    ]


def run_pipeline(effort: float) -> list[Row]:
    torch.set_num_threads(1)
    rounds = max(int(60 * effort), 4)
    step = pipeline()
    return [
        *noise("NumPy pipeline's step, nothing added", step, 20, rounds // 2),
        *rows("NumPy pipeline's step", step, 20, rounds, goal=1.01),
    ]


def run_smallest_op(effort: float) -> list[Row]:
    torch.set_num_threads(1)
    rounds = max(int(120 * effort), 4)
    return rows("a + a on 4 floats", smallest_op(), 20000, rounds, goal=1.05)


def run_arrays(effort: float) -> list[Row]:
    rounds = max(int(120 * effort), 4)
    return [
        *rows("np.empty(4)", small_array(), 20000, rounds, goal=1.05),
        *rows("a + a on 32 KB of NumPy", array_add(), 4000, rounds),
    ]
