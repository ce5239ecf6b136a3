"""What may be taken of the values that pass a statement, seen what they were.

A holder's census describes its items; one value of the statement is the
tensors that were seen in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.records import dataclass
from ...model.finding import Finding, Kept
from ..program.uses import Uses

#: The part of the growth that a patch must stop.
ENOUGH = 0.9
#: Types that are named where there is none: one line says them.
MOST_SORTS = 3
#: A description as the census has it:
#: ("tensor", elements or -1, has_graph, bytes of its storage),
#: ("tuple", (description, ...)), ("dict", ((key, description), ...)),
#: ("other", type).
Description = tuple[Any, ...]
#: Descriptions and how often each was seen.
Seen = Mapping[Description, int]

#: Types that keep no tensor.
_PLAIN = frozenset({"NoneType", "bool", "bytes", "float", "int", "str"})


class NoPatchError(Exception):
    """Why there is no patch, in words for the report.

    ``instead`` is the advice that is right then ("": the usual one).
    """

    def __init__(self, why: str, instead: str = "") -> None:
        super().__init__(why)
        self.instead = instead


@dataclass(frozen=True)
class Holding:
    """What is known of what passes a statement.

    ``others``: how often it was seen to grow something else, for each time
    that it grew this holder.
    ``chained``: the graph of an item reaches further back than that of the
    one before.
    ``elsewhere``: the part that other statements were seen to bring.
    """

    census: Seen | None
    others: float = 0.0
    chained: bool = False
    elsewhere: float = 0.0


@dataclass(frozen=True)
class Taking:
    """What is taken of one value: "item", "detach", or "" for all of it.

    ``guarded``: only where it is a tensor.  ``stays``: bytes of an item that
    are kept all the same.
    """

    method: str
    guarded: bool = False
    stays: float = 0.0


def taking_of(seen: Seen, uses: Uses, *, sure: bool) -> Taking:
    """What to take of a value; ``sure``: nothing else passes in its place.

    Raises NoPatchError where it is neither a tensor nor plain.
    """
    if all(map(_is_plain, seen)):
        return Taking("")
    others = [o for o in seen if o[0] != "tensor" and not _is_plain(o)]
    if others:
        sorts = " and ".join(sorted({*map(_sort, others)})[:MOST_SORTS])
        raise NoPatchError(
            f"not all that it holds are tensors: some are {sorts}"
            if any(one[0] == "tensor" for one in seen)
            else f"what it holds are no tensors, but {sorts}"
        )
    tensors = {one: n for one, n in seen.items() if one[0] == "tensor"}
    graph = any(one[2] for one in tensors)
    guarded = not sure or len(tensors) < len(seen)
    number = all(one[1] == 1 for one in tensors)
    if number and not guarded and not uses.number:
        return Taking("item")
    size = sum(one[3] * n for one, n in tensors.items())
    stays = size / sum(seen.values())
    return (
        Taking("detach", guarded, stays) if graph else Taking("", False, stays)
    )


def _sort(one: Description) -> str:
    if one[0] == "other":
        return str(one[1])
    return f"a {one[0]} that is made elsewhere"


def _is_plain(one: Description) -> bool:
    """Whether it keeps no tensor."""
    if one[0] == "tensor":
        return False
    if one[0] == "other":
        return one[1] in _PLAIN
    return all(map(_is_plain, parts_of(one).values()))


def parts_of(one: Description) -> dict[str, Description]:
    """What a tuple, list or dict has, by index or key as written."""
    if one[0] in ("tuple", "list"):
        return {str(i): part for i, part in enumerate(one[1])}
    if one[0] == "dict":
        return {repr(key): part for key, part in one[1]}
    return {}


def plain_parts(seen: Seen) -> frozenset[str]:
    """Indices and keys, as written, of parts that keep no tensor in any."""
    plain: dict[str, bool] = {}
    todo = list(seen)
    for one in todo:  # which gets longer
        parts = parts_of(one)
        todo += parts.values()
        for key, part in parts.items():
            plain[key] = plain.get(key, True) and _is_plain(part)
    return frozenset(key for key, is_plain in plain.items() if is_plain)


def part_of(seen: Seen, sort: str, key: str) -> Seen:
    """What was seen at one place of a literal; NoPatchError: not in all."""
    found: dict[Description, int] = {}
    for one, n in seen.items():
        parts = parts_of(one)
        if one[0] != sort or key not in parts:
            raise NoPatchError("not all its items are alike")
        found[parts[key]] = found.get(parts[key], 0) + n
    return found


def share_stopped(finding: Finding, stays: float) -> float:
    """The part of the growth that ends where ``stays`` bytes of each item
    remain."""
    total = finding.all_bytes_per_step
    holder = finding.holder
    pace = holder.growth_per_step if holder else None
    if total <= 0 or stays <= 0:
        return 1.0
    rest = max(stays * (pace or 1.0), _own(finding))
    return max(1.0 - rest / total, 0.0)


def _own(finding: Finding) -> float:
    """Bytes a step of the tensors that no graph has saved: what the items have
    been seen to be, a few were long ago."""
    graph, size = finding.graph, finding.retained_bytes
    saved = min(graph.bytes / size, 1.0) if graph and size > 0 else 0.0
    return finding.bytes_per_step * (1.0 - saved)


def kept_of(finding: Finding, seen: Seen | None) -> Kept | None:
    """What the items keep by themselves; None where it was not seen."""
    tensors = [
        found
        for description, times in (seen or {}).items()
        for found in _tensors(description, times)
    ]
    if not seen or not tensors:
        return None
    size = sum(one[3] * n for one, n in tensors) / sum(seen.values())
    holder = finding.holder
    pace = holder.growth_per_step if holder else None
    single = holder is None or holder.length is None
    return Kept(
        bytes_per_step=(
            0.0 if single else max(size * (pace or 1.0), _own(finding))
        ),
        numbers=all(one[1] == 1 for one, _n in tensors),
        graphs=any(one[2] for one, _n in tensors),
    )


def _tensors(one: Description, times: int) -> list[tuple[Description, int]]:
    if one[0] == "tensor":
        return [(one, times)]
    return [
        found
        for part in parts_of(one).values()
        for found in _tensors(part, times)
    ]
