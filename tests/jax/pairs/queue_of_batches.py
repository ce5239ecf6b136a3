"""A loader puts batches into a queue faster than they are taken out."""

import queue
import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)


def main():
    batches = queue.Queue()
    key = jax.random.key(0)
    w = jnp.ones((32, 4))
    for _ in range(80):
        for _ in range(2 if LEAKY else 1):
            key, sub = jax.random.split(key)
            batches.put(jax.random.normal(sub, (16, 32)))  # holder: .queue
        w = step(w, batches.get())
    print(batches.qsize(), float(w.sum()))
    return batches


left = main()
