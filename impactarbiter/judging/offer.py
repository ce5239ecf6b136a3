"""Whether a patch may be offered: only where nothing that was seen speaks
against it, and where it stops nearly all of the growth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.finding import Finding

#: The part of the growth that a patch must stop.
ENOUGH = 0.9
#: A description as the census has it: ("tensor", is_scalar, has_graph),
#: ("tuple", (description, ...)), ("dict", ((key, description), ...)), ...
Description = tuple[Any, ...]


def objection(
    finding: Finding,
    method: str,
    keys: tuple[str, ...],
    census: Mapping[Description, int] | None,
) -> str | None:
    """What speaks against taking ``.item()`` or ``.detach()`` of what passes
    the statement at ``keys`` of each item; None where nothing does."""
    if census is None:
        return "what it holds could not be looked at"
    for description in census:
        problem = _problem(description, method, keys)
        if problem is not None:
            return problem
    share = _share(finding, method)
    if share < ENOUGH:
        return (
            f"`.{method}()` would stop {share:.0%} of the growth: the tensors"
            " themselves are the rest"
        )
    return None


def _problem(
    description: Description, method: str, keys: tuple[str, ...]
) -> str | None:
    sort = description[0]
    if not keys:
        if sort != "tensor":
            return f"not all that it holds are tensors: some are {sort}"
        if method == "item" and not description[1]:
            return "not all that it holds are single numbers"
        return None
    parts = _parts(description)
    if keys[0] not in parts:
        return "not all its items are alike"
    others = [part for key, part in parts.items() if key != keys[0]]
    if any(_keeps_more(part) for part in others):
        return "another value in the same item keeps memory, too"
    return _problem(parts[keys[0]], method, keys[1:])


def _parts(description: Description) -> dict[str, Description]:
    sort = description[0]
    if sort in ("tuple", "list"):
        return {str(i): part for i, part in enumerate(description[1])}
    if sort == "dict":
        return {repr(key): part for key, part in description[1]}
    return {}


def _keeps_more(description: Description) -> bool:
    """Whether this is a tensor of more than a number, or has a graph."""
    sort = description[0]
    if sort == "tensor":
        return bool(description[2]) or not description[1]
    return any(_keeps_more(part) for part in _parts(description).values())


def _share(finding: Finding, method: str) -> float:
    """The part of the growth that ends."""
    total = finding.all_bytes_per_step
    if total <= 0 or method == "item":
        return 1.0
    holder = finding.holder
    pace = holder.growth_per_step if holder else None
    size = finding.tensors[0].bytes if finding.tensors else 0
    stays = size * (1.0 if pace is None else pace)
    return max(1.0 - stays / total, 0.0)
