"""Makes the Hugging Face Trainer know our options, once it is imported.

``impactarbiter run`` calls ``install()``; so does the start-up file that
``impactarbiter enable`` writes.  It costs some look-ups in a dict per import.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module

from ...base import imports

#: Module -> (module of ours, function) that it is given to once it has been
#: executed: what imports transformers itself is not imported before.
_AFTER = {
    "transformers.training_args": (".arguments", "extend_in"),
    "transformers.trainer": (".callback", "install"),
}


def _run(name: str) -> None:
    """A failure of ours is told and does not fail the import."""
    try:
        ours, function = _AFTER[name]
        module = sys.modules[name]
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
        imports.after(name, partial(_run, name))
