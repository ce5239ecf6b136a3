"""What an object has, read where it lies: no code of the program's is run.

Attributes are those of an instance's dict and slots, and what its class has
and does not compute; items those of dicts, lists, tuples, deques, arrays, and
of torch's containers of modules.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
from typing import Any, Final

#: It has no such thing.
MISSING: Final = object()
#: It may have, but code of the program would say.
COMPUTED: Final = object()

#: What has one of these comes before what an instance has.
_FIRST = ("__set__", "__delete__")
#: Where torch's modules have what their ``__getattr__`` gives.
_STORES = ("_parameters", "_buffers", "_modules")
_PLAIN = (str, bytes, int, float, complex, bool, type(None))

_mro_of = type.__dict__["__mro__"].__get__
_dict_of = type.__dict__["__dict__"].__get__


def attribute(value: Any, name: str) -> Any:
    """One attribute; MISSING or COMPUTED where there is none to read."""
    cls = type(value)
    if issubclass(cls, type):
        return _unwrapped(_in_class(value, name))
    own, shared = _in_instance(value, name), _in_class(cls, name)
    if shared is not MISSING and any(_has(shared, hook) for hook in _FIRST):
        return _given_by(shared, value)
    if own is not MISSING:
        return own
    if shared is MISSING:
        return _in_module(value, name)
    if type(shared) in (FunctionType, staticmethod, classmethod):
        return _unwrapped(shared)
    return COMPUTED if _has(shared, "__get__") else shared


def item(value: Any, key: Any) -> Any:
    """One item by a key of plain data, likewise."""
    cls = type(value)
    if issubclass(cls, dict):
        return _by_key(value, key)
    for kind in (list, tuple, deque):
        if issubclass(cls, kind):
            return _by_index(kind.__getitem__, value, key)
    if cls is getattr(sys.modules.get("numpy"), "ndarray", None):
        return _by_index(cls.__getitem__, value, key)
    getter = _in_class(cls, "__getitem__")
    if _is_of(getter, "torch.nn.modules.container"):
        modules = _in_instance(value, "_modules")
        if issubclass(type(modules), dict):
            found: Sequence[Any] = list(dict.values(modules))
            if type(key) is int:
                return _by_index(list.__getitem__, found, key)
            return _by_key(modules, key)
    return MISSING if getter is MISSING else COMPUTED


def _in_class(cls: Any, name: str) -> Any:
    for entry in _mro_of(cls):
        names = _dict_of(entry)
        if name in names:
            return names[name]
    return MISSING


def _has(value: Any, name: str) -> bool:
    return _in_class(type(value), name) is not MISSING


def _in_instance(value: Any, name: str) -> Any:
    where = _in_class(type(value), "__dict__")
    if type(where) not in (GetSetDescriptorType, MemberDescriptorType):
        return MISSING
    names = where.__get__(value)
    return dict.get(names, name, MISSING) if names else MISSING


def _unwrapped(found: Any) -> Any:
    if type(found) in (staticmethod, classmethod):
        return found.__func__
    return found


def _given_by(descriptor: Any, value: Any) -> Any:
    """What a slot has, or a field of a type of C's."""
    kind = type(descriptor)
    if kind is MemberDescriptorType or (
        kind is GetSetDescriptorType and descriptor.__objclass__ is type(value)
    ):
        return _field(descriptor, value)
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if kind is GetSetDescriptorType and issubclass(type(value), tensor or ()):
        return _of_tensor(descriptor, value)
    return COMPUTED


def _field(descriptor: Any, value: Any) -> Any:
    try:
        return descriptor.__get__(value)
    except AttributeError:  # an empty slot
        return MISSING


def _of_tensor(descriptor: Any, value: Any) -> Any:
    """Without what torch would call for a subclass, or under a mode."""
    with sys.modules["torch"]._C.DisableTorchFunction():
        return descriptor.__get__(value)


def _in_module(value: Any, name: str) -> Any:
    getter = _in_class(type(value), "__getattr__")
    if _is_of(getter, "torch.nn.modules.module"):
        for store in _STORES:
            names = _in_instance(value, store)
            if issubclass(type(names), dict) and name in dict.keys(names):
                return dict.get(names, name)
        return MISSING
    return MISSING if getter is MISSING else COMPUTED


def _is_of(function: Any, module: str) -> bool:
    return type(function) is FunctionType and function.__module__ == module


def _by_key(value: dict[Any, Any], key: Any) -> Any:
    """Compared to keys that are plain data: others have code of their own."""
    for one, found in dict.items(value):
        if _is_same(one, key):
            return found
    return MISSING


def _is_same(one: Any, key: Any) -> bool:
    if type(one) is not type(key):
        return False
    if type(key) is tuple:
        return len(one) == len(key) and all(map(_is_same, one, key))
    return type(key) in _PLAIN and bool(one == key)


def _by_index(get: Any, value: Any, key: Any) -> Any:
    try:
        return get(value, key)
    except (LookupError, TypeError, ValueError):
        return MISSING
