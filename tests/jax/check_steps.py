"""What ends a step: a call of the program's function, wrapped or not."""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.optimize
import numpy as np
import pytest
from jax._src.interpreters import ad
from jax.experimental.ode import odeint
from jax.sharding import NamedSharding, PartitionSpec

import impactarbiter

MESH = jax.make_mesh((2,), ("rows",))
ROWS = PartitionSpec("rows")
STEPS = 5
#: No array of JAX's: other tests of this process count those.
ONES = np.ones((2, 8), "float32")


def double(x):
    return x * 2


def total(x):
    return (x * x).sum()


class Model:
    def __call__(self, x):
        return x - 1

    def method(self, x):
        return x + 1


def custom_vjp():
    function = jax.custom_vjp(lambda x: x * 3)
    function.defvjp(lambda x: (x * 3, None), lambda _, g: (g * 3,))
    return function


def steps_of(make: Callable[[], Any], name: str) -> int:
    x = jnp.ones((2, 8))
    if name == "shard_map":
        x = jax.device_put(x, NamedSharding(MESH, ROWS))
    with impactarbiter.watch() as arbiter:
        function = make()
        for _ in range(STEPS):
            function(x)
        return arbiter.report().steps


shard_map = partial(jax.shard_map, mesh=MESH, in_specs=ROWS, out_specs=ROWS)
PROGRAMS = {
    "jit": lambda: jax.jit(double),
    "jit of jit": lambda: jax.jit(jax.jit(double)),
    "pmap": lambda: jax.pmap(double),
    "pmap of grad": lambda: jax.pmap(jax.grad(total)),
    "pmap, static": lambda: partial(
        jax.pmap(lambda n, x: n * x, static_broadcasted_argnums=0), 3
    ),
    "shard_map": lambda: jax.jit(shard_map(double)),
    "value_and_grad": lambda: jax.jit(jax.value_and_grad(total)),
    "hessian": lambda: jax.jit(jax.hessian(total)),
    "vmap of grad": lambda: jax.jit(jax.vmap(jax.grad(total))),
    "checkpoint": lambda: jax.jit(jax.checkpoint(double)),
    "custom_vjp": lambda: jax.jit(custom_vjp()),
    "partial": lambda: jax.jit(partial(jax.value_and_grad(total))),
    "Partial": lambda: jax.jit(jax.tree_util.Partial(double)),
    "method": lambda: jax.jit(jax.vmap(Model().method)),
    "of linear_transpose": lambda: jax.jit(
        lambda x: jax.linear_transpose(double, ONES)(x)
    ),
    "object": lambda: jax.jit(jax.vmap(Model())),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_programs_function_ends_steps(name: str) -> None:
    assert steps_of(PROGRAMS[name], name) == STEPS


def one_of_each():
    """A training function, one that calls it, what they call, and others."""

    @jax.jit
    def loss(w, x):
        return jnp.mean((x * w) ** 2)

    @jax.jit
    def train(w, x):
        return w - 0.1 * jax.grad(loss)(w, x)

    @jax.jit
    def evaluate(w, x):
        return (x * w).sum(axis=1)

    @jax.jit
    def both(w, x):
        w = train(w, x)
        return w, evaluate(w, x)

    return loss, train, evaluate, both


#: Which are called, and how many steps of which kind that makes.
TRAINING = {
    "train": ((1,), (5, "backward")),
    "evaluation first": ((2, 1), (5, "backward")),
    "evaluation after": ((1, 2, 0), (5, "backward")),
    "within another": ((3,), (5, "backward")),
    "traced before": ((1, 3), (10, "backward")),
    "what it calls": ((3, 2, 0), (5, "backward")),
    "evaluation alone": ((0, 2), (10, "compiled call")),
}


@pytest.mark.parametrize("name", TRAINING)
def test_what_takes_gradients_makes_steps(name: str) -> None:
    numbers, expected = TRAINING[name]
    w, x = jnp.ones(8), jnp.ones((2, 8))
    with impactarbiter.watch() as arbiter:
        functions = one_of_each()
        for number in numbers:
            for _ in range(STEPS):
                functions[number](w, x)
        report = arbiter.report()
    assert (report.steps, report.step_kind) == expected


def test_an_evaluation_at_the_end_is_no_time() -> None:
    w, x = jnp.ones(8), jnp.ones((2, 8))
    with impactarbiter.watch() as arbiter:
        _, train, evaluate, _ = one_of_each()
        for _ in range(80):
            train(w, x)
        for _ in range(120):
            evaluate(w, x)
        report = arbiter.report()
    assert (report.steps, report.step_kind) == (80, "backward")


def test_gradients_of_no_compiled_function_are_nobodys() -> None:
    w, x = jnp.ones(8), jnp.ones((2, 8))
    with impactarbiter.watch() as arbiter:
        evaluate = one_of_each()[2]
        for _ in range(STEPS):
            jax.grad(lambda w, x: (w * x).sum())(w, x)
            evaluate(w, x)
        report = arbiter.report()
    assert (report.steps, report.step_kind) == (STEPS, "compiled call")


def test_what_was_found_to_train_stays_known() -> None:
    w, x = jnp.ones(8), jnp.ones((2, 8))
    with impactarbiter.watch():
        _, train, evaluate, _ = one_of_each()
        train(w, x)
    backward = vars(ad)["backward_pass"]
    assert type(backward).__name__ == "function"
    with impactarbiter.watch() as arbiter:
        for _ in range(STEPS):
            train(w, x)
            evaluate(w, x)
        report = arbiter.report()
    assert (report.steps, report.step_kind) == (STEPS, "backward")


def test_what_the_program_raises_in_a_gradient_has_no_frame_of_ours() -> None:
    @jax.custom_vjp
    def broken(x):
        return x.sum()

    def backward(_, g):
        raise KeyError("the program's")

    broken.defvjp(lambda x: (x.sum(), None), backward)
    with impactarbiter.watch(), pytest.raises(KeyError) as raised:
        jax.jit(jax.grad(broken))(jnp.ones(4))
    files = [entry.path for entry in raised.traceback]
    assert not [file for file in files if "impactarbiter/core" in str(file)]


#: Their inner functions are the program's, but what is compiled is JAX's.
FRAMEWORKS = {
    "jit of sin": lambda: jax.jit(jnp.sin),
    "jit of a partial": lambda: jax.jit(partial(jnp.sum, axis=0)),
    "vmap": lambda: jax.vmap(double),
    "grad": lambda: jax.grad(total),
    "checkpoint": lambda: jax.checkpoint(double),
    "shard_map": lambda: shard_map(double),
    "vectorize": lambda: jnp.vectorize(lambda a: a + 1),
    "map": lambda: lambda x: jax.lax.map(double, x),
    "scan": lambda: lambda x: jax.lax.scan(lambda c, a: (c, a + 1), 0, x),
    "cond": lambda: lambda x: jax.lax.cond(True, double, double, x),
    "while": lambda: (
        lambda x: jax.lax.while_loop(lambda a: a.sum() < 1e3, double, x)
    ),
    "callback": lambda: lambda x: jax.pure_callback(lambda a: a, x, x),
    "jit of closure_convert": lambda: jax.jit(
        jax.closure_convert(double, ONES)[0]
    ),
    "jit of linear_transpose": lambda: jax.jit(
        jax.linear_transpose(double, ONES)
    ),
    "jit of linearize": lambda: jax.jit(jax.linearize(double, ONES)[1]),
    "jit of vjp": lambda: jax.jit(jax.vjp(double, ONES)[1]),
    "ode": lambda: lambda x: odeint(lambda y, _: -y, x[0], jnp.arange(3.0)),
    "minimize": lambda: (
        lambda x: jax.scipy.optimize.minimize(total, x[0], method="BFGS")
    ),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_jax_compiles_for_itself_ends_none(name: str) -> None:
    assert steps_of(FRAMEWORKS[name], name) == 0
