"""Whose arrays there are: torch's, JAX's, TensorFlow's, as they are imported.

Each is watched if the program imports it, before the watch or later: what we
imported would read its settings before the program has made them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Protocol

from ..base import imports
from ..base.errors import NOT_WATCHED, NotBuiltError
from ..base.signals import Tolerated
from ..base.text import clean
from . import jax_arrays, retraces, tf_tensors
from .built import programs_torch


class Framework(Protocol):
    """What is asked of a module of ours that knows one."""

    MODULE: str

    def know(self) -> None:
        """A walk knows its arrays."""

    def install(self) -> None:
        """Births, deaths and calls are seen."""

    def uninstall(self) -> None:
        """No more."""

    def version(self) -> str:
        """Of what is imported."""

    def own_count(self) -> dict[str, int]:
        """What it says itself that is alive, in bytes by device."""

    def allocated(self) -> dict[str, tuple[int, int | None]]:
        """(bytes in use, their limit) by device."""

    def escaped(self) -> tuple[type, int] | None:
        """(class, how many) of tracers that have outlived their trace."""


#: All that a program may have imported that makes arrays or tensors.
NAMES = ("torch", "jax", "tensorflow")
FRAMEWORKS: tuple[Framework, ...] = (jax_arrays, tf_tensors)

#: What the collector puts before an object.
_HEAD = sys.getsizeof([]) - list.__basicsize__

#: Bytes of a tensor's objects in C++ and in Python, once hooks are in.
_of_torch = (0, 0)

#: Told at once of one that cannot be watched, in a sentence; must not raise.
on_failure: Callable[[str], object] | None = None
_failed: dict[str, str] = {}
_installed: list[Framework] = []
_wanted = False


def has_torch() -> bool:
    """Whether torch is imported and we were built with it; what stands in its
    place, as a test's stub does, is none.

    Raises NotBuiltError where it is imported and we were not.
    """
    names = imports.names_in("torch")
    if "__version__" not in names or not imports.is_imported("torch"):
        return False
    if importlib.util.find_spec("impactarbiter._torch") is not None:
        return True
    if not _others():
        raise NotBuiltError(
            "impactarbiter was built without torch: build it again where"
            " torch is installed, with pip install --no-build-isolation"
            " --no-deps --force-reinstall ."
        )
    return False


def know_objects(torch: ModuleType) -> None:
    """What torch's objects take is known from now on; ``torch`` is ours."""
    global _of_torch
    tensor = programs_torch().Tensor
    _of_torch = torch.object_bytes(), tensor.__basicsize__ + _HEAD


def object_bytes(device: str, in_python: bool) -> int:
    """Bytes of the process's memory that a tensor or an array takes besides
    its numbers, at least, on torch's devices and NumPy's; 0 for others, whose
    objects nobody measured.

    ``in_python``: there is an object of Python's for each.
    """
    family = device.partition(":")[0]
    if family == "numpy":
        names = imports.names_in("numpy")
        array = names.get("ndarray")
        if not in_python or not isinstance(array, type):
            return 0
        return array.__basicsize__
    if family in NAMES:
        return 0
    in_cpp, python = _of_torch
    return in_cpp + python * in_python


def any_imported() -> bool:
    """Whether there is something to watch besides NumPy."""
    return any(name in sys.modules for name in NAMES)


def _others() -> list[Framework]:
    """Those of ours that are imported."""
    return [one for one in FRAMEWORKS if imports.is_imported(one.MODULE)]


def register() -> None:
    """The core knows what arrays are; nothing is hooked."""
    if _others():
        _module().register()


def know() -> None:
    """For a question that is asked while nothing watches."""
    for one in _others():
        if one not in _installed:
            one.know()


def forget() -> None:
    """The end of that."""
    if _others():
        _module().forget()


def install() -> None:
    """Hooks now, or as soon as the program imports what is to be hooked."""
    global _wanted
    _failed.clear()
    retraces.forget()
    _wanted = True
    for one in FRAMEWORKS:
        imports.after(one.MODULE, partial(_install, one))


def uninstall() -> None:
    """Out again; imports nothing."""
    global _wanted
    _wanted = False
    for one in FRAMEWORKS:
        imports.forget(one.MODULE)
    _out()


def _out() -> None:
    hooked, _installed[:] = list(_installed), []
    for one in hooked:
        one.uninstall()
    if hooked:
        _module().uninstall()


def in_place() -> dict[str, bool]:
    """Which of the hooks are in, by the framework's name."""
    return dict(_module().installed()) if _installed else {}


def settle() -> None:
    """What was deleted leaves the ledger."""
    if _installed:
        _module().sweep()


def _install(one: Framework) -> None:
    def hook() -> None:
        _module().register()
        if not _installed:
            _module().listen(retraces.noted)
        one.install()
        if one not in _installed:
            _installed.append(one)
        if not _wanted:  # another thread has ended the watch meanwhile
            _out()

    attempt(one.MODULE, hook)


def attempt(name: str, hook: Callable[[], object]) -> None:
    """No failure of ours fails an import or a watch: the report has it."""
    with Tolerated() as failure:
        hook()
    if failure.error is not None:
        _failed[name] = clean(failure.said.splitlines()[0])
        if on_failure is not None:
            on_failure(_not_watched(name))


def _module() -> ModuleType:
    from .. import _arrays

    return _arrays


# -- what a report says -------------------------------------------------------


def versions() -> dict[str, str]:
    """Of what is watched."""
    return {one.MODULE: one.version() for one in _installed}


def said(masked: bool = False) -> Iterator[str]:
    """What a reader of the report must know."""
    yield from map(_not_watched, _failed)
    for name in imports.passed_by():
        if name in (*NAMES, "numpy"):
            yield f"{name}{NOT_WATCHED}it was loaded past Python's imports"
    yield from retraces.said(masked)


def _not_watched(name: str) -> str:
    return f"{name}{NOT_WATCHED}{_failed[name]}"


def own_counts() -> dict[str, int]:
    """What the frameworks say themselves that is alive, by device."""
    found: dict[str, int] = {}
    for one in _installed:
        try:
            if one is jax_arrays:
                found |= {"jax:": 0} | one.own_count()
        except Exception as error:
            _failed[one.MODULE] = f"its own count failed: {error!r}"[:200]
    return found


def allocated() -> dict[str, tuple[int, int | None]]:
    """(bytes in use, their limit) of the devices that tell."""
    found: dict[str, tuple[int, int | None]] = {}
    for one in _installed:
        found |= one.allocated()
    return found


def escaped() -> Iterator[tuple[type, int]]:
    """(class, how many) of tracers that have outlived their trace."""
    for one in _installed:
        kind = one.escaped()
        if kind is not None:
            yield kind
