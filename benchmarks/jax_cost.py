"""What watching costs a JAX program: interleaved pairs, with and without.

    build/check-jax/bin/python -P benchmarks/jax_cost.py [PAIRS]

A pair is the same loop run twice in one process, once watched, in turn which
comes first.  Printed is the median ratio of the pairs with its quartiles, and
the median time of a step without.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import impactarbiter


@jax.jit
def small(x):
    return x * 1.0001


@jax.jit
def train(params, x):
    def loss(p):
        h = x
        for w in p:
            h = jnp.tanh(h @ w)
        return jnp.mean(h**2)

    return jax.tree.map(
        lambda p, g: p - 0.01 * g, params, jax.grad(loss)(params)
    )


def small_call(count: int) -> None:
    x = jnp.ones(8)
    for _ in range(count):
        x = small(x)
    x.block_until_ready()


def training(count: int) -> None:
    params = [jnp.full((128, 128), 0.01) for _ in range(8)]
    batch = np.ones((32, 128), np.float32)
    for _ in range(count):
        params = train(params, batch)
    jax.block_until_ready(params)


def eager(count: int) -> None:
    x = jnp.ones((16, 16))
    for _ in range(count):
        x = jnp.sin(x) + 1.0
    x.block_until_ready()


#: Name -> (loop, steps of one run).
LOOPS: dict[str, tuple[Callable[[int], None], int]] = {
    "a small jitted call": (small_call, 4000),
    "a training step, 8 layers": (training, 300),
    "two eager operations": (eager, 2000),
}


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


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for name, (loop, count) in LOOPS.items():
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


if __name__ == "__main__":
    main()
