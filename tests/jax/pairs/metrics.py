"""A dict of metrics gets a key for each step and is never written out."""

import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


@jax.jit
def evaluate(w, x):
    logits = x @ w
    return {"logits": logits, "norm": jnp.linalg.norm(logits)}


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)


def run(metrics):
    w = jnp.ones((24, 4))
    for i in range(90):
        x = jnp.full((10, 24), 0.001 * i)
        w = train_step(w, x)
        out = evaluate(w, x)
        if LEAKY:
            metrics[f"step {i}"] = out  # holder: .metrics
        else:
            metrics["last"] = out
    return w


metrics = {}
print(float(run(metrics).sum()))
