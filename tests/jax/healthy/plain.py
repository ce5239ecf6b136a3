"""A plain loop with stochastic gradient descent."""

import jax
import jax.numpy as jnp


@jax.jit
def step(w, x, y):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.1 * grad, loss


def main():
    key = jax.random.key(0)
    w = jnp.zeros((16, 1))
    for i in range(150):
        key, a = jax.random.split(key)
        x = jax.random.normal(a, (32, 16))
        w, loss = step(w, x, x.sum(1, keepdims=True))
        if i % 50 == 0:
            print(i, float(loss))


main()
