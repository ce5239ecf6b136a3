"""A callback keeps the whole model whenever it got better, for ever."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@eqx.filter_jit
def step(model, x):
    grads = eqx.filter_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(model)
    return eqx.apply_updates(
        model, jax.tree.map(lambda g: None if g is None else -0.01 * g, grads)
    )


class Best:
    def __init__(self):
        self.models = {}

    def __call__(self, i, model):
        if not LEAKY:
            self.models.clear()
        self.models[i] = model  # holder: best.models


best = Best()
model = eqx.nn.MLP(4, 1, 16, 1, key=jax.random.key(0))
for i in range(60):
    model = step(model, jnp.full((8, 4), 1.0 + 0.01 * i))
    best(i, model)
print(len(best.models))
