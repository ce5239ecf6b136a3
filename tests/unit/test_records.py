"""Our dataclasses are the standard library's, but for what is compiled."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from impactarbiter.base import records


def both(**options: Any) -> list[Any]:
    """One class as the standard library makes it, and as we do."""
    made = []
    for decorator in (dataclasses.dataclass, records.dataclass):

        @decorator(**options)
        class Point:
            """A point."""

            x: int
            y: int = 2
            names: list[str] = field(default_factory=list)
            aside: int = field(default=0, compare=False, repr=False)
            later: int = field(init=False, compare=False, repr=False)
            depth: int = field(default=3, init=False)

            def sum(self) -> int:
                return self.x + self.y

        made.append(Point)
    return made


FORMS = [
    {},
    {"frozen": True},
    {"frozen": True, "eq": False},
    {"kw_only": True},
    {"frozen": True, "kw_only": True},
]


@pytest.mark.parametrize("options", FORMS)
def test_fields_and_values(options: Any) -> None:
    theirs, ours = both(**options)
    assert [f.name for f in dataclasses.fields(ours)] == [
        f.name for f in dataclasses.fields(theirs)
    ]
    assert ours.__match_args__ == theirs.__match_args__
    for given in ({"x": 1}, {"x": 1, "y": 5, "names": ["a"], "aside": 4}):
        one, other = theirs(**given), ours(**given)
        assert list(vars(one).items()) == list(vars(other).items())
        assert other.sum() == one.sum()
    assert ours(x=1).names is not ours(x=1).names


@pytest.mark.parametrize("options", FORMS)
def test_what_is_called_wrongly_is_refused(options: Any) -> None:
    for cls in both(**options):
        for args, given in (
            ((), {}),
            ((), {"y": 1}),
            ((), {"x": 1, "z": 1}),
            ((), {"x": 1, "later": 1}),
            ((), {"x": 1, "depth": 1}),
            ((1,), {"x": 1}),
            ((1, 2, [], 0, 5), {}),
        ):
            with pytest.raises(TypeError):
                cls(*args, **given)
    if options.get("kw_only"):
        with pytest.raises(TypeError):
            ours = both(**options)[1]
            ours(1)


@pytest.mark.parametrize("options", FORMS)
def test_equality_and_hash(options: Any) -> None:
    for cls in both(**options):
        plain = options.get("eq", True)
        assert (cls(x=1) == cls(x=1)) is plain
        assert (cls(x=1, aside=1) == cls(x=1, aside=2)) is plain
        assert cls(x=1) != cls(x=2)
        assert cls(x=1) != (1, 2, [])
    theirs, ours = both(**options)
    assert (theirs.__hash__ is None) is (ours.__hash__ is None)


def test_equal_ones_hash_alike() -> None:
    @records.dataclass(frozen=True)
    class Name:
        """A name."""

        text: str
        aside: int = field(default=0, compare=False)

    assert len({Name("a"), Name("a", 1), Name("b")}) == 2


def test_frozen_ones_do_not_change() -> None:
    for cls in both(frozen=True, eq=False):
        one = cls(x=1)
        with pytest.raises(FrozenInstanceError):
            one.x = 2
        with pytest.raises(FrozenInstanceError):
            del one.x
        assert one.x == 1
    for cls in both():
        one = cls(x=1)
        one.x = one.later = 2
        assert (one.x, one.later) == (2, 2)


def test_repr() -> None:
    @records.dataclass
    class Node:
        """Leads to itself."""

        name: str
        nexts: list[Any] = field(default_factory=list)
        aside: int = field(default=0, repr=False)

    node = Node("a")
    node.nexts.append(node)
    name = Node.__qualname__
    assert repr(node) == f"{name}(name='a', nexts=[...])"


def test_what_a_class_has_of_its_own_stays() -> None:
    @records.dataclass(frozen=True)
    class Base:
        """With a method of ``dataclass`` that is its own."""

        x: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x + 1)

        def __repr__(self) -> str:
            return "base"

    @records.dataclass(frozen=True)
    class Sub(Base):
        """With a field more."""

        y: int = 0

    assert repr(Base(1)) == "base"
    assert (Sub(1).x, Sub(1, 2).y) == (2, 2)
    assert repr(Sub(1)).endswith("Sub(x=2, y=0)")
    assert Sub(1) != Base(1)


@records.dataclass(frozen=True)
class Kept:
    """One that can be found by its name."""

    x: int
    y: tuple[int, ...] = ()


def test_the_standard_library_works_with_them() -> None:
    kept = Kept(1, (2, 3))
    assert dataclasses.is_dataclass(Kept)
    assert dataclasses.asdict(kept) == {"x": 1, "y": (2, 3)}
    assert dataclasses.replace(kept, x=5) == Kept(5, (2, 3))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert copy.deepcopy(kept) == kept
    match kept:
        case Kept(x, (first, *_)):
            assert (x, first) == (1, 2)
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize("options", FORMS)
def test_one_with_other_values(options: Any) -> None:
    """Also where some of them are none that are given, or made of others."""
    for change in ({}, {"y": 7}, {"names": ["b"], "x": 0}):
        for one in both(**options):
            point = one(x=1, names=["a"])
            other = records.replace(point, **change)
            assert type(other) is one and other is not point
            assert vars(other) == vars(dataclasses.replace(point, **change))
            with pytest.raises(TypeError):
                records.replace(point, z=1)

    @records.dataclass(**options)
    class Plain:
        x: int
        names: list[str] = field(default_factory=list)

    class Named(Plain):
        pass

    kinds = [Plain, Named]
    if "frozen" not in options:

        @dataclasses.dataclass
        class Wider(Plain):
            z: int = 3

        kinds.append(Wider)
    for kind in kinds:
        made = kind(x=1, names=["a"])
        vars(made)["remembered"] = True  # no value of its
        for change in ({}, {"x": 7}):
            other = records.replace(made, **change)
            assert vars(other) == vars(dataclasses.replace(made, **change))
            assert type(other) is kind and other.names is made.names
        with pytest.raises(TypeError, match="y"):
            records.replace(made, y=1)


def test_what_is_made_when_all_values_are_there_is_made_anew() -> None:
    @records.dataclass
    class Sum:
        x: int
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            self.twice = 2 * self.x

    assert records.replace(Sum(1), x=4).twice == 8

    @records.dataclass(frozen=True)
    class Part:
        whole: int
        part: int

        def __post_init__(self) -> None:
            if self.part > self.whole:
                raise ValueError("too much")

    with pytest.raises(ValueError, match="too much"):
        records.replace(Part(3, 2), whole=1)
