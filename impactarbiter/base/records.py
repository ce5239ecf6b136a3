"""``dataclass`` as the standard library has it, but nothing is compiled.

That one writes six methods for each class and compiles them, most of a
millisecond; the first step of every watched program would pay for some eighty
classes.  Here all classes share theirs, which go by the fields;
so does ``replace``, which looks at known holders call by the dozen.

A record that changes can be brought back to what it was (``Changing``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["Changing", "dataclass", "replace"]

Record = TypeVar("Record", bound="DataclassInstance")

if TYPE_CHECKING:
    from dataclasses import dataclass
    from typing import Self

    from _typeshed import DataclassInstance
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, kw_only=False):
        """With the options that are used here, each as it is there."""

        def made(cls):
            cls = dataclasses.dataclass(
                init=False, repr=False, eq=False, kw_only=kw_only
            )(cls)
            _describe(cls)
            shared = {"__init__": _init, "__repr__": _repr}
            if eq:
                shared["__eq__"] = _eq
                shared["__hash__"] = _hash if frozen else None
            if frozen:
                shared["__setattr__"] = _refuse
                shared["__delattr__"] = _refuse
            for name, method in shared.items():
                if name not in vars(cls):
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)


def _describe(cls: Any) -> None:
    """What the shared methods ask a class for."""
    fields = dataclasses.fields(cls)
    taken = [field for field in fields if field.init]
    cls._accepted = {field.name for field in taken}
    cls._needed = {
        field.name
        for field in taken
        if field.default is field.default_factory is MISSING
    }
    cls._factories = {
        field.name: field.default_factory
        for field in fields
        if field.default_factory is not MISSING
    }
    #: All that an instance has from the start, in the fields' order.
    cls._blank = {
        field.name: field.default
        for field in fields
        if field.init or field.name in cls._factories
    }
    cls._shown = [field.name for field in fields if field.repr]
    compared = [field.name for field in fields if field.compare]
    cls._compared = attrgetter("__class__", *compared)
    #: Whether all that it has is what it is made of.
    cls._is_plain = len(taken) == len(fields)


def _init(self: Any, /, *args: Any, **given: Any) -> None:
    cls = type(self)
    told = len(args) + len(given)
    given.update(zip(cls.__match_args__, args, strict=False))
    names = given.keys()
    if len(names) != told or not cls._needed <= names <= cls._accepted:
        raise TypeError(
            f"{cls.__name__}() got {told} arguments, {', '.join(names)}:"
            f" expected {', '.join(sorted(cls._accepted))}"
        )
    values = vars(self)
    values.update(cls._blank)
    values.update(given)
    for name, make in cls._factories.items():
        if name not in given:
            values[name] = make()
    if hasattr(cls, "__post_init__"):
        self.__post_init__()


def replace(record: Record, /, **changes: Any) -> Record:
    """``dataclasses.replace``, which takes any class of the standard
    library's, too."""
    cls: Any = type(record)
    is_plain = vars(cls).get("_is_plain", False)
    if not is_plain or not changes.keys() <= cls._accepted:
        return dataclasses.replace(record, **changes)
    mine = vars(record)
    other: Record = object.__new__(cls)
    vars(other).update({name: mine[name] for name in cls._blank}, **changes)
    if hasattr(cls, "__post_init__"):
        cls.__post_init__(other)
    return other


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name in self._shown)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _refuse(self: Any, name: str, *_value: object) -> None:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot change")


class Changing:
    """A record that changes.

    What it has is replaced, never changed in place, but for other such
    records: those are its parts, each of which belongs to one record alone.
    """

    def as_remembered(self) -> Callable[[], None]:
        """Brings back, when it is called, what it and its parts have now."""
        mine = vars(self).copy()
        parts = [part.as_remembered() for part in self._parts().values()]

        def bring_back() -> None:
            vars(self).update(mine)
            for part in parts:
                part()

        return bring_back

    def copied(self) -> Self:
        """One that has the same, and parts of its own."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        for name, part in self._parts().items():
            vars(other)[name] = part.copied()
        return other

    def _parts(self) -> dict[str, Changing]:
        values = vars(self).items()
        return {n: one for n, one in values if isinstance(one, Changing)}
