"""Who holds what: walks over the heap, and visits to known holders."""

from __future__ import annotations

import gc
from collections.abc import Collection, Sequence
from typing import Any

from .. import _core
from . import wire


def suspects(age: int) -> list[wire.Suspect]:
    """Lines that have kept what they make for at least so long."""
    return [wire.Suspect(**raw) for raw in _core.suspects(age)]


def late_suspects(age: int) -> list[wire.Suspect]:
    """Lines that have done so for so many ticks, mostly since the position
    last moved."""
    return [wire.Suspect(**raw) for raw in _core.late_suspects(age)]


def rises() -> list[wire.Rise]:
    """Lines with ever more bytes alive, of whatever is alive by now; not those
    of a few hundredths of all that rose."""
    return [wire.Rise(*raw) for raw in _core.rises()]


def site_now(site: int) -> wire.SiteNow:
    """What is alive of one line."""
    return wire.SiteNow(*_core.site_now(site))


def site_older(site: int, tick: int) -> int:
    """How many live storages of a line were born by that tick, at most."""
    return _core.site_older(site, tick)


def site_ages(site: int) -> wire.SiteAges:
    """What is alive of one line, by when it was made."""
    return wire.SiteAges(*_core.site_ages(site))


def walk(
    sites: Collection[int],
    any_age: Collection[int] = (),
    anew: Collection[int] = (),
    alone: Collection[int] = (),
    *,
    remember: bool = True,
    weigh: bool = False,
    ways: bool = False,
    near: bool = False,
) -> wire.Walk:
    """Walks the heap once and says who holds what these lines made.

    ``weigh``: also what Python's objects weigh, by type.  ``ways``: also what
    each object on the way to a holder retains.  ``near``: libraries' modules,
    which most of a heap hangs on, are left out where the user's own lead to
    all of these storages, or without a site to all that are alive.

    Of those in ``any_age`` also what was made before the warm-up was over.
    What those in ``anew`` made is told apart one by one, for each step makes
    all of it anew.  What those in ``alone`` made is told apart from nothing:
    there is no more of it, each is larger than the one before it in its place.
    ``remember``: the holders' paths, for visits, until others
    are kept.
    """
    return wire.walk_of(
        _core.diagnose(
            list(sites),
            list(any_age),
            remember,
            list(anew),
            weigh,
            ways,
            near,
            list(alone),
        )
    )


def visit(path: int) -> wire.Visit:
    """Follows a known path again, without a walk; some microseconds."""
    seen = wire.Visit(*_core.visit(path))
    return seen._replace(length=None) if (seen.length or 0) < 0 else seen


def visit_all(paths: Sequence[int]) -> wire.Visit:
    """Several holders that are alike, seen again as one."""
    return as_one([visit(path) for path in paths])


def as_one(seen: Sequence[wire.Visit]) -> wire.Visit:
    """Visits of several holders: together as long and as large, and intact
    where each of them is; what is compared is the same in whatever order."""
    if len(seen) == 1:
        return seen[0]
    lengths = [one.length for one in seen if one.length is not None]
    firsts = frozenset(one.first for one in seen)
    eldest = frozenset(one.eldest for one in seen)
    recurs = {one.recurs for one in seen} - {None}
    return wire.Visit(
        next((one.state for one in seen if one.state != "intact"), "intact"),
        sum(lengths) if len(lengths) == len(seen) else None,
        value=seen[0].value,
        first=hash(firsts) if all(firsts) else 0,
        graph=max(one.graph for one in seen),
        recurs=True in recurs if recurs else None,
        bytes=sum(one.bytes for one in seen),
        eldest=hash(eldest) if all(eldest) else 0,
    )


def collections() -> tuple[int, ...]:
    """How often the collector has gone through each of its generations, the
    youngest first; the last is all there is: what has lived for a while before
    it became garbage no other run frees."""
    return tuple(of["collections"] for of in gc.get_stats())


def keep(paths: Collection[int]) -> None:
    """All other paths are forgotten."""
    _core.keep_paths(list(paths))


def census(path: int) -> dict[Any, int] | None:
    """How many items of which sort a holder has; None where it is gone."""
    return _core.census(path)


def watch_statement(path: int, by_graph: bool) -> bool:
    """Watches which statements grow a holder.

    ``by_graph``: it may be as long as it was, and carry on a graph from the
    value that it had to the one that it gets.  False where another tracer is
    set, or the path does not hold any more.
    """
    return _core.watch_statement(path, by_graph)


def end_statement() -> tuple[list[wire.Statement], bool]:
    """Ends that; what was seen, and whether the path held all along."""
    seen, held = _core.end_statement()
    return [wire.Statement(*raw) for raw in seen], held


def seen_statements() -> list[wire.Statement]:
    """What such a watch, which goes on, has seen so far."""
    seen, _held = _core.seen_statements()
    return [wire.Statement(*raw) for raw in seen]
