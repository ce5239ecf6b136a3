"""Optimizer states are kept for rolling back, all of them."""

import sys

import jax
import jax.numpy as jnp
import optax

LEAKY = sys.argv[1] == "leaky"
tx = optax.adam(1e-2)
rollback = []


@jax.jit
def step(params, state, x):
    grads = jax.grad(lambda p: jnp.mean((x @ p) ** 2))(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state


def main():
    params = jnp.ones((20, 20))
    state = tx.init(params)
    for i in range(80):
        params, state = step(params, state, jnp.full((4, 20), 0.01 * i))
        rollback.append((params, state))  # holder: __main__.rollback
        if not LEAKY and len(rollback) > 4:
            del rollback[0]
    print(float(params.sum()))


main()
