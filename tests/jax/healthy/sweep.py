"""Trials of a dozen settings: each is compiled once, and serves many steps."""

from functools import partial

import jax
import jax.numpy as jnp

SETTINGS = range(1, 13)


@partial(jax.jit, static_argnames="depth")
def descend(w, depth):
    for _ in range(depth):
        w = w - 0.01 * w
    return w


def sgd(rate):
    """Compiled anew for each trial."""

    @jax.jit
    def step(w):
        return w - rate * w

    return step


def main():
    w = jnp.ones(16)
    for _ in range(4):
        for depth in SETTINGS:
            w = descend(w, depth)
    for rate in SETTINGS:
        step = sgd(rate / 1000)
        for _ in range(20):
            w = step(w)
    print(float(w.sum()))


main()
