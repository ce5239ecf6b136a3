"""Waiting for a module that the program may import later, or never.

Nothing is done to how the program imports: our finder finds nothing, and no
loader is touched.  What an import makes for itself goes when it is over: the
code object of the module, and the lock for its name.  Their deaths are waited
for, whoever found and loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Sequence
from functools import partial
from importlib import _bootstrap
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType
from typing import Any
from weakref import ReferenceType

from .waiting import called_aside

#: Called without arguments; must not raise.
Callback = Callable[[], object]

_waiting: dict[str, Callback] = {}

#: What was told to have come, in whose import something may still be done.
_come: dict[str, ModuleType] = {}

#: The code of modules that are waited for and that run now.
_codes: dict[str, ReferenceType[CodeType]] = {}

#: The locks of imports whose end is waited for.
_locks: dict[str, ReferenceType[Any]] = {}

#: Those of all imports that are under way.
_LOCKS: dict[str, ReferenceType[Any]] = getattr(
    _bootstrap, "_module_locks", {}
)

_NAMES_OF: Any = vars(ModuleType)["__dict__"].__get__


def names_of(module: object) -> dict[str, Any]:
    """A module's names, without its own code; {} of what only stands in
    ``sys.modules``, as programs put other objects there."""
    if not issubclass(type(module), ModuleType):
        return {}
    names = _NAMES_OF(module)
    return names if type(names) is dict else {}


def names_in(name: str) -> dict[str, Any]:
    """The names of the module that is known by this one; {} without it."""
    return names_of(sys.modules.get(name))


def is_imported(name: str) -> bool:
    """Whether a module is there, and its own code has ended.

    Waits for nobody, and runs no code of the module's: one that is loaded
    where it is used first is not there before.
    """
    module = sys.modules.get(name)
    if module is not None and _come.get(name) is module:
        return True
    return (
        _stands(name)
        and type(module) is not _lazy_module()
        and not _runs(names_of(module))
    )


def _stands(name: str) -> bool:
    """Whether there is a module that no import is at work on."""
    names = names_in(name)
    spec = names.get("__spec__")
    # What a test has put there has none.
    return issubclass(type(spec), ModuleSpec) and not getattr(
        spec, "_initializing", False
    )


def _lazy_module() -> type | None:
    """The class of those that ``importlib.util.LazyLoader`` makes."""
    util = names_in("importlib.util")
    return util.get("_LazyModule")


def _runs(names: dict[str, Any]) -> bool:
    """Whether a thread is in a module's own code: not each loader is called
    by an import that says so."""
    # The frames are kept in no variable: this one is among them, and would
    # be in a cycle.
    return any(
        _frame_of(names, top) is not None
        for top in sys._current_frames().values()
    )


def _frame_of(
    names: dict[str, Any], frame: FrameType | None
) -> FrameType | None:
    """That of a module's own code, among those that this one returns to."""
    while frame is not None:
        if frame.f_globals is names and frame.f_code.co_name == "<module>":
            return frame
        frame = frame.f_back
    return None


def under_way(
    packages: Container[str],
    is_other: Callable[[str], bool] = lambda _: False,
) -> bool:
    """Whether a part of one of these packages is being imported now, in any
    thread.

    ``is_other`` says of a file's name whether that is none of theirs: a
    program may have modules that go by the same names.
    """
    # The locks are left be: who has the last one when it dies is called.
    return any(
        name.partition(".")[0] in packages
        and not ((file := _file_of(name)) and is_other(file))
        for name in [*_LOCKS]
    )


def _file_of(name: str) -> str:
    """Where a module lies; empty where that is not known, or no file."""
    spec = names_in(name).get("__spec__")
    origin = spec.origin if type(spec) is ModuleSpec else None
    known = type(origin) is str and os.path.isabs(origin)
    return origin if known and origin else ""


def after(name: str, function: Callback) -> None:
    """Calls ``function`` once the module's own code has ended, also where a
    thread is in it now.

    Costs some look-ups in a dict per import.
    """
    _waiting[name] = function
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    _wait_for_end(name)
    _wait_for_code(name)
    if is_imported(name):  # its import has ended meanwhile
        _call(name)


def forget(name: str) -> None:
    """Nobody waits for that module any more."""
    _waiting.pop(name, None)
    _codes.pop(name, None)
    for other, lock in [*_locks.items()]:
        if lock() is None and _locks.get(other) is lock:
            _locks.pop(other, None)
    if not _waiting and _Finder in (sys.meta_path or ()):
        sys.meta_path.remove(_Finder)


def passed_by() -> list[str]:
    """Modules that are waited for still, and that have come without an import
    that was seen."""
    return [name for name in tuple(_waiting) if is_imported(name)]


class _Finder:
    """Finds nothing: it learns that an import has begun."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        there = [one for one in tuple(_waiting) if one in sys.modules]
        for one in there:
            _wait_for_code(one)
        # One that stands was loaded past the imports: it is looked for anew.
        if name in _waiting or any(map(_stands, there)):
            _wait_for_end(name)
        return None


def _wait_for_code(name: str) -> None:
    """Until a module's own code has ended, if this thread is in it."""
    known = _codes.get(name)
    if known is not None and known() is not None:
        return
    names = names_in(name)
    frame = _frame_of(names, sys._getframe())
    if frame is not None:
        ended = called_aside(partial(_ended, name, names))
        _codes[name] = ReferenceType(frame.f_code, ended)


def _wait_for_end(name: str) -> None:
    """Until the import of a module that is under way is over, if one is: who
    only asks where it lies has no lock of it."""
    found = _LOCKS.get(name)
    lock = None if found is None else found()
    known = _locks.get(name)
    if lock is not None and (known is None or known() is not lock):
        _locks[name] = ReferenceType(lock, _look_again_aside)


def _ended(name: str, names: dict[str, Any], _: object) -> None:
    """One whose code has failed is there no more, or another in its place."""
    if names_in(name) is names and not _runs(names):
        _call(name)


def _look_again(_: object) -> None:
    """Who waited for what is there now is called."""
    for name in tuple(_come):
        if _stands(name):
            _come.pop(name, None)
    for name in tuple(_waiting):
        if is_imported(name):
            _call(name)


def _call(name: str) -> None:
    function, module = _waiting.pop(name, None), sys.modules.get(name)
    forget(name)
    if function is not None and module is not None:
        _come[name] = module
        function()


_look_again_aside = called_aside(_look_again)
