"""A module of flax.nnx remembers what went through it."""

import sys

import jax
import jax.numpy as jnp
from flax import nnx

LEAKY = sys.argv[1] == "leaky"


class Probe:
    def __init__(self):
        self.seen = []

    def __call__(self, h):
        if LEAKY:
            self.seen.append(h)  # holder: probe.seen
        else:
            self.seen[:] = [h]


@nnx.jit
def step(model, x):
    def loss(model):
        return jnp.mean(model(x) ** 2)

    grads = nnx.grad(loss)(model)
    params = nnx.state(model, nnx.Param)
    new = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    nnx.update(model, new)
    return model(x)


model = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
probe = Probe()
for i in range(60):
    probe(step(model, jnp.full((4, 8), 0.1 * i)))
print(len(probe.seen))
