"""Interleaved pairs of a framework's loops, watched and not.

A pair is the same loop run twice in one process, once watched, in turn which
comes first.  Printed is the median ratio of the pairs with its quartiles, by
the clock and by the process's own time (of all its threads), which others on
the machine disturb less; the least time of a step without and with; and how
busy the machine was.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping

import machine

import impactarbiter

#: Seconds a step, by the clock and of the process.
Took = tuple[float, float]


def timed(loop: Callable[[int], None], count: int, watched: bool) -> Took:
    if watched:
        arbiter = impactarbiter.watch()
        loop(count // 10 or 1)
    clock, own = time.perf_counter(), time.process_time()
    loop(count)
    took = (
        (time.perf_counter() - clock) / count,
        (time.process_time() - own) / count,
    )
    if watched:
        arbiter.stop()
    return took


def quartiles(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def main(loops: Mapping[str, tuple[Callable[[int], None], int]]) -> None:
    """Name -> (loop, steps of one run); how many pairs is an argument."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for name, (loop, count) in loops.items():
        timed(loop, count // 4, False)
        timed(loop, count // 4, True)
        without: list[Took] = []
        watched: list[Took] = []
        for number in range(pairs):
            for seen in (bool(number % 2), not number % 2):
                took = timed(loop, count, seen)
                (watched if seen else without).append(took)
        both = list(zip(watched, without, strict=True))
        clock, own = (
            quartiles([a[by] / b[by] for a, b in both]) for by in (0, 1)
        )
        least = " to ".join(
            f"{min(took for took, _ in side) * 1e6:.2f}"
            for side in (without, watched)
        )
        print(
            f"{name}: {clock}, own time {own}, at the least {least} us",
            flush=True,
        )
    print(machine.remark(machine.describe()))
