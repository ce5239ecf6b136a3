"""A loop of flax.nnx with its optimizer and metrics."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(self.drop(nnx.relu(self.first(x))))


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return jnp.mean((model(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def main():
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    key = jax.random.key(1)
    for _ in range(80):
        key, sub = jax.random.split(key)
        x = jax.random.normal(sub, (8, 8))
        value = step(model, optimizer, x, x.sum(1, keepdims=True))
    print(float(value))


main()
