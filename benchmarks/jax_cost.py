"""What watching costs a JAX program: interleaved pairs, with and without.

    build/check-jax/bin/python benchmarks/jax_cost.py [PAIRS]

What is printed, framework_pairs.py says.
"""

from __future__ import annotations

from collections.abc import Callable

import framework_pairs
import jax
import jax.numpy as jnp
import numpy as np


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
    "a small jitted call": (small_call, 2000),
    "a training step, 8 layers": (training, 100),
    "two eager operations": (eager, 1000),
}


if __name__ == "__main__":
    framework_pairs.main(LOOPS)
