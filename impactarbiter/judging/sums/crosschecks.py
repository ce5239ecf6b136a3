"""What frameworks say of their own memory, beside what we know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...base.units import format_bytes
from ...core import frameworks, questions
from ...core.wire import Totals, Walk

_CALLS = {"jax": "jax.live_arrays()"}


def sentences(totals: Totals, walk: Walk | None) -> tuple[str, ...]:
    """A sentence for each device that a framework tells of."""
    older = walk.older if walk is not None else {}
    return (*_counts(totals, older), *_allocated())


def _counts(totals: Totals, older: Mapping[str, int]) -> Iterator[str]:
    by_family: dict[str, int] = {}
    for device, size in frameworks.own_counts().items():
        family = device.partition(":")[0]
        by_family[family] = by_family.get(family, 0) + size
    for family, theirs in by_family.items():
        ours = older.get(family, 0) + sum(
            now.live
            for device, now in totals.devices.items()
            if device.partition(":")[0] == family
        )
        yield _compared(_CALLS.get(family, family), theirs, ours)


def tracers() -> Iterator[str]:
    """A sentence about tracers that have left their function, and who has
    them."""
    for cls, count in frameworks.escaped():
        _, paths = questions.instances(cls, 1)
        if not paths:
            continue
        more = f" and {count - 1} more" if count > 1 else ""
        yield (
            f"{paths[0]} is a tracer that has outlived its trace{more}: it"
            " keeps what its function was traced with; return the value"
            " instead of storing it"
        )


def _compared(call: str, theirs: int, ours: int) -> str:
    if theirs == ours:
        return f"{call} has the same {theirs:,} bytes"
    more = "more" if theirs > ours else "less"
    apart = format_bytes(abs(theirs - ours))
    return f"{call} has {theirs:,} bytes, {apart} {more} than is known here"


def _allocated() -> Iterator[str]:
    for device, (used, limit) in frameworks.allocated().items():
        of = "" if limit is None else f" of {format_bytes(limit)}"
        yield f"{device}: its allocator has given out {format_bytes(used)}{of}"
