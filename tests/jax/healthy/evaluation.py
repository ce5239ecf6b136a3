"""Training with an evaluation now and then, whose results are averaged."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)


@jax.jit
def eval_step(w, x):
    return jnp.mean((x @ w) ** 2, axis=1)


def evaluate(w, batches):
    outs = []
    for x in batches:
        outs.append(eval_step(w, x))
    return float(jnp.concatenate(outs).mean())


def main():
    rng = np.random.default_rng(0)
    held_out = [rng.normal(size=(8, 16)).astype("float32") for _ in range(20)]
    w = jnp.ones((16, 4))
    for epoch in range(6):
        for _ in range(30):
            w = train_step(w, rng.normal(size=(8, 16)).astype("float32"))
        print(epoch, evaluate(w, held_out))


main()
