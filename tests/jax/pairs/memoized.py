"""A table is memoized by a key that never comes again."""

import sys
from functools import lru_cache

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@lru_cache(maxsize=None if LEAKY else 4)
def positions(length):
    return jnp.arange(length * 4.0).reshape(-1, 4)  # holder: positions


@jax.jit
def attend(q, table):
    return jnp.sum(q @ table.T)


def main():
    total = 0.0
    for i in range(70):
        table = positions(64 + i)[:64]
        total += float(attend(jnp.ones((2, 4)), table))
    print(total)


main()
