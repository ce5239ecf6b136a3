"""A TrainState of flax with batch statistics."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(32)(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        return nn.Dense(1)(nn.relu(x))


class State(train_state.TrainState):
    batch_stats: dict


@jax.jit
def step(state, x, y):
    def loss(params):
        out, new = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            x,
            train=True,
            mutable=["batch_stats"],
        )
        return jnp.mean((out - y) ** 2), new

    (value, new), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state.replace(batch_stats=new["batch_stats"]), value


def main():
    net, key = Net(), jax.random.key(0)
    variables = net.init(key, jnp.ones((1, 8)), train=False)
    state = State.create(
        apply_fn=net.apply,
        params=variables["params"],
        tx=optax.adam(1e-3),
        batch_stats=variables["batch_stats"],
    )
    for _ in range(120):
        key, sub = jax.random.split(key)
        x = jax.random.normal(sub, (16, 8))
        state, value = step(state, x, x.sum(1, keepdims=True))
    print(float(value))


main()
