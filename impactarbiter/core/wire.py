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
        _Path,
        _Retained,
        _RootKind,
        _Status,
        _Tensor,
        _Totals,
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
    was born unseen, ``generation`` the step that is open.
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


@dataclass(frozen=True)
class Status:
    """Where the counting of steps is, and what watching cost so far.

    ``steps`` ended since the start, ``offset`` of them before it was settled
    what ends them (``step_kind``); ``provisional``: that is guessed so far.
    ``collector``: the collector runs by itself.  ``failure`` of a hook.
    """

    steps: int
    offset: int
    step_kind: str | None
    provisional: bool
    boundary_seconds: float
    callback_seconds: float
    step_seconds: float
    elapsed_seconds: float
    collector: bool
    failure: str | None


def status_of(raw: _Status) -> Status:
    """Where the counting of steps is."""
    return Status(
        steps=raw["steps"],
        offset=raw["offset"],
        step_kind=raw["source"],
        provisional=raw["provisional"],
        boundary_seconds=raw["boundary_seconds"],
        callback_seconds=raw["callback_seconds"],
        step_seconds=raw["step_seconds"],
        elapsed_seconds=raw["elapsed_seconds"],
        collector=raw["collector"],
        failure=raw["failure"],
    )


class Point(NamedTuple):
    """Live bytes at the end of a step, and when that was."""

    step: int
    live_bytes: int
    seconds: float


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
