"""The best checkpoints are a heap; the worst was to be taken off."""

import heapq
import itertools
import sys

import jax
import jax.numpy as jnp
import optax

LEAKY = sys.argv[1] == "leaky"
KEEP = 3


class Checkpoints:
    def __init__(self):
        self._heap = []
        self._number = itertools.count()

    def offer(self, loss, params):
        entry = (-loss, next(self._number), params)
        heapq.heappush(self._heap, entry)  # holder: ._heap
        if not LEAKY and len(self._heap) > KEEP:
            heapq.heappop(self._heap)

    @property
    def best(self):
        return -max(self._heap)[0]


optimizer = optax.adam(1e-2)


def loss_of(params, x, y):
    h = jax.nn.relu(x @ params["in"])
    return jnp.mean((h @ params["out"] - y) ** 2)


@jax.jit
def train_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def main():
    key = jax.random.key(1)
    params = {
        "in": jax.random.normal(key, (8, 16)) * 0.1,
        "out": jnp.zeros((16, 1)),
    }
    state = optimizer.init(params)
    checkpoints = Checkpoints()
    for _ in range(120):
        key, now = jax.random.split(key)
        x = jax.random.normal(now, (32, 8))
        y = x.sum(1, keepdims=True)
        params, state, loss = train_step(params, state, x, y)
        checkpoints.offer(float(loss), params)
    print(round(checkpoints.best, 3))


main()
