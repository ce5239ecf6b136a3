"""What an object has, read where it lies: no code of the program's is run.

Attributes are those of an instance's dict and slots, and what its class has
and does not compute; items those of dicts, lists, tuples, deques, arrays, and
of torch's containers of modules.
"""

from __future__ import annotations

import inspect
import weakref
from collections import deque
from types import (
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Final

from ..base.imports import names_in

#: It has no such thing.
MISSING: Final = object()
#: It may have, but code would have to say.
COMPUTED: Final = object()

#: What gives and has one of these comes before what an instance has.
_FIRST = ("__set__", "__delete__")
#: Where torch's modules have what their ``__getattr__`` gives.
_STORES = ("_parameters", "_buffers", "_modules")
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
#: Fields of C's that are there, of these classes and of tensors.
_SIMPLE = (BaseException, CoroutineType, FunctionType, GeneratorType, object)
_OF_TENSORS = ("_base", "_grad", "grad", "is_leaf", "requires_grad")
#: The second: a field of a namedtuple.
_SLOTS = (MemberDescriptorType, type(vars(inspect.FullArgSpec)["args"]))
#: Of C's, and another object is asked.
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType, super)

_mro_of = type.__dict__["__mro__"].__get__
_dict_of = type.__dict__["__dict__"].__get__


def attribute(value: Any, name: str) -> Any:
    """One attribute; MISSING or COMPUTED where there is none to read."""
    cls = type(value)
    if issubclass(cls, type):
        found = _in_class(value, name)
        return _of_class(_in_class(cls, name) if found is MISSING else found)
    shared, own = _in_class(cls, name), _in_instance(value, name)
    gives = shared is not MISSING and _has(shared, "__get__")
    if gives and any(_has(shared, hook) for hook in _FIRST):
        return _given_by(shared, value)
    if own is not MISSING:
        return own
    if shared is MISSING:
        return _otherwise(value, name)
    return _of_class(shared)


def item(value: Any, key: Any) -> Any:
    """One item by a key of plain data, likewise."""
    cls = type(value)
    if issubclass(cls, dict):
        return _by_key(value, key)
    for kind in (list, tuple, deque):
        if issubclass(cls, kind):
            return _by_index(kind.__getitem__, value, key)
    if cls is names_in("numpy").get("ndarray"):
        return _by_index(cls.__getitem__, value, key)
    getter = _in_class(cls, "__getitem__")
    if _is_of(getter, "torch.nn.modules.container"):
        return _in_container(value, key)
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
    return _by_key(names, name) if issubclass(type(names), dict) else MISSING


def _of_class(found: Any) -> Any:
    """What a class has, by its name."""
    if type(found) in (staticmethod, classmethod):
        return found.__func__
    if type(found) is FunctionType or not _has(found, "__get__"):
        return found
    return COMPUTED


def _given_by(descriptor: Any, value: Any) -> Any:
    """What a slot has, or a field of a type of C's."""
    if type(descriptor) in _SLOTS:
        return _field(descriptor, value)
    if type(descriptor) is not GetSetDescriptorType:
        return COMPUTED
    name, owner = descriptor.__name__, descriptor.__objclass__
    if name == "__dict__" or owner in _SIMPLE:
        return _field(descriptor, value)
    tensor = names_in("torch").get("Tensor", ())
    if name in _OF_TENSORS and issubclass(type(value), tensor):
        return _of_tensor(descriptor, value)
    return COMPUTED


def _field(descriptor: Any, value: Any) -> Any:
    try:
        return descriptor.__get__(value)
    except AttributeError:  # an empty slot
        return MISSING


def _of_tensor(descriptor: Any, value: Any) -> Any:
    """Without what torch would call for a subclass, or under a mode."""
    with names_in("torch")["_C"].DisableTorchFunction():
        return descriptor.__get__(value)


def _otherwise(value: Any, name: str) -> Any:
    """What is stored neither in it nor in its class."""
    cls = type(value)
    getter = _in_class(cls, "__getattr__")
    if _is_of(getter, "torch.nn.modules.module"):
        for store in _STORES:
            names = _in_instance(value, store)
            if issubclass(type(names), dict):
                found = _by_key(names, name)
                if found is not MISSING:
                    return found
        return MISSING
    if issubclass(cls, ModuleType):
        getter = _in_instance(value, "__getattr__")
    own = type(_in_class(cls, "__getattribute__")) is FunctionType
    return (
        COMPUTED
        if getter is not MISSING or own or cls in _PROXIES
        else MISSING
    )


def _is_of(function: Any, module: str) -> bool:
    return type(function) is FunctionType and function.__module__ == module


def _in_container(value: Any, key: Any) -> Any:
    """Modules by number or name; a list of parameters has them by number as
    its attributes."""
    modules = _in_instance(value, "_modules")
    if not issubclass(type(modules), dict) or not dict.__len__(modules):
        return _otherwise(value, str(key))
    if type(key) is int:
        found = list(dict.values(modules))
        return _by_index(list.__getitem__, found, key)
    return _by_key(modules, key)


def _by_key(value: dict[Any, Any], key: Any) -> Any:
    """Compared to keys that are plain data: others have code of their own."""
    others = False
    for one, found in dict.items(value):
        if _is_same(one, key):
            return found
        others = others or not _is_plain(one)
    return COMPUTED if others else MISSING


def _is_plain(key: Any) -> bool:
    if type(key) is tuple:
        return all(map(_is_plain, key))
    return type(key) in _PLAIN


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
