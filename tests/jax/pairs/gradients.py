"""Gradients are gathered for statistics and the list is not emptied."""

import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@jax.jit
def grads_of(params, x):
    return jax.grad(lambda p: jnp.mean((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2))(
        params
    )


@jax.jit
def update(params, grads):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def train(stats):
    params = {"a": jnp.ones((8, 16)), "b": jnp.ones((16, 2))}
    for i in range(90):
        grads = grads_of(params, jnp.full((4, 8), 0.01 * i))
        params = update(params, grads)
        stats.append(grads)  # holder: .stats
        if i % 10 == 9:
            print(i, float(stats[-1]["a"].sum()))
            if not LEAKY:
                stats.clear()


def main():
    stats = []
    train(stats)
    return stats


kept = main()
