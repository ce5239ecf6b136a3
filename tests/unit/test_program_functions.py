"""Whose function was compiled, read from what wrappers note."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from impactarbiter._arrays import program_function


def loss(x: object) -> object:
    """What a program has compiled."""
    return x


class Model:
    def __call__(self, x: object) -> object:
        return x

    def method(self, x: object) -> object:
        return x


def framework(source: str, name: str = "jax._src.api") -> Any:
    """What a module of a framework's has as ``made``."""
    module: dict[str, Any] = {"__name__": name, "functools": functools}
    exec(source, module)
    return module["made"]


#: As jax.value_and_grad(), jax.vmap() and jax.shard_map() are made.
transform = framework("""
def made(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper
""")
#: As jax.pmap() hands a function on to jax.jit().
mapped = framework("""
class WrappedFun:
    __slots__ = ("stores", "f")
    def __init__(self, f):
        self.f = f

def made(function):
    calls = WrappedFun(function)
    def _fun(*args):
        return calls.f(*args)
    return _fun
""")
own = framework("def made(x): return x")
#: As jaxlib's compiled functions and jax.custom_vjp: objects with a dict.
Compiled = framework("""
class made:
    def __init__(self, function):
        functools.update_wrapper(self, function)
    def __call__(self, x):
        return self.__wrapped__(x)
""")


@pytest.mark.parametrize(
    "wrapped",
    [
        loss,
        transform(loss),
        transform(transform(loss)),
        Compiled(loss),
        Compiled(transform(loss)),
        transform(mapped(loss)),
        transform(mapped(transform(loss))),
        functools.partial(loss),
        transform(functools.partial(functools.partial(loss), 1)),
        functools.partial(transform(loss)),
        functools.partial(mapped(loss)),
    ],
)
def test_a_programs_function_is_found_behind_wrappers(wrapped: object) -> None:
    assert program_function(wrapped) is loss


def test_methods_and_objects_that_are_called() -> None:
    model = Model()
    assert program_function(model.method) is Model.method
    assert program_function(transform(model.method)) is Model.method
    assert program_function(transform(model)) is model


def test_a_decorator_of_the_programs_is_passed() -> None:
    @functools.wraps(loss)
    def outer(x: object) -> object:
        return loss(x)

    assert program_function(outer) is loss
    assert program_function(transform(outer)) is loss


@pytest.mark.parametrize(
    "wrapped",
    [
        own,
        transform(own),
        Compiled(own),
        mapped(own),
        functools.partial(own),
        functools.partial(transform(own)),
        framework("def made(): pass", "optax"),
    ],
)
def test_a_frameworks_own_is_none_of_the_programs(wrapped: object) -> None:
    assert program_function(wrapped) is None


def test_a_name_that_begins_alike_is_no_framework() -> None:
    mine = framework("def made(): pass", "jaxon.train")
    assert program_function(mine) is mine


def test_what_a_program_makes_of_a_frameworks_function_is_its_own() -> None:
    @functools.wraps(own)
    def mine(x: object) -> object:
        return own(x)

    assert program_function(mine) is mine
    assert program_function(transform(mine)) is mine


def test_a_ring_of_wrappers_ends() -> None:
    one, other = transform(own), transform(own)
    one.__wrapped__, other.__wrapped__ = other, one
    assert program_function(one) is None


def test_a_slot_that_is_empty_and_a_cell_that_is() -> None:
    function = mapped(loss)
    calls = function.__closure__[0].cell_contents
    del calls.f
    assert program_function(function) is None
    del function.__closure__[0].cell_contents
    assert program_function(function) is None


def test_no_code_of_the_programs_runs() -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("ran")

    class Key(str):
        __eq__ = refuse  # type: ignore[assignment]
        __hash__ = str.__hash__

    class Hostile(functools.partial):  # type: ignore[type-arg]
        __getattribute__ = refuse
        __eq__ = refuse
        func = property(refuse)  # type: ignore[assignment]
        __wrapped__ = property(refuse)

    hostile = Hostile(loss)
    assert program_function(hostile) is hostile
    wrapper = transform(own)
    wrapper.__wrapped__ = hostile
    assert program_function(wrapper) is hostile
    wrapper.__dict__.clear()
    wrapper.__dict__[Key("__wrapped__")] = loss
    assert program_function(wrapper) is loss
