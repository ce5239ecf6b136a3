"""What the C modules were built for, and whether that is what runs here."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import os
import sys
from types import ModuleType
from typing import Any, NamedTuple

from ..base.errors import NotBuiltError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_torch_module: ModuleType | None = None
_programs_torch: ModuleType | None = None
_optimizers: ModuleType | None = None

_AGAIN = (
    "build it again in its source folder: pip install --no-build-isolation"
    " --no-deps --force-reinstall ."
)


class Build(NamedTuple):
    """What setup.py noted; all None where nothing was built."""

    torch: str | None = None
    cuda: str | None = None
    numpy: str | None = None
    python: str | None = None
    compiler: str | None = None
    modules: tuple[str, ...] = ()


def build() -> Build:
    """What the installed modules were built for."""
    try:
        with io.open(os.path.join(_PACKAGE, "built.json"), "rb") as stream:
            told = json.load(stream)
        return Build(**told | {"modules": tuple(told["modules"])})
    except (OSError, ValueError, TypeError, KeyError):
        return Build()


def require_core() -> None:
    """NotBuiltError where this is a folder of sources."""
    if importlib.util.find_spec("impactarbiter._core") is None:
        raise NotBuiltError(
            f"impactarbiter in {_PACKAGE} has no built modules: install it"
            " with `pip install --no-build-isolation .` and start Python in"
            " another folder, or with -P"
        )


def torch_module() -> ModuleType:
    """``_torch``, for the program's torch, which is imported; NotBuiltError
    where it was built for another.

    torch's C++ classes change between releases: what was compiled for one
    reads another's memory wrong.
    """
    global _torch_module, _programs_torch, _optimizers
    torch = sys.modules["torch"]
    built = build().torch
    if built is not None and _release(built) != _release(torch.__version__):
        raise NotBuiltError(
            f"impactarbiter was built for torch {built}, and torch"
            f" {torch.__version__} is imported: {_AGAIN}"
        )
    from .. import _torch

    if _torch_module is None:
        _optimizers = importlib.import_module("torch.optim.optimizer")
        _torch_module, _programs_torch = _torch, torch
    return _torch


def loaded_torch_module() -> ModuleType | None:
    """The same, where it was asked for before; imports nothing."""
    return _torch_module


def programs_torch() -> Any:
    """torch itself, once that was asked for: ``sys.modules`` may have lost it
    since, and an import would run all of its code again."""
    return _programs_torch


def programs_optimizers() -> Any:
    """Its ``torch.optim.optimizer``, likewise."""
    return _optimizers


def _release(version: str) -> str:
    """Without what tells a build for CPUs from one for CUDA."""
    return str(version).partition("+")[0]
