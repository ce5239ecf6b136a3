"""Losses are kept as arrays, for a mean at the end."""

import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"
losses = []


@jax.jit
def step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    return w - 0.01 * grad, loss


def main():
    w = jnp.ones((32, 8))
    for i in range(120):
        w, loss = step(w, jnp.full((16, 32), 0.01 * i))
        if LEAKY:
            losses.append(loss)  # holder: __main__.losses
        else:
            losses.append(float(loss))
    print(float(w.sum()), len(losses))


main()
