"""Each call runs a hundred steps inside, and gives their losses back."""

import jax
import jax.numpy as jnp


@jax.jit
def epoch(w, xs):
    def one(w, x):
        loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 0.01 * grad, loss

    return jax.lax.scan(one, w, xs)


def main():
    w = jnp.ones((8, 8))
    curve = []
    for i in range(60):
        w, losses = epoch(w, jnp.full((100, 4, 8), 0.001 * i))
        curve.append(float(losses.mean()))
    print(len(curve), float(w.sum()))


main()
