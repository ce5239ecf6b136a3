"""Interactive shells: how things are shown there, and what shells keep.

IPython keeps every cell's result and the last error's traceback, and with
that the locals of all its frames.  Source: IPython 9 (displayhook.py,
interactiveshell.py); what frees them was tried in a kernel.
"""

from __future__ import annotations

import re

from ..base.shell import running_shell

#: Out, its other names, and where the shell keeps the last three results.
_RESULTS = re.compile(
    r"__main__\.(Out|_oh|_{1,3}|_\d+)(?=[.\[]|$)"
    r"|.*\.displayhook\._{1,3}(?=[.\[]|$)"
    r"|.*\.user_ns_hidden\['_"
    r"|.*\['last_execution_result'\]\.result\b"
)
_NUMBER = re.compile(r"^__main__\.(?:Out|_oh)\[(\d+)\]")
_ERRORS = re.compile(
    r"sys\.last_(value|exc|traceback)\b"
    r"|.*\.InteractiveTB\.tb\b"
    r"|.*\['last_execution_result'\]\.error_in_exec\b"
)


def shell_advice(expression: str) -> str | None:
    """How to let go of what a shell holds; None for other holders."""
    if _ERRORS.match(expression):
        return (
            "the traceback of the last error keeps the locals of its frames:"
            " the next error takes its place (run `1/0`), then `gc.collect()`"
        )
    if running_shell() is not None and _RESULTS.match(expression):
        number = _NUMBER.search(expression)
        one = f"; `%xdel _{number[1]}` drops this one" if number else ""
        # %reset forgets the shell's hidden copies of the last three.
        return (
            "IPython keeps each cell's result: end the cell with `;` so that"
            f" there is none{one}; `%reset -f out` drops all but the last"
            " three"
        )
    return None
