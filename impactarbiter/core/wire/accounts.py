"""What the ledger, its clocks and the devices answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import _core
from ...base.records import dataclass
from ...model.words import StepKind

if TYPE_CHECKING:
    import numpy as np

    from ..._core import _Device, _History, _Status, _Totals

    Column = np.ndarray[Any, np.dtype[Any]]
else:
    #: One of NumPy's arrays, structured or of numbers.
    Column = object  # it is the program that imports NumPy


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

    ``tensors`` are Python's that are accounted for, ``lost`` those that could
    not be recorded for want of memory; for the same reason ``stacks_lost``
    allocations have not all of their lines, and ``graphs_lost`` looks at a
    graph gave no answer.  ``generation`` is the tick that is open.
    """

    live_bytes: int
    peak_bytes: int
    allowed_bytes: int
    live_count: int
    generation: int
    births: int
    deaths: int
    lost: int
    stacks_lost: int
    graphs_lost: int
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
        stacks_lost=raw["stacks_lost"],
        graphs_lost=raw["graphs_lost"],
        tensors=raw["tensors"],
        ledger_bytes=raw["ledger_bytes"],
        hook_seconds=raw["hook_seconds"],
        devices=devices,
    )


#: Kinds of events that end a step, the strongest first, as IA_EVENT_* are.
STEP_KINDS: tuple[StepKind, ...] = (
    "optimizer",
    "backward",
    "module call",
    "compiled call",
    "manual",
    "loop turn",
)
#: Those of them that do not train.
CALLS = tuple(
    map(STEP_KINDS.index, ("module call", "compiled call", "loop turn"))
)


class Counts(NamedTuple):
    """Events of each kind so far, the strongest first.

    ``optimizer`` counts rounds: two that step in turn make one.
    """

    optimizer: int = 0
    backward: int = 0
    module: int = 0
    compiled: int = 0
    manual: int = 0
    turn: int = 0


@dataclass(frozen=True)
class Status:
    """Where the clocks are, and what watching cost so far.

    ``ticks`` counts every boundary event, ``position`` those of the strongest
    kind, and of the one that comes in its place where it has fallen silent.
    ``strongest_until`` and ``strongest_counts``: as of the last of the
    strongest kind.
    ``by_tick``: ticks are time.  ``trained``: the program has shown more than
    calls, whatever its steps are.  ``kind``: what a step is, an index of
    STEP_KINDS.
    ``freed_from``: garbage made since then, by what ages are measured by, the
    collector frees in time: 0 where it runs by itself or the program has it go
    through all now and then, None where neither is known.  ``collects``: the
    program has had it run while it had turned it off.
    ``rises``: the process was seen to grow beside its tensors.  ``silent``:
    time has stood still for longer than between any two steps.  ``failure``
    of a hook.
    """

    ticks: int
    position: int
    counts: Counts
    strongest_until: int
    strongest_counts: Counts
    kind: int
    by_tick: bool
    trained: bool
    boundary_seconds: float
    callback_seconds: float
    tick_seconds: float
    elapsed_seconds: float
    freed_from: int | None
    collects: bool
    rises: bool
    silent: bool
    failure: str | None
    #: A report asks, wherever in a step; looks are made where one ends.
    asked: bool = False

    @property
    def now(self) -> int:
        """What ages are measured by: position, or tick."""
        return self.ticks if self.by_tick else self.position

    @property
    def by_turns(self) -> bool:
        """Whether nothing but turns of loops was seen: any of them may prepare
        what is still to come."""
        return STEP_KINDS[self.kind] == "loop turn"

    def ticks_in(self, seconds: float) -> int:
        """Ticks until so many seconds have passed, 0: they have."""
        if seconds <= 0:
            return 0
        return 1 + int(seconds / max(self.tick_seconds, 1e-6))

    @property
    def strongest_kind(self) -> int:
        """An index of STEP_KINDS, of the events seen so far."""
        return next((i for i, n in enumerate(self.counts) if n), self.kind)

    @property
    def until(self) -> int:
        """The end of what the strongest kind of events has measured."""
        return self.ticks if self.by_tick else self.strongest_until

    @property
    def then(self) -> Counts:
        """The events until then."""
        return self.counts if self.by_tick else self.strongest_counts

    @property
    def stalled(self) -> int:
        """Calls that no position counts: those between the last of the
        strongest kind and the first that came in its place as a step."""
        calls = self.counts[self.kind] - self.then[self.kind]
        return max(calls - (self.now - self.until), 0)

    def span(self, first: int, last: int) -> int:
        """Steps in which what was born from ``first`` to ``last`` was made,
        up to the end of that time."""
        steps = self.end_of(last) - first
        return steps + (self.stalled if first <= self.until <= last else 0)

    def end_of(self, birth: int) -> int:
        """Until when what was born then has been measured: what is from a
        training is no older for a service's calls."""
        return self.until if birth < self.until else self.now

    def step(self, birth: int) -> int:
        """The step, from 1, that a birth by the clock in force fell into."""
        counts = self.then if birth < self.until else self.counts
        steps = counts[self.kind]
        return max(min(steps - (self.end_of(birth) - birth) + 1, steps), 1)


def status_of(raw: _Status) -> Status:
    """Where the clocks are."""
    return Status(
        ticks=raw["ticks"],
        position=raw["position"],
        counts=Counts(*raw["counts"]),
        strongest_until=raw["strongest_until"],
        strongest_counts=Counts(*raw["strongest_counts"]),
        kind=raw["kind"],
        by_tick=bool(raw["clock"]),
        trained=raw["trained"],
        boundary_seconds=raw["boundary_seconds"],
        callback_seconds=raw["callback_seconds"],
        tick_seconds=raw["tick_seconds"],
        elapsed_seconds=raw["elapsed_seconds"],
        freed_from=raw["freed_from"],
        collects=raw["collects"],
        rises=raw["rises"],
        silent=raw["silent"],
        failure=raw["failure"],
    )


class LinePoints(NamedTuple):
    """Live bytes of one line at each point, meant from ``since`` on."""

    site: int
    since: int
    live_bytes: Column


class NodePoint(NamedTuple):
    """Autograd nodes that live tensors led to, and the bytes they took."""

    counts: Counts
    nodes: int
    bytes: int


@dataclass(frozen=True)
class Curves:
    """What boundaries were like, oldest first; a long run is thinned.

    ``points``: a structured array, with the columns of ``ia_point`` in
    curves.h.
    """

    points: Column
    lines: list[LinePoints]
    nodes: list[NodePoint]


def curves_of(raw: _History) -> Curves:
    """The run's curves."""
    points, lines, sizes, nodes = raw
    by_line = sizes.reshape(len(points), -1).T if len(points) else sizes
    return Curves(
        points,
        [LinePoints(*line[:2], by_line[line[2]]) for line in lines],
        [NodePoint(Counts(*n[0]), *n[1:]) for n in nodes],
    )


class ProcessMemory(NamedTuple):
    """What the kernel and malloc say of this process, in bytes.

    ``resident`` includes ``files`` and ``shared``; ``heap_free`` is free but
    kept by malloc.  None: another allocator serves.
    """

    resident: int
    files: int
    shared: int
    heap_used: int | None
    heap_free: int | None


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


# -- lines that keep what they make -------------------------------------------

#: Bits of a suspect's ``kinds``.
GROWS_COUNT, GROWS_BYTES = _core.GROWS_COUNT, _core.GROWS_BYTES
GROWS_ANEW, GROWS_STEADILY = _core.GROWS_ANEW, _core.GROWS_STEADILY
#: Ages at which a line is suspect, and the window that goes with them.
AGE_FOR_REPORT, AGE_TO_TELL = _core.AGE_FOR_REPORT, _core.AGE_TO_TELL
USUAL_WINDOW = _core.USUAL_WINDOW
#: Graphs are probed again after this part of the run.
PROBES_PER_DOUBLING = _core.PROBES_PER_DOUBLING


@dataclass(frozen=True)
class Suspect:
    """A line that keeps what it makes.

    ``since``: position (or tick) since which it does; ``life``: the longest
    lifetime that ever ended there; ``survivors``: storages of that stretch;
    ``device``: where its last birth was, "numpy" for a block of NumPy's.
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
    device: str = "cpu"

    def keeps_old(self, now: int) -> bool:
        """Whether some of each time survives, and nothing that was half as old
        as that stretch ever ended."""
        return bool(self.kinds & GROWS_COUNT) and (
            now - self.since > 2 * self.life
        )


class SiteNow(NamedTuple):
    """What is alive of one line.

    ``cycle_bytes`` were freed by full runs of the collector; ``life`` is the
    longest lifetime that ended; ``at_tick`` counts what was alive when the
    last tick ended: a program that ends drops what it kept.  ``graph_nodes``
    were behind its newest tensor when that was last probed.
    """

    live_count: int
    live_bytes: int
    cycle_bytes: int
    life: int
    at_tick: int
    graph_nodes: int


class Rise(NamedTuple):
    """The least bytes of one line that were alive in each stretch of the run,
    in positions or ticks as ``SiteAges`` has them; ``device`` is that of the
    last birth."""

    site: int
    device: str
    base: int
    width: int
    least: tuple[float, ...]


class SiteAges(NamedTuple):
    """Live storages of one line by birth, in positions or ticks: so many of
    each stretch ``width`` wide, the first of which begins at ``base``."""

    base: int
    width: int
    alive: tuple[int, ...]
