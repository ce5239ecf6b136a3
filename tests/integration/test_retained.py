"""Retained bytes against the allocator's own account of what comes back."""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import warm
from torch import nn

import impactarbiter
from impactarbiter import _core
from impactarbiter.model.finding import Finding
from impactarbiter.model.path import Edge
from impactarbiter.watching.arbiter import current


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """The ledger counts what the allocator gives out and gets back.

    The collector is off: what it frees between two looks is no part of it.
    """
    torch.manual_seed(0)
    gc.collect()
    gc.disable()
    with impactarbiter.watch(step="manual"):
        yield
    gc.enable()


def live() -> int:
    _core.refresh()
    total: int = _core.totals()["live_bytes"]
    return total


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


def lstm() -> nn.Module:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(32, 24, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.lstm(x)[0]
            return out

    return Tagger()


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 10)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


MODELS = {
    "transformer": transformer,
    "lstm": lstm,
    "convolutions": convolutions,
}


def measure(name: str, after_backward: bool) -> tuple[int, int]:
    """Bytes promised for one kept loss, and bytes that come back."""
    model = MODELS[name]()
    batch = torch.randn(4, 10, 32)
    loss = model(batch).square().mean()
    if after_backward:
        loss.backward()
    promised = impactarbiter.explain(loss).retained_bytes
    before = live()
    del loss
    return promised, before - live()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("after_backward", [False, True])
def test_one_kept_loss(name: str, after_backward: bool) -> None:
    """In a process of its own: nothing else holds or lets go meanwhile."""
    code = f"""
import gc, runpy, sys, torch, impactarbiter
sys.path.append({os.path.dirname(warm.__file__)!r})
here = runpy.run_path({__file__!r})
gc.disable()
torch.manual_seed(0)
with impactarbiter.watch(step="manual"):
    print(*here["measure"]({name!r}, {after_backward}))
"""
    said = warm.run(["-c", code])
    assert said.returncode == 0, said.stderr
    promised, freed = map(int, said.stdout.split())
    assert freed > 0
    assert promised == pytest.approx(freed, rel=0.02)


def test_a_finding_of_kept_losses() -> None:
    model, kept = transformer(), []
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        kept.append(model(torch.randn(2, 5, 32)).square().mean())
        arbiter.step()
    (finding,) = arbiter.report().findings
    assert finding.verdict == "leak"
    before = live()
    kept.clear()
    freed = before - live()
    assert freed > 1 << 20
    assert finding.retained_bytes == pytest.approx(freed, rel=0.02)


FREED_FIRST = """
import torch, impactarbiter
from impactarbiter import _core
def live():
    _core.refresh()
    return _core.totals()["live_bytes"]
impactarbiter.watch(step="manual")
w = torch.ones(1000, requires_grad=True)
losses = []
for _ in range(300):
    losses.append((w * 2).sinh().sum())
    losses[-1].backward()
impactarbiter.retained_bytes(w)
y = w * 1
for _ in range(20):
    y = y.sinh()
y = y.sum()
promised, before = impactarbiter.explain(y).retained_bytes, live()
del y
print(promised, before - live())
"""


def test_nodes_of_a_class_that_was_only_seen_freed() -> None:
    said = warm.run(["-c", FREED_FIRST])
    assert said.returncode == 0, said.stderr
    promised, freed = map(int, said.stdout.split())
    assert promised == freed > 0


def test_two_holders_of_one_graph_claim_it_once_at_most() -> None:
    weight = torch.ones(1000, requires_grad=True)
    first, second = [], []
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        middle = (weight * 2).exp()
        first.append(middle.sum())
        second.append(middle.mean())
        arbiter.step()
    report = arbiter.report()
    claimed = sum(finding.retained_bytes for finding in report.findings)
    assert claimed <= report.live_bytes
    assert report.accounted["findings"] == claimed


# -- the way to a holder ------------------------------------------------------

Add = Callable[[torch.Tensor], object]


class Owner:
    """An object whose attributes hold tensors."""

    def __init__(self, **held: object) -> None:
        vars(self).update(held)


def one_object() -> tuple[Any, Add]:
    owner: Any = Owner(history=[], last=torch.ones(100))
    return owner, lambda x: owner.history.append(x)


def many_objects() -> tuple[Any, Add]:
    store = {"kept": [], "last": torch.ones(10)}
    part = Owner(store=store, last=torch.ones(100))
    owner: Any = Owner(parts=[Owner(), part, torch.ones(1000)])
    return owner, lambda x: owner.parts[1].store["kept"].append(x)


def a_module() -> tuple[Any, Add]:
    owner: Any = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(4, 4)))
    owner[1].seen = []
    return owner, lambda x: owner[1].seen.append(x)


def with_graphs() -> tuple[Any, Add]:
    """What each step keeps is a sum, and the tensor that its node saved."""
    owner, add = one_object()
    owner.weight = torch.ones(16, requires_grad=True)
    return owner, lambda x: add((owner.weight * 2).exp().sum())


#: How many objects lead to the holder, it among them.
WAYS = {one_object: 2, many_objects: 5, a_module: 3, with_graphs: 2}


def leaked(add: Add) -> Finding:
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        add(torch.ones(16))
        arbiter.step()
    (finding,) = arbiter.report().findings
    return finding


def way_of(finding: Finding) -> tuple[Edge, ...]:
    assert finding.path is not None
    return finding.path.edges[: finding.holder_depth]


def empty(thing: Any) -> None:
    (thing if isinstance(thing, (list, dict)) else vars(thing)).clear()


def freed_by_emptying(owner: object, way: Sequence[Edge]) -> int:
    """What comes back where that object, behind `owner`, is emptied."""
    text = "owner" + "".join(edge.text for edge in way[1:])
    thing, before = eval(text, {"owner": owner}), live()
    empty(thing)
    return before - live()


@pytest.mark.parametrize(
    ("make", "at"),
    [
        pytest.param(make, at, id=f"{make.__name__}-{at}")
        for make, count in WAYS.items()
        for at in range(count)
    ],
)
def test_what_an_object_on_the_way_frees_when_it_is_emptied(
    make: Callable[[], tuple[Any, Add]], at: int
) -> None:
    owner, add = make()
    finding = leaked(add)
    way = way_of(finding)
    assert len(way) == WAYS[make] and way[0].name == "owner"
    promised = way[at].retained_bytes
    assert promised is not None and promised >= finding.retained_bytes > 0
    assert freed_by_emptying(owner, way[: at + 1]) == promised
    nodes = finding.graph.node_bytes if finding.graph else 0
    assert [edge.retained_node_bytes for edge in way] == [nodes] * len(way)
    assert (nodes > 0) == (make is with_graphs)


#: An item of what each of them fills.
ITEMS = {
    one_object: "owner.history[3]",
    many_objects: "owner.parts[1].store['kept'][3]",
    a_module: "owner[1].seen[3]",
    with_graphs: "owner.history[3]",
}


@pytest.mark.parametrize(
    ("make", "at"),
    [
        pytest.param(make, at, id=f"{make.__name__}-{at}")
        for make, count in WAYS.items()
        for at in range(count)
    ],
)
def test_what_an_object_on_the_way_to_an_explained_one_frees(
    make: Callable[[], tuple[Any, Add]], at: int
) -> None:
    """The variable it was asked by is set aside, as it is for the answer."""
    owner, add = make()
    for _ in range(20):
        add(torch.ones(16))
    asked = eval(ITEMS[make], {"owner": owner})
    found = impactarbiter.explain(asked)
    way = found.paths[0].edges
    assert len(way) == WAYS[make] + 1 and way[0].name == "owner"
    assert way[-1].retained_bytes == found.retained_bytes > 0
    del asked
    promised = way[at].retained_bytes
    holder = "".join(edge.text for edge in way[1:-1])
    graph = impactarbiter.explain(eval(f"owner{holder}")).graph
    assert freed_by_emptying(owner, way[: at + 1]) == promised
    nodes = graph.node_bytes if graph else 0
    assert [e.retained_node_bytes for e in way[:-1]] == [nodes] * WAYS[make]
    assert (nodes > 0) == (make is with_graphs)


def test_the_ways_of_several_explained_objects() -> None:
    """Two lie on one path, one of them below the other."""
    owner, add = many_objects()
    for _ in range(20):
        add(torch.ones(16))
    store = owner.parts[1].store
    found = impactarbiter.explain(store["kept"][3], store, owner.parts[2])
    sizes = [[e.retained_bytes for e in r.paths[0].edges] for r in found]
    del store
    whole = 20 * 64 + 40
    above = [whole + 4400, whole + 4400, whole + 400]
    assert (
        sizes
        == [
            [*above, whole, 20 * 64, 64],
            [
                *above,
                whole - 64,
            ],  # what the first of them has, the first retains
            [*above[:2], 4000],
        ]
    )
    assert freed_by_emptying(owner, found[0].paths[0].edges[:1]) == above[0]


def test_the_ways_of_more_explained_objects_than_a_set_has_bits() -> None:
    owner = {n: [torch.ones(16) for _ in range(n)] for n in (64, 6)}
    found = impactarbiter.explain(*owner[64], *owner[6])
    sizes = [[e.retained_bytes for e in r.paths[0].edges] for r in found]
    whole, first, last = 70 * 64, 64 * 64, 6 * 64
    assert sizes == [[whole, first, 64]] * 64 + [[whole, last, 64]] * 6


def test_each_of_several_ways_to_an_explained_object() -> None:
    owner = Owner(first=[torch.ones(16)], last=Owner(kept=torch.ones(100)))
    owner.last.second = {"x": owner.first[0]}  # type: ignore[attr-defined]
    found = impactarbiter.explain(owner.first[0], paths=2)  # type: ignore[attr-defined]
    sizes = {
        str(path.edges[-2].text): [e.retained_bytes for e in path.edges]
        for path in found.paths
    }
    assert sizes == {
        ".first": [464, 0, 64],
        ".second": [464, 400, 0, 64],
    }


def test_what_only_garbage_leads_to_has_no_owner() -> None:
    garbage: list[Any] = [torch.ones(16)]
    tensor = garbage[0]
    garbage.append(garbage)
    del garbage
    found = impactarbiter.explain(tensor)
    assert found.verdict == "cycle" and len(found.paths) == 1
    assert not found.paths[0].measured


@pytest.mark.parametrize("at", range(4))
def test_what_has_two_names_is_retained_by_neither(at: int) -> None:
    """The dict of the second part: what leads to it has its own alone."""
    owner, add = many_objects()
    other = Owner(deep=[[[owner.parts[1].store]]])
    way = way_of(leaked(add))
    sizes = [edge.retained_bytes for edge in way]
    assert sizes == [4000 + 400, 4000 + 400, 400, 40 + 20 * 64, 20 * 64]
    assert freed_by_emptying(owner, way[: at + 1]) == sizes[at]
    del other


def test_a_variable_that_names_the_newest_item_is_cut_as_well() -> None:
    owner, _add = one_object()
    arbiter = current()
    assert arbiter is not None
    state = torch.ones(16, requires_grad=True) * 1
    for _ in range(20):
        state = state.exp()
        owner.history.append(state)
        arbiter.step()
    (finding,) = arbiter.report().findings
    promised = way_of(finding)[0].retained_bytes
    assert promised == 400 + finding.retained_bytes
    before = live()
    del state
    empty(owner)
    assert before - live() == promised


def test_looks_do_not_measure_it() -> None:
    """While the program runs nobody reads it."""
    told: list[Finding] = []
    impactarbiter.watching.arbiter.current().stop()  # type: ignore[union-attr]
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        _owner, add = one_object()
        for _ in range(110):
            add(torch.ones(16))
            arbiter.step()
    assert told and way_of(told[0])[0].retained_bytes is None
    (finding,) = arbiter.report().findings
    assert way_of(finding)[0].retained_bytes is not None


def test_masked_names_keep_their_figures() -> None:
    impactarbiter.watching.arbiter.current().stop()  # type: ignore[union-attr]
    with impactarbiter.watch(step="manual", obfuscate=True):
        owner, add = one_object()
        way = way_of(leaked(add))
    assert owner and way[0].name != "owner"
    assert [edge.retained_bytes for edge in way] == [400 + 20 * 64, 20 * 64]


def test_a_module_itself_is_not_measured() -> None:
    """All that a program has hangs on it."""
    module: Any = types.ModuleType("kept_by")
    module.__file__ = "/home/user/kept_by.py"
    module.history, module.last = [], torch.ones(100)
    sys.modules["kept_by"] = module
    try:
        finding = leaked(lambda x: module.history.append(x))
        assert str(finding.path) == "kept_by.history[19]"
        sizes = [edge.retained_bytes for edge in way_of(finding)]
        assert sizes == [finding.retained_bytes] == [20 * 64]
    finally:
        del sys.modules["kept_by"]


def innermost(value: Any) -> Any:
    while value and isinstance(value[0], list):
        value = value[0]
    return value


def test_of_a_long_way_the_nearest_to_the_holder_are_measured() -> None:
    owner: list[Any] = []
    for _ in range(20):
        owner = [owner]
    finding = leaked(lambda x: innermost(owner).append(x))
    sizes = [edge.retained_bytes for edge in way_of(finding)]
    assert sizes == [None] * 4 + [finding.retained_bytes] * 17


def test_of_many_holders_the_largest_ones_have_their_ways_measured() -> None:
    owner = Owner(**{f"part{n}": [[[[[]]]]] for n in range(20)})
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        for size, part in enumerate(vars(owner).values(), 1):
            innermost(part).append(torch.ones(size))
        del part
        arbiter.step()
    found = {f.retained_bytes: way_of(f) for f in arbiter.report().findings}
    assert len(found) == 20
    measured = [
        size
        for size, way in found.items()
        if None not in [edge.retained_bytes for edge in way]
    ]
    # `owner`, and four lists of each.
    assert sorted(measured) == sorted(found)[-15:]
    assert all(found[size][1].retained_bytes == size for size in measured)


def test_what_takes_too_many_walks_is_not_measured() -> None:
    """Large branches side by side, each let in to measure the others."""
    owner = Owner(
        **{
            f"part{n}": Owner(data=[[None] for _ in range(80_000)], kept=[])
            for n in range(16)
        }
    )
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        for part in vars(owner).values():
            part.kept.append(torch.ones(16))
        del part
        arbiter.step()
    found = arbiter.report().findings
    sizes = {way_of(f)[1].retained_bytes for f in found}
    assert sizes == {None, 20 * 64}
    assert [f.retained_bytes for f in found] == [20 * 64] * 16
