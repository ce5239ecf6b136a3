"""The best weights so far are kept, and no others."""

import jax
import jax.numpy as jnp


@jax.jit
def step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
    return w - 0.1 * grad, loss


def main():
    best, lowest = None, float("inf")
    w = jnp.zeros((16, 2))
    for i in range(120):
        w, loss = step(w, jnp.full((4, 16), 0.01 * (1 + i % 3)))
        if float(loss) < lowest:
            best, lowest = w, float(loss)
    print(lowest, best.shape)


main()
