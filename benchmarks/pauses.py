"""How long the program waits: at a boundary, at a look that visits, at a walk.

The first two are compared with the same in a program of which little is alive,
so that a ratio near 1 says that the pause does not grow with what there is; a
near walk with one of the whole heap.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable

import torch
from pairs import Row, compare
from torch import nn

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import heap

LINES = 10_000
BLOCKS = 100  # of each line


def lines(count: int) -> Callable[[int], None]:
    """A function that allocates at so many lines, one block in each."""
    body = "\n".join(f"    born(base + {i * 64}, 64)" for i in range(count))
    names = {"born": _core._born}
    exec(f"def fill(base):\n{body}\n", names)
    fill: Callable[[int], None] = names["fill"]
    return fill


def median_step(count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        _core.step()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def boundary(rounds: int) -> Row:
    """Nothing is suspect; all was born before the warm-up was over."""
    fill = lines(LINES)

    def alive(blocks: int) -> float:
        _core.start(manual=True)
        for n in range(blocks):
            fill((n + 1) << 32)
        for _ in range(20):
            _core.step()
        took = median_step(200)
        _core.stop()
        return took

    return compare(
        "boundary, 1 M blocks of 10,000 lines",
        lambda: alive(0),
        lambda: alive(BLOCKS),
        rounds,
    )


def visits(rounds: int) -> Row:
    """A list of losses is known, and visited: no walk is made."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: list[object] = []
    took: list[float] = []
    arbiter = impactarbiter.watch()
    looks = arbiter._diagnostician
    walk, look = looks._walks.walk, looks._look
    walked = []

    def counted(*args: object, **more: object) -> object:
        walked.append(1)
        return walk(*args, **more)

    def timed(tick: int) -> None:
        before, began = len(walked), time.perf_counter()
        look(tick)
        if len(walked) == before:
            took.append(time.perf_counter() - began)

    looks._walks.walk, looks._look = counted, timed

    def steps(keep: bool) -> float:
        took.clear()
        while len(took) < 5:
            loss = model(torch.randn(2, 4)).sum()
            loss.backward()
            optimizer.step()
            if keep:
                kept.append(loss)
        return statistics.median(took)

    for _ in range(8):
        steps(True)
    try:
        return compare(
            "look that visits a list, still and growing",
            lambda: steps(False),
            lambda: steps(True),
            rounds,
        )
    finally:
        arbiter.stop()


def finds(rounds: int) -> Row:
    """A list of losses is found, and measured, in the heap of a program that
    has loaded two large libraries."""
    importlib.import_module("lightning")
    importlib.import_module("transformers.trainer")
    model = nn.Linear(4, 4)
    kept = []
    with impactarbiter.watch(step="manual"):
        for _ in range(50):
            kept.append(model(torch.randn(2, 4)).sum())
            _core.step()
        lines = {int(site) for site in _core.rows()["site"]}

        def took(near: bool) -> float:
            began = time.perf_counter()
            walk = heap.walk(lines, near=near)
            ended = time.perf_counter()
            if walk.near != near or walk.holders[0].length != len(kept):
                raise RuntimeError("not the walk that was to be measured")
            return ended - began

        return compare(
            "walk that finds a list, near / whole; lightning, transformers",
            lambda: took(False),
            lambda: took(True),
            rounds,
        )


def run(effort: float) -> list[Row]:
    rounds = max(int(8 * effort), 4)
    return [boundary(rounds), visits(rounds), finds(rounds)]
