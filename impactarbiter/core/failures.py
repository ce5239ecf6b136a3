"""Objects of torch's that a walk gave up looking at."""

from __future__ import annotations

from collections.abc import Callable

from . import frameworks
from .built import torch_module


def from_now() -> Callable[[], int]:
    """Counts the looks at objects of torch's that are given up from now on.

    What it gives imports nothing of ours when it is called.
    """
    if not frameworks.has_torch():
        return lambda: 0
    ours = torch_module()
    count, before = ours.walk_failures, ours.walk_failures()
    return lambda: count() - before
