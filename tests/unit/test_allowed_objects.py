"""Objects that were allowed, told from what has their addresses later."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import impactarbiter
from impactarbiter.judging.allowlist import allow_object, is_allowed_object


def empty_list() -> list[object]:
    """Other than ``list()`` it takes the place of one that is gone."""
    return []


def empty_dict() -> dict[str, object]:
    return {}


def filled_dict() -> dict[str, object]:
    return {"key": []}


def takes(address: int, make: Callable[[], Any]) -> Any:
    """A new one at the address of one that is gone."""
    made = deque(make() for _ in range(200))  # takes no such place itself
    return next(one for one in made if id(one) == address)


def allow_and_drop(make: Callable[[], Any]) -> int:
    dropped = make()
    allow_object(dropped)
    return id(dropped)


@pytest.fixture
def watching() -> Iterator[None]:
    """Collections come when the test says so."""
    gc.disable()
    with impactarbiter.watch(step="manual"):
        yield
    gc.enable()


@pytest.mark.usefixtures("watching")
@pytest.mark.parametrize("make", [empty_list, empty_dict])
def test_one_that_lives_stays_allowed(make: Callable[[], Any]) -> None:
    kept = make()
    allow_object(kept)
    # Whether the collector follows a dict changes with what it holds.
    for generation, value in (0, []), (1, 1), (2, 1), (0, []), (2, 1), (0, []):
        assert is_allowed_object([1, id(kept)])
        if isinstance(kept, dict):
            kept["key"] = value
        assert is_allowed_object([1, id(kept)])
        gc.collect(generation)
    gc.freeze()
    assert is_allowed_object([id(kept)])
    gc.unfreeze()
    gc.collect()
    assert is_allowed_object([id(kept)])


@pytest.mark.usefixtures("watching")
@pytest.mark.parametrize("collections", [(), (0,), (0, 0), (1,), (2,)])
def test_a_list_in_the_place_of_one_that_was_allowed(
    collections: tuple[int, ...],
) -> None:
    address = allow_and_drop(empty_list)
    later = takes(address, empty_list)
    for generation in collections:
        gc.collect(generation)
    assert not is_allowed_object([id(later)])
    allow_object(later)
    assert is_allowed_object([id(later)])


@pytest.mark.usefixtures("watching")
@pytest.mark.parametrize("collections", [(), (0,), (0, 1)])
@pytest.mark.parametrize("make", [empty_list, filled_dict])
def test_one_that_was_dropped_when_it_was_old(
    make: Callable[[], Any], collections: tuple[int, ...]
) -> None:
    dropped = make()
    allow_object(dropped)
    gc.collect(0)
    gc.collect(1)
    address = id(dropped)
    assert is_allowed_object([address])
    del dropped
    later = takes(address, make)
    for generation in collections:
        gc.collect(generation)
    assert not is_allowed_object([id(later)])


def test_without_a_watch() -> None:
    address = allow_and_drop(empty_list)
    later = takes(address, empty_list)
    assert not is_allowed_object([id(later)])


@pytest.mark.usefixtures("watching")
def test_many_that_are_dropped_at_once() -> None:
    kept: list[list[object]] = []
    for turn in range(300):
        one: list[object] = []
        allow_object(one)
        if turn % 3 == 0:
            kept.append(one)
    later: list[list[object]] = [[] for _ in range(300)]
    assert all(is_allowed_object([id(one)]) for one in kept)
    assert not any(is_allowed_object([id(one)]) for one in later)


def test_what_takes_weak_references_is_known_by_them() -> None:
    class Cache:
        pass

    kept = Cache()
    allow_object(kept)
    address = id(kept)
    assert is_allowed_object([address])
    del kept
    assert not is_allowed_object([address])


@pytest.mark.parametrize("rules", [5, [0], [None, "a.*"]])
def test_what_is_no_rule_is_refused(rules: Any) -> None:
    with pytest.raises(impactarbiter.UsageError, match="expected"):
        impactarbiter.watch(allow=rules)
