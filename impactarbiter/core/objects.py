"""What a tensor or an array takes besides its numbers."""

from __future__ import annotations

import sys
from types import ModuleType

from . import frameworks

#: What the collector puts before an object.
_HEAD = sys.getsizeof([]) - list.__basicsize__

#: Bytes of torch's objects, in C++ and in Python, once its hooks are in.
_torchs = (0, 0)


def know(torch: ModuleType) -> None:
    """Those of torch are known from now on; ``torch`` is our module."""
    global _torchs
    from torch import Tensor

    _torchs = torch.object_bytes(), Tensor.__basicsize__ + _HEAD


def least_bytes(device: str, in_python: bool) -> int:
    """Bytes of the process's memory that its own objects take, at least, on
    torch's devices and NumPy's; 0 for others, whose objects nobody measured.

    ``in_python``: there is an object of Python's for each.
    """
    family = device.partition(":")[0]
    if family == "numpy":
        numpy = sys.modules.get("numpy")
        return numpy.ndarray.__basicsize__ if numpy and in_python else 0
    if family in frameworks.NAMES:
        return 0
    in_cpp, python = _torchs
    return in_cpp + python * in_python
