"""Waiting for a module that the program may import later, or never."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Called without arguments; must not raise.
Callback = Callable[[], object]

_waiting: dict[str, Callback] = {}


_NAMES_OF: Any = vars(ModuleType)["__dict__"].__get__


def names_of(module: object) -> dict[str, Any]:
    """A module's names, without its own code; {} of what only stands in
    ``sys.modules``, as programs put other objects there."""
    if not issubclass(type(module), ModuleType):
        return {}
    names = _NAMES_OF(module)
    return names if type(names) is dict else {}


def is_imported(name: str) -> bool:
    """Whether a module is there, and its own code has ended."""
    module = sys.modules.get(name)
    if module is None:
        return False
    spec = getattr(module, "__spec__", None)
    return not getattr(spec, "_initializing", False)


def is_there(name: str) -> bool:
    """Whether somebody has imported a module, or is about to: another thread
    that is in the module's own code is waited for."""
    if sys.modules.get(name) is None:
        return False
    if not is_imported(name):
        with suppress(Exception):  # the module's own
            import_module(name)
    return sys.modules.get(name) is not None


def after(name: str, function: Callback) -> None:
    """Calls ``function`` once the module's own code has ended.

    Costs a look-up in a dict per import.
    """
    _waiting[name] = function
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def when_there(
    name: str, now: Callback, later: Callback | None = None
) -> None:
    """Calls ``now``, which may raise, or once the module has come ``later``,
    by default the same."""
    if is_there(name):
        now()
    else:
        after(name, later or now)


def forget(name: str) -> None:
    """Nobody waits for that module any more."""
    _waiting.pop(name, None)
    if not _waiting and _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)


def find(
    finder: object,
    name: str,
    path: Sequence[str] | None,
    target: ModuleType | None,
    then: Callable[[str, ModuleType], object],
) -> ModuleSpec | None:
    """What the finders of ``sys.meta_path`` but this one find.

    ``then`` is called with the name and the module once its code has ended.
    """
    for other in list(sys.meta_path):
        find_spec: Any = getattr(other, "find_spec", None)
        if other is finder or find_spec is None:
            continue
        spec: ModuleSpec | None = find_spec(name, path, target)
        if spec is not None:
            _call_after(spec, then)
            return spec
    return None


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
        return find(_Finder, name, path, target, _came)


def _came(name: str, _module: ModuleType) -> None:
    function = _waiting.get(name)
    forget(name)
    if function is not None:
        function()


def _call_after(
    spec: ModuleSpec, then: Callable[[str, ModuleType], object]
) -> None:
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        # The loader is as it was when the module's own code sees it.
        del loader.exec_module
        execute(module)
        then(spec.name, module)

    with suppress(AttributeError, TypeError):  # one that is fixed
        loader.exec_module = exec_module
