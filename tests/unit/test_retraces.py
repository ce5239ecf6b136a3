"""Functions that are compiled over and over, and what varies."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from impactarbiter.core import retraces


def function(x: object, n: object = None) -> None:
    """What a user compiles."""


class Compiled:
    """As jax.jit() gives it."""

    def __init__(self, static: tuple[str, ...] = ()) -> None:
        self._fun = function
        self._jit_info = SimpleNamespace(
            static_argnums=(), static_argnames=static
        )


class Array:
    dtype = "float32"

    def __init__(self, *shape: int) -> None:
        self.shape = shape


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    retraces.forget()
    yield
    retraces.forget()


def said(*calls: tuple[tuple[Any, ...], dict[str, Any]], **new: Any) -> str:
    compiled = Compiled(new.get("static", ()))
    objects = [Compiled() for _ in calls]
    for at, (args, kwargs) in enumerate(calls):
        one = objects[at] if new.get("each") else compiled
        retraces.noted(one, args, kwargs)
    lines = retraces.said(new.get("masked", False))
    assert len(lines) <= 1
    return lines[0] if lines else ""


def test_a_few_traces_are_no_news() -> None:
    assert not said(*[((Array(2), n), {}) for n in range(7)])


def test_a_static_argument_is_named() -> None:
    line = said(*[((Array(2), n), {}) for n in range(12)], static=("n",))
    assert line.startswith("static argument `n` (now 11): 12 traces of fun")
    assert "test_retraces.py:" in line


def test_a_shape_is_named() -> None:
    line = said(*[((Array(n, 4),), {}) for n in range(10)])
    assert line.startswith("shape of `x` (now (9, 4) float32): 10 traces")


def test_what_lies_in_a_container_is_named() -> None:
    line = said(*[(({"a": [Array(n)]},), {}) for n in range(9)])
    assert line.startswith("shape of `x['a'][0]` (now (8,) float32)")


def test_a_container_that_grows_is_named() -> None:
    line = said(*[(([1.0] * n,), {}) for n in range(1, 10)])
    assert line.startswith("length of `x` (now 9)")


def test_a_function_that_is_made_anew_is_said() -> None:
    line = said(*[((Array(2),), {}) for _ in range(9)], each=True)
    assert line.startswith("compiled anew from a new function object each")


def test_where_nothing_is_seen_to_vary_nothing_is_said_to() -> None:
    assert said(*[((Array(2),), {}) for _ in range(9)]).startswith("9 traces")


def test_names_are_masked() -> None:
    line = said(*[((Array(2), n), {}) for n in range(9)], masked=True)
    assert line.startswith("9 traces of a function; ")
    assert "test_retraces" not in line


def test_no_code_of_an_arguments_runs() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise AssertionError

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    line = said(
        *[((Hostile(), Hostile()), {}) for _ in range(9)], static=("n",)
    )
    assert line.startswith("static argument `n` (now object at 0x")
