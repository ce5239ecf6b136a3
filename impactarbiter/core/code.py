"""Whose code is whose, told to the C core."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import ModuleType

from ..base.files import own_prefix
from . import frameworks
from .built import torch_module


def prepare() -> ModuleType | None:
    """Tells ``_core`` whose code is whose and what the frameworks' objects
    are.

    Gives ``_torch``, None where there is no torch; NotBuiltError where it is
    another torch's.
    """
    from .. import _core

    ours = torch_module() if frameworks.has_torch() else None
    _core.set_code(_library_prefixes(), _user_files(), own_prefix())
    if ours is not None:
        import torch

        _core.set_types(torch.nn.Module, torch.optim.Optimizer)
        ours.register()
    frameworks.register()
    return ours


def _library_prefixes() -> tuple[str, ...]:
    """Folders whose code is no user's: frameworks, packages, the library."""
    paths = {sysconfig.get_path(n) for n in ("stdlib", "platstdlib")}
    paths |= {sysconfig.get_path(n) for n in ("purelib", "platlib")}
    paths |= {p for p in sys.path if os.path.basename(p).endswith("-packages")}
    for name in ("torch", "jax", "tensorflow"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            paths.add(os.path.dirname(file))
    prefixes = {os.path.abspath(p) + os.sep for p in paths if p}
    # The standard library as its own modules name it.
    prefixes.add(os.path.dirname(os.__file__) + os.sep)
    prefixes.add(own_prefix())
    return tuple(sorted(prefixes))


def _user_files() -> tuple[str, ...]:
    """The program itself is the user's wherever it lies."""
    main = sys.modules.get("__main__")
    file = main.__dict__.get("__file__") if main is not None else None
    return (file,) if isinstance(file, str) else ()
