"""Every version of the weights is kept."""

import sys
from collections import deque

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@jax.jit
def step(params, x, y):
    def loss(p):
        h = jnp.tanh(x @ p["w1"] + p["b1"])
        return jnp.mean((h @ p["w2"] - y) ** 2)

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


class Trainer:
    def __init__(self):
        self.params = {
            "w1": jnp.ones((16, 32)) * 0.1,
            "b1": jnp.zeros(32),
            "w2": jnp.ones((32, 1)) * 0.1,
        }
        self.versions = [] if LEAKY else deque(maxlen=3)

    def train(self, key):
        for _ in range(100):
            key, sub = jax.random.split(key)
            x = jax.random.normal(sub, (8, 16))
            self.params = step(self.params, x, x.sum(1, keepdims=True))
            self.versions.append(self.params)  # holder: trainer.versions


trainer = Trainer()
trainer.train(jax.random.key(0))
print(len(trainer.versions))
