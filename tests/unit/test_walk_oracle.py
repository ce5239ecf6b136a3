"""The heap walk against a slow, obvious one: gc.get_referents and sets.

Random graphs of containers of all kinds, with tensors at some leaves, some of
which share their memory; what a module of the user's does not reach is
garbage, in cycles or not.
"""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import impactarbiter
from impactarbiter import _core, explain, retained_bytes
from impactarbiter.core import wire
from impactarbiter.model.path import Path

FILE = "/home/user/graph.py"

# -- nodes: each kind makes an empty one and knows how to add to it -----------


class Inline:
    pass


class WithDict:
    pass


class Slots:
    __slots__ = ("__weakref__", "items", "more")


def plain_add(node: Any, child: Any) -> None:
    node.append(child)


def key_value(node: Any, child: Any) -> None:
    node[f"k{len(node)}"] = child


def attribute(node: Any, child: Any) -> None:
    setattr(node, f"a{len(vars(node))}", child)


def inline_attribute(node: Any, child: Any) -> None:
    for name in ("p", "q", "r", "s", "t"):
        if not hasattr(node, name):
            setattr(node, name, child)
            return
    node.t = [node.t, child]


def slot(node: Any, child: Any) -> None:
    if hasattr(node, "items"):
        node.more = (getattr(node, "more", None), child)
    else:
        node.items = child


def made_dict() -> Any:
    node = WithDict()
    vars(node)
    return node


def closure() -> Any:
    kept: list[Any] = []

    def function() -> Any:
        return kept

    return function


def in_closure(node: Any, child: Any) -> None:
    node.__closure__[0].cell_contents.append(child)


def in_default(node: Any, child: Any) -> None:
    node.__defaults__ = (*(node.__defaults__ or ()), child)


def a_function() -> Any:
    def function() -> None:
        pass

    return function


def a_generator() -> Any:
    def generate() -> Iterator[Any]:
        kept: list[Any] = []
        while True:
            kept.append((yield))

    made = generate()
    next(made)
    return made


def send(node: Any, child: Any) -> None:
    node.send(child)


def in_partial(node: Any, child: Any) -> None:
    node.keywords[f"k{len(node.keywords)}"] = child


def as_key(node: Any, child: Any) -> None:
    try:
        node[child] = None
    except TypeError:  # not to be hashed
        node[len(node)] = (child,)


def as_member(node: Any, child: Any) -> None:
    try:
        node.add(child)
    except TypeError:
        node.add(functools.partial(id, child))


def an_exception() -> Any:
    return ValueError()


def in_args(node: Any, child: Any) -> None:
    node.args = (*node.args, child)


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], None]]] = {
    "list": (list, plain_add),
    "deque": (deque, plain_add),
    "dict": (dict, key_value),
    "dict keys": (dict, as_key),
    "OrderedDict": (OrderedDict, key_value),
    "defaultdict": (lambda: defaultdict(list), key_value),
    "set": (set, as_member),
    "namespace": (types.SimpleNamespace, attribute),
    "inline values": (Inline, inline_attribute),
    "dict of an instance": (made_dict, attribute),
    "slots": (Slots, slot),
    "closure": (closure, in_closure),
    "default": (a_function, in_default),
    "generator": (a_generator, send),
    "partial": (lambda: functools.partial(id), in_partial),
    "exception": (an_exception, in_args),
}


def tensors(count: int, shared: int) -> list[torch.Tensor]:
    """Each with memory of another size, and some that share theirs."""
    made = [torch.ones(4 + 3 * n) for n in range(count)]
    for n in range(min(shared, count)):
        storage = made[n].untyped_storage()
        made.append(torch.empty(0).set_(storage))
    return made


Graph = tuple[list[str], int, int, list[tuple[int, int]], list[int]]


@st.composite
def graphs(draw: Any) -> Graph:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=12))
    kinds = kinds or ["list"]
    count = draw(st.integers(1, 5))
    shared = draw(st.integers(0, 2))
    total = len(kinds) + count + min(shared, count)
    edge = st.tuples(st.integers(0, len(kinds) - 1), st.integers(0, total - 1))
    edges = draw(st.lists(edge, max_size=30, unique=True))
    roots = draw(st.lists(st.integers(0, total - 1), max_size=4, unique=True))
    return kinds, count, shared, edges, roots


def build(graph: Graph, module: types.ModuleType) -> list[Any]:
    kinds, count, shared, edges, roots = graph
    nodes = [KINDS[kind][0]() for kind in kinds] + tensors(count, shared)
    for parent, child in edges:
        KINDS[kinds[parent]][1](nodes[parent], nodes[child])
    for root in roots:
        setattr(module, f"root{root}", nodes[root])
    return nodes


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    made = types.ModuleType("graph")
    made.__file__ = FILE
    sys.modules["graph"] = made
    gc.collect()
    gc.disable()
    yield made
    gc.enable()
    del sys.modules["graph"]


def clear(module: types.ModuleType) -> None:
    for name in [name for name in vars(module) if name.startswith("root")]:
        delattr(module, name)
    gc.collect()


# -- the oracle --------------------------------------------------------------

ELSEWHERE = (type, types.ModuleType, types.CodeType, types.FrameType)


def reached_from(
    starts: Iterable[Any], emptied: object = None
) -> dict[int, Any]:
    """By identity: all that these lead to, and they themselves."""
    outside = {id(globals()), id(__builtins__)}
    seen: dict[int, Any] = {}
    todo = list(starts)
    while todo:
        op = todo.pop()
        if id(op) in seen or id(op) in outside or isinstance(op, ELSEWHERE):
            continue
        seen[id(op)] = op
        if op is not emptied:
            todo.extend(gc.get_referents(op))
    return seen


def roots_of(module: types.ModuleType) -> list[Any]:
    return [v for k, v in vars(module).items() if k.startswith("root")]


def memory_of(found: dict[int, Any], emptied: object = None) -> dict[int, int]:
    """Bytes by storage."""
    made: dict[int, int] = {}
    for op in found.values():
        if isinstance(op, torch.Tensor) and op is not emptied:
            storage = op.untyped_storage()
            made[storage._cdata] = storage.nbytes()
    return made


def freed_with(
    target: object, module: types.ModuleType, names: Iterable[object] = ()
) -> dict[int, int]:
    """Bytes by storage, of those that only the target leads to, and the
    module's variables that name one of these."""
    before = memory_of(reached_from(roots_of(module)))
    cut = {id(value) for value in names}
    stay = [value for value in roots_of(module) if id(value) not in cut]
    after = memory_of(reached_from(stay, target), target)
    return {key: n for key, n in before.items() if key not in after}


def cycles_among(nodes: list[Any]) -> tuple[set[int], set[int]]:
    """Addresses of those on a cycle, and of those that hang on one."""
    on: set[int] = set()
    behind: set[int] = set()
    for node in nodes:
        way = reached_from(gc.get_referents(node))
        if id(node) in way:
            on.add(id(node))
            behind |= way.keys()
    return on, behind


# -- the comparison ----------------------------------------------------------

#: Each walks through all that was imported; `make sweep` asks for more.
EXAMPLES = int(os.environ.get("IMPACTARBITER_EXAMPLES", "12"))
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)


def value_at(path: Any, module: types.ModuleType) -> object:
    return eval(path.expression, {"graph": module})


@thorough
@given(graph=graphs())
def test_reached_or_not_and_by_which_path(
    module: types.ModuleType, graph: Graph
) -> None:
    nodes = build(graph, module)
    alive = reached_from(roots_of(module))
    garbage = [node for node in nodes if id(node) not in alive]
    on, behind = cycles_among(garbage)
    wanted = [
        {"held"}
        if id(node) in alive
        else {"cycle"}
        if id(node) in on
        # Another target that leads to it may stand in the cycle's way.
        else {"cycle", "free"}
        if id(node) in behind
        else {"free"}
        for node in nodes
    ]
    addresses = [id(node) for node in nodes]
    del alive, garbage
    holder = [nodes]
    del nodes
    found = explain(*holder.pop(), paths=3)
    found = found if isinstance(found, tuple) else (found,)
    try:
        for r, address, verdicts in zip(found, addresses, wanted, strict=True):
            assert r.verdict in verdicts
            if r.verdict != "held":
                continue
            assert r.paths[0].root == "graph"
            assert len({p.expression for p in r.paths}) == len(r.paths)
            for path in r.paths:
                if path.python:
                    assert id(value_at(path, module)) == address
    finally:
        clear(module)


@thorough
@given(graph=graphs(), which=st.integers(0, 30))
def test_what_would_be_freed(
    module: types.ModuleType, graph: Graph, which: int
) -> None:
    nodes = build(graph, module)
    alive = reached_from(roots_of(module))
    held = [node for node in nodes if id(node) in alive]
    del nodes, alive
    gc.collect()
    try:
        if not held:
            return
        target = held[which % len(held)]
        held.clear()
        freed = freed_with(target, module)
        assert retained_bytes(target) == sum(freed.values())
        assert explain(target).retained_tensors == len(freed)
    finally:
        target = None
        clear(module)


@thorough
@given(graph=graphs())
def test_shared_parts_are_not_counted_twice(
    module: types.ModuleType, graph: Graph
) -> None:
    nodes = build(graph, module)
    alive = reached_from(roots_of(module))
    held = [node for node in nodes if id(node) in alive]
    del nodes, alive
    gc.collect()
    try:
        if len(held) < 2:
            return
        # What several would free, one inside the other, is the first one's.
        wanted, claimed = [], set()
        for node in held:
            freed = freed_with(node, module)
            wanted.append(sum(freed[key] for key in freed.keys() - claimed))
            claimed |= freed.keys()
        del node
        holder = [held]
        del held
        found = explain(*holder.pop())
        assert [r.retained_bytes for r in found] == wanted
    finally:
        clear(module)


# -- the ways to the holders --------------------------------------------------

#: Of a container's items those at its ends, where the newest is.
AT_THE_ENDS = 4
#: What the collector may look into (Py_TPFLAGS_HAVE_GC).
HAS_GC = 1 << 14


def holders_in(
    graph: Graph, module: types.ModuleType, parts: bool
) -> list[Any]:
    """What a walk says of the holders: containers where ``parts``, else each
    tensor for itself."""
    with impactarbiter.watch(step="manual"):
        build(graph, module)
        gc.collect()
        sites = {int(site) for site in _core.rows()["site"]}
        every = list(sites)
        anew = every if parts else []
        return _core.diagnose(every, every, False, anew, False, True)[
            "holders"
        ]


class Held:
    """A holder, its path, and the variables that are cut off with it."""

    def __init__(self, raw: Any, module: types.ModuleType) -> None:
        self.path = wire.path_of(raw["path"], raw["ways"])
        self.depth: int = raw["holder_depth"]
        several = any(group["count"] > 1 for group in raw["groups"])
        self.cuts_names: bool = raw["object"]["length"] >= 0 and several
        self.python = self.path.root == "graph" and self.path.python
        self.names: list[object] = []
        if self.python and self.cuts_names:
            self.names = newest_items(self.value(self.depth, module))

    def value(self, depth: int, module: types.ModuleType) -> object:
        upto = Path(self.path.root, self.path.edges[:depth])
        return value_at(upto, module)


def newest_items(holder: object) -> list[object]:
    items = [
        op for op in gc.get_referents(holder) if type(op).__flags__ & HAS_GC
    ]
    return items[:AT_THE_ENDS] + items[-AT_THE_ENDS:]


def compare_ways(raws: list[Any], module: types.ModuleType) -> tuple[int, int]:
    """How many objects on the holders' ways were compared, and of how many
    the way leads to a variable that names a newest item."""
    every = [Held(raw, module) for raw in raws]
    compared = named = 0
    for held in every:
        assert all(
            edge.retained_bytes is None
            for edge in held.path.edges[held.depth :]
        )
        for end in range(1, held.depth if held.python else 1):
            way = held.path.edges[:end]
            behind = [
                other
                for other in every
                if other.depth > end and other.path.edges[:end] == way
            ]
            if any(one.cuts_names and not one.python for one in behind):
                continue
            names = [name for one in behind for name in one.names]
            freed = freed_with(held.value(end, module), module, names)
            assert way[-1].retained_bytes == sum(freed.values())
            compared += 1
            named += freed != freed_with(held.value(end, module), module)
    return compared, named


@st.composite
def deep_graphs(draw: Any) -> Graph:
    """One root leads to all, over many objects; some have other names."""
    chosen = random.Random(draw(st.integers(0, 1 << 32)))
    kinds = [chosen.choice(sorted(KINDS)) for _ in range(8)]
    count, total = 10, 20
    edges = {
        (chosen.randrange(max(0, child - 4), child), child)
        for child in range(1, len(kinds))
    }
    edges |= {
        (chosen.randrange(len(kinds)), child)
        for child in range(len(kinds), total)
    }
    edges |= {
        (chosen.randrange(len(kinds)), chosen.randrange(total))
        for _ in range(chosen.randrange(6))
    }
    names = {chosen.randrange(total) for _ in range(chosen.randrange(3))}
    return kinds, count, total - len(kinds) - count, sorted(edges), [0, *names]


@thorough
@given(graph=deep_graphs(), parts=st.booleans())
def test_what_each_object_on_the_way_retains(
    module: types.ModuleType, graph: Graph, parts: bool
) -> None:
    try:
        compare_ways(holders_in(graph, module, parts), module)
    finally:
        clear(module)


#: Containers are 0 to 3, each in the one before; 4 and 9 share their memory.
NESTED: Graph = (
    ["list", "namespace", "dict", "list"],
    5,
    1,
    [(0, 1), (1, 2), (2, 3), (1, 4), (2, 5), (3, 6), (3, 7), (3, 8), (3, 9)],
    [0],
)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", [None, 1, 2, 3, 7])
def test_ways_that_are_many_objects_long(
    module: types.ModuleType, name: int | None, parts: bool
) -> None:
    kinds, count, shared, edges, roots = NESTED
    roots = [*roots, *([] if name is None else [name])]
    graph = kinds, count, shared, edges, roots
    try:
        compared, _ = compare_ways(holders_in(graph, module, parts), module)
        assert compared >= (3 if name is None else 1)
    finally:
        clear(module)
