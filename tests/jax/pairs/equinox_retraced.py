"""Sentences of each length: equinox compiles for every one."""

import sys

import equinox
import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"
LONGEST = 64


@equinox.filter_jit  # warned: traces of attend() (equinox_retraced.py:13)
def attend(model, tokens):
    return jax.vmap(model)(tokens).mean(0)


@equinox.filter_jit
def score(model, answer):
    return model(answer).sum()


def main():
    model = equinox.nn.Linear(8, 8, key=jax.random.key(0))
    for i in range(40):
        length = 1 + i * 7 % LONGEST
        rows = length if LEAKY else LONGEST  # padded
        answer = attend(model, jnp.full((rows, 8), 0.1))
        print(length, float(score(model, answer)))


main()
