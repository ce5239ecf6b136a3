"""Where the source itself has the collector run."""

from __future__ import annotations

import ast

from .source_file import Source, name_of, parsed
from .syntax import loops_around
from .unparsed import mentions

#: A run through all there is.
WHOLE = 2


def collects(file: str) -> int | None:
    """The oldest generation that a file has the collector run through in a
    loop, be it in a function that is called in one; None: it does not."""
    source = parsed(file) if mentions(file, {"collect"}) else None
    if source is None:
        return None
    found = [
        _generation(call)
        for call in source.calls.get("collect", ())
        if name_of(getattr(call.func, "value", None)) in ("gc", "")
        and _is_repeated(source, call)
    ]
    return max(found, default=None)


def _is_repeated(source: Source, call: ast.Call) -> bool:
    """Whether a loop has it called, maybe through other functions."""
    calls = [call]
    through: set[str] = set()
    while calls:
        one = calls.pop()
        if any(loops_around(source, one)):
            return True
        around = source.function(one)
        if around is not None and around.name not in through:
            through.add(around.name)
            calls += source.calls.get(around.name, ())
    return False


def _generation(call: ast.Call) -> int:
    """1 of ``gc.collect(1)``; what is not written there may be all."""
    asked = [*call.args, *(one.value for one in call.keywords)]
    found = (one.value for one in asked if isinstance(one, ast.Constant))
    return next((one for one in found if isinstance(one, int)), WHOLE)
