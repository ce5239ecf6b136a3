"""What an object has is read without any code of the program's."""

from __future__ import annotations

import collections
import enum
import sys
import types
import weakref
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch

from impactarbiter.base.errors import UsageError
from impactarbiter.watching import named
from impactarbiter.watching.stored import COMPUTED, MISSING, attribute, item


class Slotted:
    __slots__ = ("empty", "full")

    def __init__(self) -> None:
        self.full = 1


class Loud:
    """Whatever of it runs is noted."""

    ran: list[str] = []
    shared = 7

    def __init__(self) -> None:
        self.own = 5

    @property
    def computed(self) -> int:
        self.ran.append("property")
        raise SystemExit

    @cached_property
    def later(self) -> int:
        self.ran.append("cached_property")
        return 3

    def method(self) -> None:
        self.ran.append("method")

    @staticmethod
    def static() -> None:
        Loud.ran.append("static")

    def __getattr__(self, name: str) -> int:
        self.ran.append(name)
        return 1

    def __getattribute__(self, name: str) -> Any:
        if name != "ran":
            Loud.ran.append(name)
        return object.__getattribute__(self, name)

    def __getitem__(self, key: object) -> None:
        self.ran.append("item")
        raise KeyboardInterrupt

    def __eq__(self, other: object) -> bool:
        Loud.ran.append("eq")
        return False

    def __hash__(self) -> int:
        Loud.ran.append("hash")
        return hash("key")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    Loud.ran.clear()
    yield
    assert Loud.ran == []


def test_attributes() -> None:
    loud, slots = Loud(), Slotted()
    Loud.ran.clear()
    assert attribute(loud, "own") == 5
    assert attribute(loud, "shared") == 7
    for name in ("computed", "later", "nothing"):
        assert attribute(loud, name) is COMPUTED
    assert attribute(loud, "method") is Loud.__dict__["method"]
    assert attribute(Loud, "static") is Loud.__dict__["static"].__func__
    assert attribute(slots, "full") == 1
    assert attribute(slots, "empty") is MISSING
    assert attribute(slots, "other") is MISSING
    assert attribute(sys, "path") is sys.path
    assert attribute(sys, "nothing") is MISSING


def test_what_was_computed_once_is_there() -> None:
    loud = Loud()
    assert loud.later == 3
    Loud.ran.clear()
    assert attribute(loud, "later") == 3


def test_an_instance_s_dict_that_is_a_property_is_not_asked() -> None:
    class Hidden:
        @property
        def __dict__(self) -> dict[str, int]:  # type: ignore[override]
            Loud.ran.append("dict")
            return {"x": 1}

    assert attribute(Hidden(), "x") is MISSING


def test_modules_of_torch_s() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    model.register_buffer("mean", torch.zeros(2))
    first = model[0]
    assert attribute(model, "mean") is model.mean
    assert attribute(first, "weight") is first.weight
    assert attribute(first, "nothing") is MISSING
    assert item(model, 0) is first and item(model, -1) is model[1]
    assert item(model, "1") is model[1]
    assert item(model, 2) is MISSING
    weights = torch.nn.ParameterList([torch.ones(2)])
    assert item(weights, 0) is weights[0]
    by_name = torch.nn.ParameterDict({"w": torch.ones(2)})
    assert item(by_name, "w") is by_name["w"]
    named_ones = torch.nn.ModuleDict({"head": first})
    assert item(named_ones, "head") is first


def test_fields_of_tensors_run_no_mode() -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, *args: Any, **how: Any) -> Any:
            Loud.ran.append("mode")

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, *args: Any, **how: Any) -> Any:
            Loud.ran.append("dispatch")

    tensor = torch.ones(2, requires_grad=True)
    tensor.sum().backward()
    with Mode(), Dispatch():
        found = attribute(tensor, "grad")
        for name in ("data", "T", "mT", "shape"):
            assert attribute(tensor, name) is COMPUTED
    assert found is tensor.grad


def test_what_a_graph_saved_is_not_unpacked() -> None:
    def unpack(saved: torch.Tensor) -> torch.Tensor:
        Loud.ran.append("unpack")
        return saved

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        result = torch.ones(2, requires_grad=True).exp()
    assert attribute(result.grad_fn, "_saved_result") is COMPUTED


def test_fields_of_what_c_made() -> None:
    pair = collections.namedtuple("pair", "left right")(1, 2)
    assert attribute(pair, "right") == 2
    try:
        raise KeyError("lost")
    except KeyError as error:
        assert attribute(error, "__traceback__") is error.__traceback__
        assert attribute(error, "args") == ("lost",)
    assert attribute(weakref.proxy(Slotted), "full") is COMPUTED


def test_classes_and_their_classes() -> None:
    class Meta(type):
        registry = (1,)

    class Made(metaclass=Meta):
        def __init__(self) -> None:
            self.__dict__["checked"] = 2

        class Checked:
            def __set__(self, owner: object, value: int) -> None: ...

        checked = Checked()

    assert attribute(Made, "registry") == (1,)
    assert attribute(Made(), "checked") == 2
    assert attribute(Loud, "later") is COMPUTED


def test_items() -> None:
    value = torch.ones(1)
    loud: dict[object, object] = {Loud(): 1, "key": value, (1, "a"): 2}
    Loud.ran.clear()
    assert item(loud, "key") is value
    assert item(loud, (1, "a")) == 2
    # Who knows what the other key is equal to.
    assert item(loud, "other") is COMPUTED
    assert item({"key": value}, "other") is MISSING
    assert item({True: "true"}, 1) is MISSING
    assert item([1, 2], 1) == 2 and item([1, 2], 2) is MISSING
    assert item((1, 2), -1) == 2 and item([1], "a") is MISSING
    assert item(collections.deque([4]), 0) == 4
    holds = np.empty(2, dtype=object)
    holds[1] = value
    assert item(holds, 1) is value
    assert item(Loud, 0) is MISSING and item(5, 0) is MISSING
    assert item(object.__new__(Loud), 0) is COMPUTED
    assert item(enum.Enum("Colour", "RED"), "RED") is COMPUTED
    assert item(types.MappingProxyType({"a": 1}), "a") is COMPUTED


def test_a_dict_that_makes_what_it_lacks_makes_nothing() -> None:
    made: collections.defaultdict[str, list[int]]
    made = collections.defaultdict(list)
    assert item(made, "typo") is MISSING
    assert not made


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loud.computed", "is computed, by code that is not run"),
        ("loud[0]", "is computed, by code that is not run"),
        ("made['typo']", "made['typo'] is not there"),
        ("made.typo", "made has no attribute 'typo'"),
        ("loud" + ".own" * 5000, "too long"),
        ("loud[0](1)", "is no name"),
        ("loud(1).own", "is no name"),
        ("caller().other", "no call of caller that runs has it"),
    ],
)
def test_what_cannot_be_named_is_said_in_a_line(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = types.ModuleType("__main__")
    main.loud = object.__new__(Loud)  # type: ignore[attr-defined]
    main.made = collections.defaultdict(list)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(UsageError) as caught:
        named.resolve(name)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not main.made  # type: ignore[attr-defined]


def test_a_variable_of_a_call_as_reports_have_it() -> None:
    def caller() -> Any:
        kept = [Slotted()]
        return named.resolve(f"{caller.__qualname__}().kept"), kept

    caller.__code__ = caller.__code__.replace(co_qualname="caller")
    caller.__qualname__ = "caller"
    found, kept = caller()
    assert found is kept
    with pytest.raises(UsageError, match="no call of caller that runs"):
        named.resolve("caller().kept")
