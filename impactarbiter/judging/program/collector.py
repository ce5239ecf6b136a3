"""Where the source itself has the collector run."""

from __future__ import annotations

from .source_file import name_of, parsed
from .syntax import loops_around
from .unparsed import mentions


def collects(file: str) -> bool:
    """Whether a file has the collector run in a loop, or in functions by which
    it does so in one."""
    source = parsed(file) if mentions(file, {"collect"}) else None
    if source is None:
        return False
    runs = [
        call
        for call in source.calls.get("collect", ())
        if name_of(getattr(call.func, "value", None)) in ("gc", "")
    ]
    through: set[str] = set()
    while runs:
        call = runs.pop()
        if any(loops_around(source, call)):
            return True
        around = source.function(call)
        if around is not None and around.name not in through:
            through.add(around.name)
            runs += source.calls.get(around.name, ())
    return False
