"""A loop of equinox, with a state of batch statistics."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def main():
    key = jax.random.key(0)
    model = eqx.nn.MLP(8, 1, 32, 2, key=key)
    tx = optax.adam(1e-3)
    state = tx.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state, x, y):
        value, grads = eqx.filter_value_and_grad(loss)(model, x, y)
        updates, state = tx.update(grads, state)
        return eqx.apply_updates(model, updates), state, value

    for _ in range(80):
        key, sub = jax.random.split(key)
        x = jax.random.normal(sub, (8, 8))
        model, state, value = step(model, state, x, x.sum(1, keepdims=True))
    print(float(value))


main()
