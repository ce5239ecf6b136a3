"""Gradients are accumulated over four batches."""

import jax
import jax.numpy as jnp
import optax

tx = optax.MultiSteps(optax.sgd(0.1), every_k_schedule=4)


@jax.jit
def step(params, state, x):
    grads = jax.grad(lambda p: jnp.mean((x @ p) ** 2))(params)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state


def main():
    params = jnp.ones((16, 4))
    state = tx.init(params)
    pending = []
    for i in range(160):
        x = jnp.full((4, 16), 0.01 * (i % 5))
        params, state = step(params, state, x)
        pending.append(x)
        if i % 4 == 3:
            pending.clear()
    print(float(params.sum()))


main()
