"""What the C modules answer, as plain data: decoded here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .. import _core
from ..model.finding import GraphCost
from ..model.path import Edge, Path, name_in

if TYPE_CHECKING:
    from .._core import (
        _Device,
        _Edge,
        _Explained,
        _Holder,
        _Path,
        _Retained,
        _RootKind,
        _Status,
        _Tensor,
        _Totals,
        _Walk,
    )

#: Roots that are either the user's own or a library's.
_OF_LIBRARIES: tuple[_RootKind, ...] = ("module", "module state", "frame")


# -- the ledger ---------------------------------------------------------------


class Frame(NamedTuple):
    """A source position; ``library``: the code there is no user's."""

    file: str
    line: int
    function: str
    library: bool


class LiveBytes(NamedTuple):
    """Storages of one device now, and at the highest: bytes."""

    live: int = 0
    peak: int = 0


@dataclass(frozen=True)
class Totals:
    """Sums of the ledger, in bytes and storages.

    ``tensors`` are Python's that are accounted for, ``lost`` deaths of what
    was born unseen, ``generation`` the tick that is open.
    """

    live_bytes: int
    peak_bytes: int
    allowed_bytes: int
    live_count: int
    generation: int
    births: int
    deaths: int
    lost: int
    tensors: int
    ledger_bytes: int
    hook_seconds: float
    devices: Mapping[str, LiveBytes]

    def of(self, device: str) -> LiveBytes:
        """Of one device by its name; zeros where nothing was seen on it."""
        return self.devices.get(device, LiveBytes())


def totals_of(raw: _Totals) -> Totals:
    """The ledger's sums."""
    devices = {name: LiveBytes(*both) for name, both in raw["devices"].items()}
    return Totals(
        live_bytes=raw["live_bytes"],
        peak_bytes=raw["peak_bytes"],
        allowed_bytes=raw["allowed_bytes"],
        live_count=raw["live_count"],
        generation=raw["generation"],
        births=raw["births"],
        deaths=raw["deaths"],
        lost=raw["lost"],
        tensors=raw["tensors"],
        ledger_bytes=raw["ledger_bytes"],
        hook_seconds=raw["hook_seconds"],
        devices=devices,
    )


#: Kinds of events that end a step, the strongest first, as IA_EVENT_* are.
STEP_KINDS = ("optimizer", "backward", "module call", "manual")


class Counts(NamedTuple):
    """Events of each kind so far, the strongest first.

    ``optimizer`` counts rounds: two that step in turn make one.
    """

    optimizer: int = 0
    backward: int = 0
    module: int = 0
    manual: int = 0


@dataclass(frozen=True)
class Status:
    """Where the clocks are, and what watching cost so far.

    ``ticks`` counts every boundary event, ``position`` those of ``kind``, the
    strongest so far (an index of STEP_KINDS; its length before the first).
    ``by_tick``: that kind is silent for long, ticks are time.
    ``collector``: the collector runs by itself.  ``failure`` of a hook.
    """

    ticks: int
    position: int
    counts: Counts
    kind: int
    by_tick: bool
    boundary_seconds: float
    callback_seconds: float
    tick_seconds: float
    elapsed_seconds: float
    collector: bool
    failure: str | None

    @property
    def now(self) -> int:
        """What ages are measured by: position, or tick."""
        return self.ticks if self.by_tick else self.position


def status_of(raw: _Status) -> Status:
    """Where the clocks are."""
    return Status(
        ticks=raw["ticks"],
        position=raw["position"],
        counts=Counts(*raw["counts"]),
        kind=raw["kind"],
        by_tick=bool(raw["clock"]),
        boundary_seconds=raw["boundary_seconds"],
        callback_seconds=raw["callback_seconds"],
        tick_seconds=raw["tick_seconds"],
        elapsed_seconds=raw["elapsed_seconds"],
        collector=raw["collector"],
        failure=raw["failure"],
    )


class Point(NamedTuple):
    """What a moment was like: bytes in tensors and resident, and when."""

    tick: int
    live_bytes: int
    resident_bytes: int
    seconds: float
    counts: Counts


def point_of(raw: tuple[int, int, int, float, tuple[int, ...]]) -> Point:
    """One point of the history."""
    return Point(*raw[:4], Counts(*raw[4]))


class Interval(NamedTuple):
    """Births and deaths on one device between two moments.

    ``before``, ``born``, ``died`` and ``peak`` in bytes; ``peak_stack`` is
    the stack's number of the storage that made the peak, ``steps`` how many
    ended meanwhile.
    """

    before: int = 0
    born: int = 0
    died: int = 0
    peak: int = 0
    births: int = 0
    deaths: int = 0
    peak_stack: int = 0
    steps: int = 0


# -- devices ------------------------------------------------------------------


@dataclass(frozen=True)
class FollowedDevice:
    """A device whose allocator reports.

    ``code`` is device type << 8 | index, ``seen`` counts its events,
    ``followed`` says that its blocks are known, ``drift`` counts events that
    did not fit what was known of them.
    """

    device: str
    code: int
    seen: int
    followed: bool
    drift: int
    allocated_bytes: int
    pending_bytes: int
    reserved_bytes: int
    inactive_split_bytes: int
    largest_free_bytes: int


def device_of(raw: _Device) -> FollowedDevice:
    """What is known of one device."""
    return FollowedDevice(
        device=raw["device"],
        code=raw["code"],
        seen=raw["seen"],
        followed=raw["followed"],
        drift=raw["drift"],
        allocated_bytes=raw["allocated_bytes"],
        pending_bytes=raw["pending_bytes"],
        reserved_bytes=raw["reserved_bytes"],
        inactive_split_bytes=raw["inactive_split_bytes"],
        largest_free_bytes=raw["largest_free_bytes"],
    )


# -- paths --------------------------------------------------------------------


def path_of(raw: _Path) -> Path:
    """A ``Path`` of what ``_core`` says of one."""
    kind, root, user, edges = raw
    python = (
        kind == "module"
        and len(root) < _core.LONGEST_ROOT
        and all(part.isidentifier() for part in root.split("."))
        and all(edge[3] for edge in edges)
    )
    return Path(
        root,
        tuple(_edge(edge) for edge in edges),
        python,
        library=not user and kind in _OF_LIBRARIES,
    )


def _edge(raw: _Edge) -> Edge:
    kind, text, type_name, _python = raw
    return Edge(kind=kind, name=name_in(text), type=type_name, text=text)


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
    verdict: str
    paths: tuple[Path, ...]
    cycle: Path | None
    forever: bool
    retained_bytes: int
    retained_tensors: int
    graph: GraphCost | None
    referrers: int
    refcount: int
    still: bool


def answer_of(raw: _Explained) -> Answer:
    """One object's."""
    return Answer(
        target=_target(raw["type"], raw["tensor"]),
        verdict=raw["verdict"],
        paths=tuple(path_of(path) for path in raw["paths"]),
        cycle=cycle_of(raw["cycle"]),
        forever=bool(raw["forever"]),
        retained_bytes=raw["cost"]["bytes"],
        retained_tensors=raw["cost"]["storages"],
        graph=graph_of(raw["cost"]),
        referrers=raw["referrers"],
        refcount=raw["refcount"],
        still=bool(raw["still"]),
    )


def _target(type_name: str, tensor: _Tensor) -> Target:
    return Target(
        type_name, tensor["shape"], tensor["dtype"], tensor["device"]
    )


# -- suspects and holders -----------------------------------------------------

#: Bits of a suspect's ``kinds``.
GROWS_COUNT, GROWS_BYTES = _core.GROWS_COUNT, _core.GROWS_BYTES
#: Ages at which a line is suspect, and the window that goes with them.
AGE_FOR_REPORT, AGE_TO_TELL = _core.AGE_FOR_REPORT, _core.AGE_TO_TELL
USUAL_WINDOW = _core.USUAL_WINDOW


@dataclass(frozen=True)
class Suspect:
    """A line that keeps what it makes.

    ``since``: position (or tick) since which it does; ``life``: the longest
    lifetime that ever ended there; ``survivors``: storages of that stretch.
    """

    site: int
    kinds: int
    since: int
    life: int
    live_count: int
    survivors: int
    live_bytes: int
    cycle_bytes: int
    graph_nodes: int
    phase: int


class SiteNow(NamedTuple):
    """What is alive of one line.

    ``cycle_bytes`` were freed by the collector; ``life`` is the longest
    lifetime that ended; ``at_tick`` counts what was alive when the last tick
    ended: a program that ends drops what it kept.  ``graph_nodes`` were behind
    its newest tensor when that was last probed.
    """

    live_count: int
    live_bytes: int
    cycle_bytes: int
    life: int
    at_tick: int
    graph_nodes: int


@dataclass(frozen=True)
class Group:
    """Storages of one line on one holder; births by the clock in force."""

    site: int
    count: int
    generations: int
    first: int
    last: int
    depth: int
    bytes: int


@dataclass(frozen=True)
class Held:
    """A holder and what hangs on it, as one walk saw it.

    ``root`` is the kind of the path's root, ``depth`` counts its edges down
    to the holder.  ``length`` is None where it is no container.  ``owners``
    are addresses, the holder's first.  ``visit`` is the number of its path,
    0 where it can't be followed again.  ``born`` is when the example was.
    ``branches`` of its items lead to the storages of its groups.
    ``others`` of its sort, too many to be told singly, hold so many
    ``others_storages`` of ``others_bytes``; ``bytes`` counts them too.
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
    owners: tuple[int, ...]
    groups: tuple[Group, ...]
    bytes: int
    storages: int
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
    others: int
    others_storages: int
    others_bytes: int


def held_of(raw: _Holder) -> Held:
    """One holder."""
    holder, cost, example = raw["object"], raw["cost"], raw["example"]
    others, others_storages, others_bytes = raw["others"]
    return Held(
        site=raw["site"],
        stack=raw["stack"],
        born=raw["generation"],
        purpose=raw["purpose"],
        root=raw["path"][0],
        path=path_of(raw["path"]),
        depth=raw["holder_depth"],
        type=holder["type"],
        length=None if holder["length"] < 0 else holder["length"],
        bound=holder["bound"],
        owners=tuple(holder["owners"]),
        groups=tuple(Group(**group) for group in raw["groups"]),
        bytes=cost["bytes"],
        storages=cost["storages"],
        nodes=cost["nodes"],
        node_bytes=cost["node_bytes"],
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
    )


@dataclass(frozen=True)
class Walk:
    """What one walk found; ``purposes`` in bytes by what storages are for.

    ``left_out`` holders were too many to tell; ``graph``: the autograd graph
    was walked.
    """

    holders: tuple[Held, ...]
    purposes: Mapping[str, int]
    left_out: int
    graph: bool
    seconds: float


def walk_of(raw: _Walk) -> Walk:
    """One walk."""
    return Walk(
        holders=tuple(held_of(holder) for holder in raw["holders"]),
        purposes=raw["purposes"],
        left_out=raw["left_out"],
        graph=raw["graph"],
        seconds=raw["seconds"],
    )


class Visit(NamedTuple):
    """A known holder seen again: ``state`` "intact", "broken" or "unknown".

    ``length`` is None where it is no container.  ``value``, ``first`` (item)
    and ``graph`` are addresses, for comparing only.  ``recurs`` says of a
    tensor that has changed since the visit before whether its graph leads
    back to that one's; None where nothing can be compared.
    """

    state: str
    length: int | None
    value: int
    first: int
    graph: int
    recurs: bool | None = None


class Statement(NamedTuple):
    """A statement that was seen to grow a holder, and by how many items.

    ``idle``: times that it ran and the holder did not grow.
    """

    file: str
    line: int
    function: str
    times: int
    items: int
    idle: int
