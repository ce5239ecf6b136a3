"""Interleaved pairs of a framework's loops, watched and not.

A pair is the same loop run twice in one process, once watched, in turn which
comes first.  Printed is the median ratio of the pairs with its quartiles, the
median time of a step without, and how busy the machine was.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping

import machine

import impactarbiter


def timed(loop: Callable[[int], None], count: int, watched: bool) -> float:
    if watched:
        arbiter = impactarbiter.watch()
        loop(count // 10)
    start = time.perf_counter()
    loop(count)
    took = (time.perf_counter() - start) / count
    if watched:
        arbiter.stop()
    return took


def main(loops: Mapping[str, tuple[Callable[[int], None], int]]) -> None:
    """Name -> (loop, steps of one run); how many pairs is an argument."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for name, (loop, count) in loops.items():
        timed(loop, count // 4, False)
        timed(loop, count // 4, True)
        ratios, plain = [], []
        for number in range(pairs):
            first = timed(loop, count, bool(number % 2))
            second = timed(loop, count, not number % 2)
            without, with_us = (
                (second, first) if number % 2 else (first, second)
            )
            ratios.append(with_us / without)
            plain.append(without)
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name}: {middle:.3f} ({low:.3f} to {high:.3f}) of"
            f" {statistics.median(plain) * 1e6:.1f} us"
        )
    print(machine.remark(machine.describe()))
