"""The hooks that watch: in and out."""

from __future__ import annotations

import gc
from typing import Any


def install() -> Any:
    """Hooks in; returns the handle of the optimizer hook."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from .. import _core, _torch
    from . import devices

    _torch.install()
    devices.cuda.install()
    gc.callbacks.append(_core.collector_event)
    return register_optimizer_step_post_hook(_core.optimizer_stepped)


def uninstall(optimizer_hook: Any) -> None:
    from .. import _core, _torch
    from . import devices

    if optimizer_hook is not None:
        optimizer_hook.remove()
    if _core.collector_event in gc.callbacks:
        gc.callbacks.remove(_core.collector_event)
        # This may run inside a collection, whose end is not told any more.
        _core.collector_event("stop", {})
    devices.cuda.uninstall()
    _torch.uninstall()
