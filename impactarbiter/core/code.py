"""Whose code is whose, told to the C core."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType

from ..base import imports
from ..base.files import absolute, own_prefix
from ..base.signals import Tolerated
from . import frameworks
from .built import loaded_torch_module, programs_torch, torch_module


def prepare() -> ModuleType | None:
    """Tells ``_core`` whose code is whose and what the objects of NumPy and
    the frameworks are that are imported.

    Gives ``_torch``, None where there is no torch; NotBuiltError where it is
    another torch's.
    """
    from .. import _core

    if imports.is_imported("numpy"):
        _know_arrays()
    ours = loaded_torch_module()
    if ours is None and frameworks.has_torch():
        ours = torch_module()
    _core.set_code(_library_prefixes(), _user_files(), own_prefix())
    if ours is not None:
        torch = programs_torch()
        _core.set_types(torch.nn.Module, torch.optim.Optimizer)
        ours.register()
    frameworks.register()
    return ours


def is_users(file: str) -> bool:
    """Whether the code of a file is the user's, once ``prepare`` was there."""
    from .. import _core

    return not _core.is_library(file)


def _know_arrays() -> None:
    """A NumPy that is broken has none."""
    from .. import _core

    with Tolerated():
        _core.arrays_know()


def _library_prefixes() -> tuple[str, ...]:
    """Folders whose code is no user's: frameworks, packages, the library."""
    paths = set(_python_folders())
    names = (p for p in sys.path if type(p) is str)
    paths |= {p for p in names if os.path.basename(p).endswith("-packages")}
    for name in ("torch", "jax", "tensorflow"):
        file = imports.names_in(name).get("__file__")
        if type(file) is str:
            paths.add(os.path.dirname(file))
    prefixes = {absolute(p) + os.sep for p in paths if p}
    # The standard library as its own modules name it.
    prefixes.add(os.path.dirname(os.__file__) + os.sep)
    prefixes.add(own_prefix())
    return tuple(sorted(prefixes))


def _python_folders() -> Iterator[str]:
    """The standard library and where packages are installed beside it.

    As ``sysconfig`` has it, which takes 6 ms to import.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix):
        for lib in ("lib", sys.platlibdir):
            yield os.path.join(prefix, lib, version)


def _user_files() -> tuple[str, ...]:
    """The program itself is the user's wherever it lies."""
    file = imports.names_in("__main__").get("__file__")
    return (file,) if type(file) is str else ()
