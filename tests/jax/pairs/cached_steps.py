"""A decaying rate is what a compiled step is cached by: each keeps a scale."""

import functools
import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@functools.cache
def make_step(rate):
    scale = jnp.full((32, 32), rate)

    @jax.jit
    def step(w, x, by):
        return w - by * scale * (x.T @ (x @ w))

    return step


w = jnp.eye(32)
x = jnp.full((4, 32), 0.01)
rate = 0.1
for _ in range(80):
    rate *= 0.99
    step = make_step(rate if LEAKY else 0.1)  # holder: make_step
    w = step(w, x, 1.0 if LEAKY else rate * 10)
print(float(w.sum()))
