"""What walks and visits answer: paths, holders, and who holds an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ... import _core
from ...base.records import dataclass
from ...model.finding import GraphCost
from ...model.path import Edge, Path, name_in
from ...model.retention import Elsewhere
from ...model.words import RetentionVerdict

if TYPE_CHECKING:
    from ..._core import (
        _Edge,
        _Explained,
        _Holder,
        _Path,
        _Retained,
        _RootKind,
        _Tally,
        _Tensor,
        _Walk,
    )

#: Roots that are either the user's own or a library's.
_OF_LIBRARIES: tuple[_RootKind, ...] = ("module", "module state", "frame")


# -- paths --------------------------------------------------------------------


def path_of(raw: _Path, ways: Sequence[tuple[int, int] | None] = ()) -> Path:
    """A ``Path`` of what ``_core`` says of one.

    ``ways``: what the objects that its first edges lead to retain.
    """
    kind, root, user, edges = raw
    retained = (*ways, *(None for _edge in edges[len(ways) :]))
    python = (
        kind == "module"
        and len(root) < _core.LONGEST_ROOT
        and all(part.isidentifier() for part in root.split("."))
        and all(edge[3] for edge in edges)
    )
    return Path(
        root,
        tuple(
            _edge(edge, kept)
            for edge, kept in zip(edges, retained, strict=True)
        ),
        python,
        library=not user and kind in _OF_LIBRARIES,
    )


def _edge(raw: _Edge, retained: tuple[int, int] | None = None) -> Edge:
    kind, text, type_name, _python = raw
    size, nodes = retained or (None, None)
    return Edge(kind, name_in(text), type_name, text, size, nodes)


def cycle_of(raw: Sequence[_Edge] | None) -> Path | None:
    """A cycle as a path from one of its objects back to itself."""
    if not raw:
        return None
    return Path(f"<{raw[-1][2]}>", tuple(_edge(edge) for edge in raw))


def graph_of(cost: _Retained) -> GraphCost | None:
    """What a cut would free of the autograd graph."""
    if not cost["nodes"]:
        return None
    return GraphCost(
        cost["nodes"],
        cost["saved"],
        cost["saved_bytes"],
        tuple(cost["biggest"]),
        cost["node_bytes"],
    )


class Read(NamedTuple):
    """A node whose backward will read a block, what it has that as, and the
    site of its call in the forward; 0: not known."""

    node: str
    saved: str
    site: int


def reads_of(
    raw: tuple[int, list[tuple[str, str, int]]] | None,
) -> tuple[int, tuple[Read, ...] | None]:
    """(how many operations will read a block, the first of them)."""
    if raw is None:
        return 0, None
    return raw[0], tuple(Read(*one) for one in raw[1])


# -- who holds an object ------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """An object that was asked about: its type, and what a tensor shows."""

    type: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str = "cpu"

    def __str__(self) -> str:
        if self.dtype is None:
            return self.type
        shape = ", ".join(str(size) for size in self.shape or ())
        return f"{self.type} [{shape}] {self.dtype} {self.device}"


@dataclass(frozen=True)
class Answer:
    """Who holds one object: ``Retention`` without its words.

    ``forever``: the cycle is one that the collector never frees.  ``still``:
    no other thread was inside torch; else autograd graphs are left out.
    """

    target: Target
    verdict: RetentionVerdict
    paths: tuple[Path, ...]
    cycle: Path | None
    forever: bool
    retained_bytes: int
    retained_tensors: int
    graph: GraphCost | None
    referrers: int
    refcount: int
    still: bool
    readers: int
    reads: tuple[Read, ...] | None
    elsewhere: Elsewhere | None


def _elsewhere(raw: tuple[int, int, _Path] | None) -> Elsewhere | None:
    if raw is None:
        return None
    size, storages, path = raw
    return Elsewhere(path_of(path), size, storages)


def answer_of(raw: _Explained) -> Answer:
    """One object's."""
    readers, reads = reads_of(raw["needed"])
    return Answer(
        target=_target(raw["type"], raw["tensor"]),
        verdict=raw["verdict"],
        paths=tuple(map(path_of, raw["paths"], raw["ways"])),
        cycle=cycle_of(raw["cycle"]),
        forever=bool(raw["forever"]),
        retained_bytes=raw["cost"]["bytes"],
        retained_tensors=raw["cost"]["storages"],
        graph=graph_of(raw["cost"]),
        referrers=raw["referrers"],
        refcount=raw["refcount"],
        still=bool(raw["still"]),
        readers=readers,
        reads=reads,
        elsewhere=_elsewhere(raw["elsewhere"]),
    )


def _target(type_name: str, tensor: _Tensor) -> Target:
    return Target(
        type_name, tensor["shape"], tensor["dtype"], tensor["device"]
    )


# -- holders ------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Storages of one line on one holder, and the tensor objects there that
    show them; births by the clock in force."""

    site: int
    count: int
    objects: int
    generations: int
    first: int
    last: int
    depth: int
    bytes: int


class Sort(NamedTuple):
    """What so many holders have together to which one line's leads by the same
    types from one root: ``generations`` of births, from the ``first`` to the
    ``last``; ``in_turn``: each was filled in a time of its own."""

    members: int
    generations: int
    first: int
    last: int
    in_turn: bool


@dataclass(frozen=True)
class Held:
    """A holder and what hangs on it, as one walk saw it.

    ``root`` is the kind of the path's root, ``turn`` whether that is a
    variable of a loop's turn: of a call that it makes, or set anew in each;
    ``near``: the path is through no library's module.
    ``depth`` counts its edges down to the holder.  ``length`` is None where it
    is no container.  ``within``: what its items can have by their types,
    ``lone_keys``: so many of its keys nobody can ask for again.
    ``owners`` are addresses, the holder's first.  ``visit`` is the number of
    its path, 0 where it can't be followed again.  ``born`` is when the example
    was.
    ``branches`` of its items lead to the storages of its groups, ``older`` to
    what was there before the watch.  ``doubles`` of its sort have mostly what
    it has.
    ``on``: where those bytes of its groups are, by device.
    ``alone``: the share of its items that nothing else has; 0 where it was
    not measured.  ``others`` of its sort, too many to be told singly, hold so
    many ``others_storages`` of ``others_bytes``; ``bytes`` counts them too.
    ``shared``: cutting it alone frees nothing, other references hold the same;
    the figures are of all of them.  ``with_alike``: where it differs from
    others by an index alone, one of them has the cost of cutting all of them,
    and the others have none.  ``together``: the first of the holders on its
    graph, by its place among them.
    ``died``: it lies inside of an object that nothing leads to any more.
    Nobody adds to garbage, and what such an object led to was none before:
    it was filled while it was alive, and all of it died at once.
    """

    site: int
    stack: int
    born: int
    purpose: str
    root: str
    path: Path
    depth: int
    type: str
    length: int | None
    bound: int | None
    within: int | None
    lone_keys: int
    owners: tuple[int, ...]
    groups: tuple[Group, ...]
    bytes: int
    storages: int
    on: tuple[tuple[str, int], ...]
    nodes: int
    node_bytes: int
    graph: GraphCost | None
    shape: tuple[int, ...] | None
    dtype: str | None
    device: str
    example_bytes: int
    cycle: Path | None
    forever: bool
    visit: int
    branches: int
    alone: float
    others: int
    others_storages: int
    others_bytes: int
    sort: Sort
    shared: bool
    with_alike: bool
    together: int
    readers: int
    reads: tuple[Read, ...] | None
    older: int
    doubles: int
    turn: bool
    near: bool
    died: bool

    @property
    def generations(self) -> int:
        """Of births, of what hangs on it and on those that it stands for."""
        if self.others or self.sort.members == 1:
            return self.sort.generations
        return max(group.generations for group in self.groups)

    @property
    def span(self) -> tuple[int, int]:
        """When the first and the last of that were made."""
        if self.others:
            return self.sort.first, self.sort.last
        return self.eldest, max(group.last for group in self.groups)

    @property
    def eldest(self) -> int:
        """When the first was made of what hangs on it."""
        return min(group.first for group in self.groups)

    @property
    def is_memo(self) -> bool:
        """Whether it is functools.lru_cache's: it asks for each key before it
        sets it."""
        edges = self.path.edges
        return (
            self.depth < len(edges) and edges[self.depth].kind == "lru_cache"
        )

    def goes_by_the_name_of(self, other: Held) -> bool:
        """Whether the way to the one holder is that to the other."""
        return self.depth == other.depth and self._leads_through(other)

    @property
    def place(self) -> str:
        """What leads to the holder."""
        return self.path.expression_upto(self.depth)

    def lies_in(self, other: Held) -> bool:
        """Whether the way to this holder leads through the other."""
        return self.depth > other.depth and self._leads_through(other)

    def goes_with(self, other: Held) -> bool:
        """Whether it is an item of the other container, or both are items of
        one: what empties that lets go of both."""
        ours, theirs = (one.path.edges[: one.depth] for one in (self, other))
        if self.path.root != other.path.root or not ours:
            return False
        above = ours[:-1]
        beside = bool(theirs) and theirs[-1].is_item and above == theirs[:-1]
        return ours[-1].is_item and (beside or above == theirs)

    def _leads_through(self, other: Held) -> bool:
        above, depth = other.path, other.depth
        return (
            self.path.root == above.root
            and self.path.edges[:depth] == above.edges[:depth]
        )


def _from_its_context(path: Path, depth: int) -> tuple[Path, int]:
    """A context's variable goes by its own name: which of the objects that
    have a task leads to its context, changes from turn to turn."""
    edges = path.edges
    for at in reversed(range(1, depth)):
        if edges[at].kind == "context" and edges[at].text.startswith("["):
            return Path("<context>", edges[at:]), depth - at
    return path, depth


def held_of(raw: _Holder) -> Held:
    """One holder."""
    holder, cost, example = raw["object"], raw["cost"], raw["example"]
    others, others_storages, others_bytes = raw["others"]
    readers, reads = reads_of(raw["needed"])
    path, depth = _from_its_context(
        path_of(raw["path"], raw["ways"]), raw["holder_depth"]
    )
    return Held(
        site=raw["site"],
        stack=raw["stack"],
        born=raw["generation"],
        purpose=raw["purpose"],
        root=raw["path"][0],
        path=path,
        depth=depth,
        type=holder["type"],
        length=None if holder["length"] < 0 else holder["length"],
        bound=holder["bound"],
        within=None if holder["within"] < 0 else holder["within"],
        lone_keys=holder["lone_keys"],
        owners=tuple(holder["owners"]),
        groups=tuple(Group(**group) for group in raw["groups"]),
        bytes=cost["bytes"],
        storages=cost["storages"],
        on=tuple(cost["on"]),
        nodes=cost["nodes"],
        node_bytes=cost["node_bytes"],
        alone=cost["freed_items"] / max(cost["items"], 1),
        graph=graph_of(cost),
        shape=example["shape"],
        dtype=example["dtype"],
        device=example["device"],
        example_bytes=example["bytes"],
        cycle=cycle_of(raw["cycle"]),
        forever=bool(raw["forever"]),
        visit=raw["visit"],
        branches=raw["branches"],
        others=others,
        others_storages=others_storages,
        others_bytes=others_bytes,
        sort=Sort(*raw["sort"]),
        shared=bool(raw["shared"]),
        with_alike=bool(raw["with_alike"]),
        together=raw["together"],
        readers=readers,
        reads=reads,
        older=raw["older"],
        doubles=raw["doubles"],
        turn=bool(raw["turn"]),
        near=bool(raw["near"]),
        died=raw["path"][0] == "cycle" and raw["holder_depth"] > 0,
    )


class OfType(NamedTuple):
    """So many ``objects`` of one type, and their bytes.

    ``owned`` of the bytes, at least half of them and no more than the half
    between that and all, hang on the object at the address ``owner``, and
    ``path`` leads to it; 0 and None where none is known to have so many: then
    none has more than three quarters.
    """

    objects: int = 0
    bytes: int = 0
    owned: int = 0
    owner: int = 0
    path: Path | None = None


@dataclass(frozen=True)
class Tally:
    """What a walk has weighed: bytes of Python's objects, in all and by type.

    ``types`` with few bytes are left out.
    ``malloc`` of all bytes are malloc's.  ``nodes`` are autograd's; ``arrays``
    are blocks of NumPy's that the ledger doesn't know.  This package's own
    objects are left out: ``own`` bytes, ``own_malloc`` of them malloc's.
    """

    types: Mapping[str, OfType]
    bytes: int
    malloc: int
    nodes: int
    arrays: int
    own: int = 0
    own_malloc: int = 0


class Unheld(NamedTuple):
    """Storages of one line that nothing in Python leads to: C++ holds them.

    ``first`` and ``last`` birth by the clock in force; ``stack`` and
    ``device`` are the newest one's.
    """

    site: int
    stack: int
    device: str
    storages: int
    bytes: int
    generations: int
    first: int
    last: int


@dataclass(frozen=True)
class Walk:
    """What one walk found; ``purposes`` in bytes by what storages are for.

    ``left_out`` holders were too many to tell; ``graph``: the autograd graph
    was walked.  ``older`` has the bytes of what was there before the watch, by
    what it is for.  ``tally`` is there where it was asked for.  ``near``: the
    user's own led to all that was asked, and libraries' modules were left out.
    ``in_libraries``: they were not, and hold some of what the holders have.
    """

    holders: tuple[Held, ...]
    purposes: Mapping[str, int]
    older: Mapping[str, int]
    tally: Tally | None
    unheld: tuple[Unheld, ...]
    left_out: int
    graph: bool
    near: bool
    in_libraries: bool
    seconds: float


def _tally_of(raw: _Tally | None) -> Tally | None:
    if raw is None:
        return None
    types = {
        name: OfType(count, size, owned, owner, path and path_of(path))
        for name, (count, size, (owned, owner, path)) in raw["types"].items()
    }
    return Tally(
        types=types,
        bytes=raw["bytes"],
        malloc=raw["malloc"],
        nodes=raw["nodes"],
        arrays=raw["arrays"],
        own=raw["own"],
        own_malloc=raw["own_malloc"],
    )


def walk_of(raw: _Walk) -> Walk:
    """One walk."""
    return Walk(
        holders=tuple(held_of(holder) for holder in raw["holders"]),
        purposes=raw["purposes"],
        older=raw["older"],
        tally=_tally_of(raw["tally"]),
        unheld=tuple(Unheld(*one) for one in raw["unheld"]),
        left_out=raw["left_out"],
        graph=raw["graph"],
        near=raw["near"],
        in_libraries=raw["in_libraries"],
        seconds=raw["seconds"],
    )


class Visit(NamedTuple):
    """A known holder seen again: ``state`` "intact", "broken" or "unknown".

    ``length`` is None where it is no container.  ``value``, ``first`` (item)
    and ``graph`` are addresses, for comparing only; so is ``eldest``, the item
    that has been in a container for longest.  ``recurs`` says of a
    tensor that has changed since the visit before whether its graph leads
    back to that one's; None where nothing can be compared.  ``bytes``: a
    tensor's memory.
    """

    state: str
    length: int | None
    value: int
    first: int
    graph: int
    recurs: bool | None = None
    bytes: int = 0
    eldest: int = 0


class Statement(NamedTuple):
    """A statement that was seen to grow a holder, and by how many items.

    ``idle``: times that it ran and the holder did not grow.  ``calls`` are
    file, line and function of the user's calls that had led to it, the
    innermost first, when it was seen first.
    """

    file: str
    line: int
    function: str
    times: int
    items: int
    idle: int
    calls: tuple[tuple[str, int, str], ...] = ()
