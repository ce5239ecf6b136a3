"""Functions that are compiled over and over, and what varies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from impactarbiter import _core
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


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Calls of each function, by its number."""
    counts: dict[int, int] = {}
    monkeypatch.setattr(retraces, "_calls", lambda n: counts.get(n, 0))
    return counts


LIBRARY = "site-packages/equinox/_jit.py"


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_core, "is_library", LIBRARY.__eq__)
    retraces.forget()
    yield
    retraces.forget()


def said(*calls: tuple[tuple[Any, ...], dict[str, Any]], **new: Any) -> str:
    compiled = Compiled(new.get("static", ()))
    objects = [Compiled() for _ in calls]
    for at, (args, kwargs) in enumerate(calls):
        one = objects[at] if new.get("each") else compiled
        retraces.noted(one, new.get("function", function), args, kwargs)
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


def traced_at(calls: dict[int, int], at: Iterable[int], end: int) -> list[str]:
    """What is said after ``end`` calls, of which these were traced."""
    compiled = Compiled(static=("n",))
    for one in at:
        calls[0] = one
        assert retraces.noted(compiled, function, (Array(2), one), {}) == 0
    calls[0] = end
    return retraces.said()


def test_traces_that_came_to_an_end_are_no_news(calls: Any) -> None:
    assert not traced_at(calls, range(12), 36)


def test_traces_that_each_serve_many_calls_are_no_news(calls: Any) -> None:
    assert not traced_at(calls, range(0, 1200, 100), 1200)


def test_shapes_that_converge_are_no_news(calls: Any) -> None:
    assert not traced_at(calls, [0, 1, 2, 3, 5, 9, 14, 25, 60, 130], 200)


def test_traces_at_every_call_of_a_seldom_function_are(calls: Any) -> None:
    assert len(traced_at(calls, range(20), 20)) == 1


def test_traces_of_every_third_call_are(calls: Any) -> None:
    assert len(traced_at(calls, range(0, 60, 3), 60)) == 1


def test_traces_that_never_end_are_though_each_serves(calls: Any) -> None:
    """An epoch's number, say, as a static argument."""
    assert len(traced_at(calls, range(0, 10000, 100), 10000)) == 1
    retraces.forget()
    assert not traced_at(calls, range(0, 10000, 100), 40000)


def library(name: str) -> Any:
    """A function of a library's, which calls what it is given."""
    source = f"def {name}(static): return static[0]"
    module: dict[str, Any] = {}
    exec(compile(source, LIBRARY, "exec"), module)
    return module[name]


def test_a_librarys_function_is_told_as_what_it_was_given() -> None:
    given = ((function,), object()), ((1, None), 2)
    line = said(
        *[(((*given[0], (n,)),), {}) for n in range(9)],
        function=library("function"),
    )
    at = function.__code__.co_firstlineno
    assert f"9 traces of function() (test_retraces.py:{at})" in line
    assert "`" not in line


def test_a_librarys_function_is_told_with_the_programs_call() -> None:
    line = said(
        *[((Array(n),), {}) for n in range(9)], function=library("scan")
    )
    at = said.__code__
    assert line.startswith("shape of an argument (now (8,) float32): 9 traces")
    (place,) = re.findall(r"scan\(\) \(test_retraces.py:(\d+)\)", line)
    lines = [number for _, _, number in at.co_lines()]
    assert int(place) in lines


def test_two_functions_of_one_code_are_told_apart() -> None:
    for name in ("train", "test"):
        made = library("wrapper")
        made.__qualname__ = name
        for n in range(8):
            retraces.noted(Compiled(), made, (Array(n),), {})
    assert len(retraces.said()) == 2


def test_values_that_may_be_equal_are_told_last() -> None:
    compiled = Compiled(static=("n",))
    for at in range(8):
        static = (object(), at)
        retraces.noted(compiled, function, (Array(2), static), {})
    (line,) = retraces.said()
    assert line.startswith("static argument `n[1]` (now 7): 8 traces")


def test_an_object_is_told_by_its_call() -> None:
    class Model:
        def __call__(self, x: object) -> None: ...

    model = Model()
    for n in range(8):
        retraces.noted(Compiled(), model, (Array(n),), {})
    (line,) = retraces.said()
    assert "8 traces of Model.__call__() (test_retraces.py:" in line
    retraces.noted(Compiled(), print, (), {})
    retraces.noted(Compiled(), None, (), {})
    assert len(retraces._known) == 1
