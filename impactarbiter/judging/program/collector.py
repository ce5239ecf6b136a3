"""Where the source itself has the collector run."""

from __future__ import annotations

from .source_file import name_of, parsed
from .syntax import loops_around
from .unparsed import mentions


def collects(file: str) -> bool:
    """Whether a file has the collector run in a loop, or in a function that it
    calls in one."""
    source = parsed(file) if mentions(file, {"collect"}) else None
    if source is None:
        return False
    runs = [
        call
        for call in source.calls.get("collect", ())
        if name_of(getattr(call.func, "value", None)) in ("gc", "")
    ]
    around = [source.function(call) for call in runs]
    return any(
        any(loops_around(source, call))
        for call in (
            *runs,
            *(c for f in around if f for c in source.calls.get(f.name, ())),
        )
    )
