"""Arrays are deleted by hand; their objects are kept."""

import jax
import jax.numpy as jnp

seen = []


@jax.jit
def step(x):
    return jnp.sin(x) + 1


x = jnp.ones((32, 32))
for _ in range(100):
    y = step(x)
    seen.append(x)
    x.delete()
    x = y
print(len(seen))
