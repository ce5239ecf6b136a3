"""A new function is compiled in each step, and captures an array."""

import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"
compiled = []


def main():
    x = jnp.ones(64)
    total = 0.0
    if not LEAKY:
        shift = jax.jit(lambda x, offset: x + offset.sum())
    for i in range(60):
        offset = jnp.full((64, 16), float(i))
        if LEAKY:
            shift = jax.jit(lambda x, offset=offset: x + offset.sum())
            compiled.append(shift)  # holder: compiled
            y = shift(x)
        else:
            y = shift(x, offset)
        total += float(y[0])
    print(total)


main()
