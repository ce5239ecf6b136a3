"""Histograms are written by a pool of threads; its futures are kept."""

import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

LEAKY = sys.argv[1] == "leaky"


@jax.jit
def step(params, x):
    def loss(p):
        return jnp.mean((jnp.tanh(x @ p) - 0.3) ** 2)

    value, grad = jax.value_and_grad(loss)(params)
    return params - 0.1 * grad, grad, value


class Writer:
    def __init__(self):
        self.pool = ThreadPoolExecutor(2)
        self.pending = []
        self.written = 0

    def histogram(self, step, grad):
        task = self.pool.submit(write, step, grad)
        self.pending.append(task)  # holder: .pending
        if not LEAKY:
            while self.pending and self.pending[0].done():
                self.written += self.pending.pop(0).result()[0]

    def close(self):
        self.pool.shutdown()
        for future in self.pending:
            self.written += future.result()[0]


def write(step, grad):
    counts, edges = np.histogram(np.asarray(grad), bins=8)
    return int(counts.sum()), jnp.asarray(edges)


def main():
    writer = Writer()
    params = jnp.full((16, 16), 0.1)
    rng = np.random.default_rng(0)
    for i in range(100):
        batch = rng.normal(size=(8, 16)).astype(np.float32)
        params, grad, value = step(params, batch)
        writer.histogram(i, grad)
        float(value)
    writer.close()
    print(writer.written)


main()
