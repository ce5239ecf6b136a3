"""A step number is a static argument: each step is compiled anew."""

import sys
from functools import partial

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@partial(jax.jit, static_argnames="n")  # warned: static argument `n`
def leaky_step(x, n):
    return x * (1 - 0.001 * n)


@jax.jit
def fixed_step(x, n):
    return x * (1 - 0.001 * n)


def main():
    x = jnp.ones((8, 8))
    for n in range(40):
        if LEAKY:
            x = leaky_step(x, n)  # warned: static argument `n`
        else:
            x = fixed_step(x, n)
    print(float(x.sum()))


main()
