"""Holders that are alike, as walks find them, and what is told of all.

Containers that differ by an index alone, as `lists[3]` and `lists[4]`, grow by
one statement and are one holder with one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ...base.records import replace
from ...core.wire import Held
from ...model.finding import Finding, GraphCost
from ...model.words import Verdict
from .observation import Observation, charged_once

#: Holders that are alike, and what is told of each.
Siblings: TypeAlias = list[tuple[Held, Finding]]


def stands_for(siblings: Siblings) -> tuple[Held, Finding]:
    """The one that stands for all: it grew last; of cycles one that the
    collector never frees."""
    return max(siblings, key=lambda pair: (pair[0].forever, pair[1].last_step))


def told_as_one(
    siblings: Siblings,
    walked: Observation,
    size: float,
    count: float,
    verdict: Verdict,
) -> Finding:
    """The finding of all, which grew by so many bytes and storages a step
    until they were ``walked`` to."""
    _held, finding = stands_for(siblings)
    charged = charged_once([held for held, _finding in siblings])
    first = min(f.first_step for _held, f in siblings)
    last = max(f.last_step for _held, f in siblings)
    return replace(
        finding,
        bytes_per_step=size,
        tensors_per_step=count,
        verdict=verdict,
        retained_bytes=walked.bytes,
        retained_tensors=sum(held.storages for held in charged),
        generations=min(_generations(siblings), last - first + 1),
        first_step=first,
        last_step=last,
        graph=_graph_of_all(charged),
    )


def count_of(fellows: Iterable[Held]) -> int:
    """With those that they stand for."""
    return sum(1 + held.others for held in fellows)


def _generations(siblings: Siblings) -> int:
    """Of births, as many as are known to have left something there: those of
    a sort that is told as a whole, or of the one with the most."""
    held = [one for one, _finding in siblings]
    whole = [
        one.sort.generations
        for one in held
        if one.sort.members
        <= count_of(other for other in held if other.sort == one.sort)
    ]
    return max([one.generations for one in held] + whole)


def _graph_of_all(charged: Sequence[Held]) -> GraphCost | None:
    """What cutting all of them frees of it."""
    graphs = [held.graph for held in charged if held.graph is not None]
    if len(graphs) < 2:
        return graphs[0] if graphs else None
    kinds: dict[str, tuple[int, int]] = {}
    for name, count, size in (one for g in graphs for one in g.biggest):
        nodes, saved = kinds.get(name, (0, 0))
        kinds[name] = nodes + count, saved + size
    biggest = [(name, *kind) for name, kind in kinds.items()]
    biggest.sort(key=lambda one: (-one[2], -one[1]))
    return GraphCost(
        nodes=sum(g.nodes for g in graphs),
        saved_tensors=sum(g.saved_tensors for g in graphs),
        bytes=sum(g.bytes for g in graphs),
        biggest=tuple(biggest[: max(len(g.biggest) for g in graphs)]),
        node_bytes=sum(g.node_bytes for g in graphs),
    )


def died_at_once(fellows: Sequence[Held]) -> bool:
    """Whether it is garbage that came about at once.  Garbage grows by more
    of it, filled one after another."""
    if not fellows or not all(one.died for one in fellows):
        return False
    firsts = [min(g.first for g in one.groups) for one in fellows]
    lasts = [max(g.last for g in one.groups) for one in fellows]
    return max(firsts) <= min(lasts)
