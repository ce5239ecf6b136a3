"""What looks need not do: walks through libraries, visits on the way."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import heap, ledger, wire
from impactarbiter.judging import walks
from impactarbiter.judging.diagnostician import Diagnostician
from impactarbiter.judging.walks import Walks
from impactarbiter.judging.watch import StatementWatch

STEPS = 60
Keep = Callable[[torch.Tensor], object]


@pytest.fixture
def shelf() -> Iterator[Any]:
    """A library's module that has a list."""
    module = types.ModuleType("shelf_of_a_library")
    folder = sysconfig.get_paths()["purelib"]
    module.__file__ = os.path.join(folder, "shelf_of_a_library.py")
    code = (
        "kept = []\n"
        "def keep(tensor):\n    kept.append(tensor)\n"
        "def wrap(tensor):\n    return type('Made', (), {'mask': tensor})\n"
    )
    exec(code, vars(module))
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def make(*keep: Keep) -> set[int]:
    """Each of these keeps a tensor of each step; the lines that made them."""
    for _ in range(STEPS):
        made = torch.ones(300)
        for one in keep:
            one(made)
        del made
        _core.step()
    return {int(site) for site in _core.rows()["site"]}


def told(walk: wire.Walk) -> list[tuple[str, int, int]]:
    return [(str(h.path), h.bytes, h.storages) for h in walk.holders]


def test_the_users_own_is_enough() -> None:
    kept: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual"):
        lines = make(kept.append)
        near, whole = heap.walk(lines, near=True), heap.walk(lines)
    assert near.near
    assert not whole.near and not whole.in_libraries
    assert told(near) == told(whole)
    (found,) = near.holders
    assert found.storages == found.length == STEPS


def test_what_only_a_library_has_is_found(shelf: Any) -> None:
    with impactarbiter.watch(step="manual"):
        lines = make(shelf.keep)
        near, whole = heap.walk(lines, near=True), heap.walk(lines)
    assert not near.near
    assert told(near) == told(whole)
    assert str(near.holders[0].path).startswith("shelf_of_a_library.kept[")


def test_what_a_library_has_besides_is_measured_by_a_whole_walk(
    shelf: Any,
) -> None:
    kept: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual"):
        lines = make(kept.append, shelf.keep)
        near, whole = heap.walk(lines, near=True), heap.walk(lines)
    assert near.near and not near.holders[0].shared
    assert whole.in_libraries and whole.holders[0].shared


def item_of(tensor: torch.Tensor) -> object:
    return tensor


def view_of(tensor: torch.Tensor) -> object:
    """Another tensor on the same storage, of which the list knows nothing."""
    return tensor.detach().view(-1)


def pair_of(tensor: torch.Tensor) -> object:
    return ({"made": tensor},)


@pytest.mark.parametrize("way", [item_of, view_of, pair_of])
def test_what_a_library_has_of_it_is_no_cut_s(
    shelf: Any, way: Callable[[torch.Tensor], object]
) -> None:
    """A third of what the list has, as it is or by a view."""
    kept: list[torch.Tensor] = []

    def keep_some(tensor: torch.Tensor) -> None:
        if len(kept) % 3 == 0:
            shelf.keep(way(tensor))

    with impactarbiter.watch(step="manual"):
        lines = make(kept.append, keep_some)
        near, whole = heap.walk(lines, near=True), heap.walk(lines)
        ways = heap.walk(lines, ways=True)
    assert near.holders[0].storages == STEPS
    for walk in (whole, ways):
        assert walk.in_libraries
        assert walk.holders[0].storages == STEPS - STEPS // 3


def test_classes_that_a_library_makes_are_of_who_has_them(shelf: Any) -> None:
    """They name its module, and it does not know them."""
    kept: list[type] = []
    with impactarbiter.watch(step="manual"):
        lines = make(lambda tensor: kept.append(shelf.wrap(tensor)))
        walk = heap.walk(lines)
        ways = heap.walk(lines, ways=True)
    for one in (walk, ways):
        assert not one.in_libraries
        (found,) = one.holders
        assert found.storages == found.length == STEPS
        assert not found.shared
    assert kept[0].__module__ == shelf.__name__


def test_graphs_that_a_library_has_of_it_are_no_cut_s(shelf: Any) -> None:
    kept: list[torch.Tensor] = []
    weight = torch.ones(300, requires_grad=True)

    def keep_loss(tensor: torch.Tensor) -> None:
        kept.append((tensor * weight).sum())
        if len(kept) % 3 == 0:
            shelf.keep(kept[-1] + 1)

    with impactarbiter.watch(step="manual"):
        make(keep_loss)
        rows = _core.rows()
        lines = {int(site) for site in rows["site"][rows["bytes"] == 1200]}
        walk = heap.walk(lines)
    # Two nodes of each loss; the weight's is the weight's.
    assert walk.in_libraries
    assert walk.holders[0].graph.nodes == 2 * (STEPS - STEPS // 3)


def test_sums_are_of_all_that_is_alive(shelf: Any) -> None:
    kept: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual"):
        make(kept.append)
        assert heap.walk((), near=True).near
        make(shelf.keep)
        assert not heap.walk((), near=True).near


def walks_of(
    monkeypatch: pytest.MonkeyPatch, *keep: Keep
) -> list[bool]:
    """Whether each walk that looks at such a program made was near."""
    made: list[bool] = []
    walk = heap.walk

    def watched(*lines: Any, **how: Any) -> wire.Walk:
        found = walk(*lines, **how)
        if how.get("near") is not None and lines[0]:
            made.append(found.near)
        return found

    monkeypatch.setattr(heap, "walk", watched)
    with impactarbiter.watch(step="manual", on_finding=lambda _f: None):
        for _ in range(8):
            make(*keep)
    return made


def test_what_is_told_is_measured_whole_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walks, "WALK_SHARE", 1e9)  # all is paid for
    made = walks_of(monkeypatch, [].append)
    assert made[0]
    assert made[-2]  # the last is the report's
    assert made[:-1].count(False) == 1


def test_until_that_is_paid_for_it_is_left_to_the_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walks, "WALK_SHARE", 1e-9)
    made = walks_of(monkeypatch, [].append)
    assert len(made) > 1 and all(made[:-1])
    assert not made[-1]


def test_where_a_library_has_it_too_all_further_walks_are_whole(
    monkeypatch: pytest.MonkeyPatch, shelf: Any
) -> None:
    monkeypatch.setattr(walks, "WALK_SHARE", 1e9)
    made = walks_of(monkeypatch, [].append, shelf.keep)
    assert made[0]
    assert not any(made[made.index(False) :])


def test_nothing_is_visited_while_a_statement_is_sought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is sought at each tick, and what would be told waits for it."""
    sought: list[int] = []
    visited: list[int] = []
    seen, visit_all = heap.seen_statements, Walks.visit_all

    def counted() -> list[wire.Statement]:
        sought.append(ledger.status().ticks)
        return seen()

    def visits(walks: Walks, status: wire.Status) -> None:
        visited.append(status.ticks)
        visit_all(walks, status)

    monkeypatch.setattr(heap, "seen_statements", counted)
    monkeypatch.setattr(Walks, "visit_all", visits)
    kept: dict[int, torch.Tensor] = {}
    with impactarbiter.watch(step="manual"):
        for step in range(40 * STEPS):
            made = torch.ones(300)
            if step % 12 == 0:
                kept[step] = made
            del made
            _core.step()
    assert len(sought) > 3
    assert len(set(sought) & set(visited)) < len(sought) / 2


@pytest.mark.parametrize("sort", [dict, OrderedDict])
def test_what_a_cache_moves_to_its_end_has_not_left_it(
    sort: type[dict[int, torch.Tensor]],
) -> None:
    kept = sort()
    with impactarbiter.watch(step="manual"):
        sites = make(lambda made: kept.update({len(kept): made}))
        (held,) = heap.walk(sites).holders
        before = heap.visit(held.visit)
        kept[0] = kept.pop(0)
        if isinstance(kept, OrderedDict):
            kept.move_to_end(1)
        moved = heap.visit(held.visit)
        other = torch.ones(300)
        kept.clear()
        kept.update({STEPS + 1000: other})
        after = heap.visit(held.visit)
    assert before.first and before.eldest
    assert (moved.first, moved.eldest) == (before.first, before.eldest)
    assert after.first != before.first and after.eldest != before.eldest


def test_a_line_that_grew_before_waits_for_the_look_that_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its buckets turn some sixteen times as the run doubles, and so do those
    of other lines: no look is made for these."""
    monkeypatch.setattr(walks, "LOOK_SHARE", 1e-9)
    monkeypatch.setattr(StatementWatch, "begin", lambda *_given: False)
    looks: list[int] = []
    look = Diagnostician.look

    def counted(judge: Diagnostician, tick: int) -> None:
        looks.append(tick)
        look(judge, tick)

    monkeypatch.setattr(Diagnostician, "look", counted)
    kept: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual"):
        for _ in range(40 * STEPS):
            kept.append(torch.ones(4))
            _core.step()
    late = [tick for tick in looks if tick > 10 * STEPS]
    # Some are for the process, which may be seen to grow, too; the line's
    # turns alone are some thirty here, thrice as many as looks are due.
    due = [b - a >= walks.longest_pause(a) for a, b in pairwise(late)]
    assert due.count(True) > 5 and due.count(False) <= due.count(True)


def test_a_holder_that_only_a_library_has_is_found_again(
    monkeypatch: pytest.MonkeyPatch, shelf: Any
) -> None:
    made = walks_of(monkeypatch, shelf.keep)
    assert len(made) > 2
    assert not any(made)


def test_a_copy_of_the_newest_items_grows_by_none_of_their_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is freed once both lists lose it is what the other keeps."""
    monkeypatch.setattr(walks, "ALLOWANCE", 1e9)
    weight = torch.ones(30, requires_grad=True)
    kept: list[torch.Tensor] = []
    holder = types.SimpleNamespace(history=kept)
    recent: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual") as arbiter:
        del kept
        for step in range(40 * 12):
            holder.history.append((weight * 2).sum())
            if step % 40 == 39:
                recent = list(holder.history)[-20:]
            _core.step()
        report = arbiter.report()
    assert len(recent) == 20
    leaks = [f.holder for f in report.findings if f.verdict == "leak"]
    assert [one and one.expression.split(".")[-1] for one in leaks] == [
        "history"
    ]
