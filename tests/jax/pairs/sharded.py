"""Activations that lie on two devices are kept."""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

LEAKY = sys.argv[1] == "leaky"
mesh = jax.make_mesh((2,), ("data",))
rows = NamedSharding(mesh, PartitionSpec("data"))
activations = []


@jax.jit
def forward(w, x):
    return jnp.tanh(x @ w)


def main():
    w = jax.device_put(
        jnp.ones((16, 16)), NamedSharding(mesh, PartitionSpec())
    )
    for i in range(60):
        x = jax.device_put(jnp.full((8, 16), 0.01 * i), rows)
        h = forward(w, x)
        if LEAKY:
            activations.append(h)  # holder: activations
        else:
            activations[:] = [h]
    print(len(activations))


main()
