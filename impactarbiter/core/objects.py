"""What a tensor or an array takes besides its numbers."""

from __future__ import annotations

import sys
from functools import cache

from . import frameworks
from .built import torch_module

#: What the collector puts before an object.
_HEAD = sys.getsizeof([]) - list.__basicsize__


@cache
def least_bytes(device: str, in_python: bool) -> int:
    """Bytes of the process's memory that its own objects take, at least, on
    torch's devices and NumPy's; 0 for others, whose objects nobody measured.

    ``in_python``: there is an object of Python's for each.
    """
    family = device.partition(":")[0]
    if family == "numpy":
        return sys.modules["numpy"].ndarray.__basicsize__ if in_python else 0
    if family in frameworks.NAMES or not frameworks.has_torch():
        return 0
    import torch

    ours: int = torch_module().object_bytes()
    return ours + (torch.Tensor.__basicsize__ + _HEAD) * in_python
