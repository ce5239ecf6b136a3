"""Whose code is whose, told to the C core."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import ModuleType

from ..base.files import own_prefix
from .built import torch_module


def prepare() -> ModuleType:
    """Tells ``_core`` whose code is whose and what torch's objects are.

    Gives ``_torch``; NotBuiltError where it is another torch's.
    """
    import torch

    from .. import _core

    ours = torch_module()
    _core.set_code(_library_prefixes(), _user_files(), own_prefix())
    _core.set_types(torch.nn.Module, torch.optim.Optimizer)
    ours.register()
    return ours


def _library_prefixes() -> tuple[str, ...]:
    """Folders whose code is no user's: torch, packages, the library."""
    import torch

    paths = {sysconfig.get_path(n) for n in ("stdlib", "platstdlib")}
    paths |= {sysconfig.get_path(n) for n in ("purelib", "platlib")}
    paths |= {p for p in sys.path if os.path.basename(p).endswith("-packages")}
    paths.add(os.path.dirname(torch.__file__))
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
