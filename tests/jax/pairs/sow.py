"""Intermediates that flax sows are handed back in, and grow."""

import sys

import flax.linen as nn
import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(16)(x))  # holder: extra
        self.sow("intermediates", "h", h)
        return nn.Dense(1)(h)


net = Net()


@jax.jit
def loss(params, x):
    return jnp.mean(net.apply({"params": params}, x) ** 2)


def main():
    key = jax.random.key(0)
    x = jax.random.normal(key, (4, 8))
    variables = net.init(key, x)
    params, extra = variables["params"], {}
    grad = jax.jit(jax.grad(loss))
    for _ in range(40):
        grads = grad(params, x)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        given = {"params": params, **(extra if LEAKY else {})}
        _, extra = net.apply(given, x, mutable=["intermediates"])
        float(loss(params, x))
    print(len(extra["intermediates"]["h"]))


main()
