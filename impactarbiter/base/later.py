"""Modules of ours that are imported at the first use.

By then the program may have thrown the package out of ``sys.modules``, to load
itself anew, and put finders of its own before Python's.  A second copy of the
package could do nothing, for the C modules can be loaded only once; so ours
are found in their own folder, and find those that were there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from threading import get_ident
from types import ModuleType
from typing import Any

from .errors import ImpactArbiterError, UsageError
from .waiting import handlers_wait, untraced

_PACKAGE = __name__.partition(".")[0]
_TOO_EARLY = (
    "asked for something in the middle of the import of what it needs: ask"
    " again afterwards"
)
#: Threads that import something of ours, once for each import.
_threads: list[int] = []


class Later:
    """Stands for a module: the first attribute that is asked for imports it.

    Where that fails, the next one tries again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None
        self._ours: dict[str, ModuleType] = {}
        self._loads: int | None = None  # the thread that does
        self.remember()

    def remember(self) -> None:
        """What is loaded of ours by now is what the module will find."""
        if self._module is None:
            self._ours.update(_loaded())

    def load(self) -> ModuleType:
        """The module."""
        if self._module is None:
            with handlers_wait(), _whole():
                self._import()
        assert self._module is not None
        return self._module

    def _import(self) -> None:
        if self._module is not None:  # a handler that came before has done it
            return
        if self._loads == get_ident():
            raise UsageError(_TOO_EARLY)
        self._loads = get_ident()
        try:
            with _in_place(self._ours), _found_by_us():
                self._module = untraced(import_module, self._name)
        finally:
            self._loads = None
        self._ours.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.load(), name)


def part_of(module: str, name: str) -> Any:
    """What a module of ours has by that name; UsageError where a finalizer,
    say, asks in the middle of an import of ours that it came into."""
    with handlers_wait(), _whole():
        return getattr(untraced(import_module, module), name)


@contextmanager
def _whole() -> Iterator[None]:
    """What is half imported by this thread itself is told as such."""
    thread = get_ident()
    is_inside = thread in _threads
    _threads.append(thread)
    try:
        yield
    except Exception as error:
        if not is_inside or isinstance(error, ImpactArbiterError):
            raise
        raise UsageError(_TOO_EARLY) from None
    finally:
        _threads.remove(thread)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == _PACKAGE


def _loaded() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.startswith(_PACKAGE) and _is_ours(name)
    }


@contextmanager
def _in_place(ours: dict[str, ModuleType]) -> Iterator[None]:
    """The package is the one that we are of; afterwards, what it was."""
    package = ours[_PACKAGE]
    if sys.modules.get(_PACKAGE) is package:
        yield
        return
    theirs = _loaded()
    _replace(theirs, ours)
    try:
        yield
    finally:
        _replace(_loaded(), theirs)


def _replace(
    before: dict[str, ModuleType], after: dict[str, ModuleType]
) -> None:
    for name in before:
        sys.modules.pop(name, None)
    sys.modules.update(after)


@contextmanager
def _found_by_us() -> Iterator[None]:
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder:
    """Finds what is ours and lies in a folder; leaves the rest to others."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if path is None or not _is_ours(name):
            return None
        return PathFinder.find_spec(name, path, target)
