"""The interactive shell that the program runs in, if any."""

from __future__ import annotations

import sys
from typing import Any


def pretty(self: object, printer: Any, cycle: bool) -> None:
    """``_repr_pretty_``: IPython's prompt shows ``str()``."""
    printer.text(str(self))


def cell_name(file: str) -> str | None:
    """``In[5]`` for the file name that IPython gave to a cell's code."""
    shell = running_shell()
    if shell is None:
        return None
    try:
        name = shell.compile.format_code_name(file)
    except AttributeError:  # an older one
        return None
    return name[1] if name else None


def running_shell() -> Any:
    """IPython's shell, where the program runs in one."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask() if ask is not None else None
