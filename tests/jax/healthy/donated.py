"""Old states stay in a list, but their memory was given to the new ones."""

from functools import partial

import jax
import jax.numpy as jnp

states = []


@partial(jax.jit, donate_argnums=0)
def step(state, x):
    return {"w": state["w"] * 0.99 + x, "n": state["n"] + 1}


state = {"w": jnp.ones((64, 64)), "n": jnp.zeros(())}
for i in range(120):
    states.append(state)
    state = step(state, jnp.full((64, 64), 0.01 * i))
print(float(state["n"]), len(states))
