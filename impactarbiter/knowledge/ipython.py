"""What IPython keeps, and what frees it.

IPython keeps every cell's result and the last error's traceback, and with
that the locals of all its frames.  Source: IPython 9 (displayhook.py,
interactiveshell.py); what frees them was tried in a kernel.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ..base.records import dataclass
from ..base.shell import running_shell
from ..model.path import Path


@dataclass(frozen=True)
class Spot:
    """Where something is kept: a name, by a pattern, behind another.

    ``first``: the outer one is the path's root and the name its first edge;
    else both are edges, anywhere on the path.
    """

    outer: str
    name: str
    first: bool = False

    def is_on(self, path: Path) -> bool:
        """Whether a path leads through it."""
        names = [edge.name for edge in path.edges]
        if self.first:
            pairs = [(path.root, name) for name in names[:1]]
        else:
            pairs = list(pairwise(names))
        return any(
            outer == self.outer and re.fullmatch(self.name, name)
            for outer, name in pairs
        )


#: ``Out``, its second names, and where the shell keeps the last results.
RESULTS = (
    Spot("__main__", r"Out|_oh|_{1,3}|_\d+", first=True),
    Spot("displayhook", r"_{1,3}"),
    Spot("user_ns_hidden", r"_.*"),
    Spot("last_execution_result", "result"),
)
#: The last error, and with it the frames that it went through.
ERRORS = (
    Spot("sys", "last_value|last_exc|last_traceback", first=True),
    Spot("InteractiveTB", "tb"),
    Spot("last_execution_result", "error_in_exec"),
)
#: Those of the results that a number tells apart.
_NUMBERED = Spot("__main__", "Out|_oh", first=True)


def shell_advice(path: Path) -> str | None:
    """How to let go of what a shell holds; None for other holders."""
    if any(spot.is_on(path) for spot in ERRORS):
        return (
            "the traceback of the last error keeps the locals of its frames:"
            " the next error takes its place (run `1/0`), then `gc.collect()`"
        )
    if running_shell() is None:
        return None
    if not any(spot.is_on(path) for spot in RESULTS):
        return None
    one = ""
    if _NUMBERED.is_on(path) and len(path.edges) > 1:
        number = path.edges[1].name
        one = f"; `%xdel _{number}` drops this one" if number.isdigit() else ""
    # %reset forgets the shell's hidden copies of the last three.
    return (
        "IPython keeps each cell's result: end the cell with `;` so that"
        f" there is none{one}; `%reset -f out` drops all but the last"
        " three"
    )
