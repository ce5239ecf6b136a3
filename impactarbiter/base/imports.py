"""Waiting for a module that the program may import later, or never."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Called without arguments; must not raise.
Callback = Callable[[], object]

_waiting: dict[str, Callback] = {}


def is_imported(name: str) -> bool:
    """Whether a module is there, and its own code has ended."""
    module = sys.modules.get(name)
    if module is None:
        return False
    spec = getattr(module, "__spec__", None)
    return not getattr(spec, "_initializing", False)


def after(name: str, function: Callback) -> None:
    """Calls ``function`` once the module's own code has ended.

    Costs a look-up in a dict per import.
    """
    _waiting[name] = function
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def forget(name: str) -> None:
    """Nobody waits for that module any more."""
    _waiting.pop(name, None)
    if not _waiting and _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)


class _Finder:
    """Leaves the finding to the others and waits for the module's end."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find: Any = getattr(finder, "find_spec", None)
            if finder is _Finder or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                _call_after(spec)
                return spec
        return None


def _call_after(spec: ModuleSpec) -> None:
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        # The loader is as it was when the module's own code sees it.
        del loader.exec_module
        execute(module)
        function = _waiting.get(spec.name)
        forget(spec.name)
        if function is not None:
            function()

    loader.exec_module = exec_module
