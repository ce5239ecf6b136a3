"""An exponential average of the weights, with adam and a schedule."""

import jax
import jax.numpy as jnp
import optax

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 20, 150)
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))


@jax.jit
def step(params, average, state, x):
    grads = jax.grad(lambda p: jnp.mean((x @ p["w"] + p["b"]) ** 2))(params)
    updates, state = tx.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    average = optax.incremental_update(params, average, 0.01)
    return params, average, state


def main():
    params = {"w": jnp.ones((16, 8)), "b": jnp.zeros(8)}
    average, state = params, tx.init(params)
    for i in range(150):
        x = jnp.full((8, 16), 0.01 * (i % 11))
        params, average, state = step(params, average, state, x)
    print(float(average["w"].sum()))


main()
