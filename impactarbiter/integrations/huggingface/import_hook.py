"""Makes the Hugging Face Trainer know our options, once it is imported.

``impactarbiter run`` calls ``install()``; so does the start-up file that
``impactarbiter enable`` writes.  It costs one look-up in a dict per import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from ...base.imports import find

#: Module -> (module of ours, function) that it is given to once it has been
#: executed: what imports transformers itself is not imported before.
_AFTER = {
    "transformers.training_args": (".arguments", "extend_in"),
    "transformers.trainer": (".callback", "install"),
}


class _Finder:
    """Leaves the finding to the others and waits for the module's end."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name not in _AFTER:
            return None
        return find(_Finder, name, path, target, _run)


def _run(name: str, module: ModuleType) -> None:
    """A failure of ours is told and does not fail the import."""
    try:
        ours, function = _AFTER[name]
        getattr(import_module(ours, __package__), function)(module)
    except Exception as error:
        from ..session import log

        log.warning(
            "ImpactArbiter: the Trainer does not know our options: %s: %s",
            type(error).__name__,
            error,
        )


def install() -> None:
    """Waits for transformers, or serves what is imported of it already."""
    for name in _AFTER:
        module = sys.modules.get(name)
        if module is not None:
            _run(name, module)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
