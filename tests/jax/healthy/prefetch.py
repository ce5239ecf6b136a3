"""A thread puts batches onto the device, two ahead."""

import queue
import threading

import jax
import jax.numpy as jnp
import numpy as np


def load(batches, count):
    rng = np.random.default_rng(0)
    for _ in range(count):
        batch = rng.normal(size=(16, 32)).astype("float32")
        batches.put(jax.device_put(batch))
    batches.put(None)


@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)


def main():
    batches = queue.Queue(maxsize=2)
    threading.Thread(target=load, args=(batches, 120)).start()
    w = jnp.ones((32, 4))
    while (x := batches.get()) is not None:
        w = step(w, x)
    print(float(w.sum()))


main()
