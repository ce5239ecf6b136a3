"""What a run has shown, as plain data: findings, paths and the report.

Everything here is frozen and holds text and numbers only: no reference to
a tensor, a frame or any object of the watched program.  Bytes are bytes,
times are seconds unless a name says otherwise, steps count from 1.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from ..base.errors import UsageError
from ..base.records import dataclass
from ..base.shell import pretty
from ..base.text import clean
from .devices import is_on_host, noun_of, number_method_of
from .door import text_of
from .history import Ages
from .path import Edge, Path, pattern_of, without_numbers
from .site import Site
from .words import SEVERITIES, VERDICTS, Severity, Verdict, is_confirmed

__all__ = [
    "Cycle",
    "Finding",
    "GraphCost",
    "Holder",
    "Kept",
    "NativeCall",
    "Site",
    "TensorExample",
    "Variable",
    "in_words",
    "signature_of",
]


@dataclass(frozen=True)
class Holder:
    """The object on a path that grows.

    ``expression`` reads like a path, ``length`` is its present length in
    items, ``growth_per_step`` in items, ``bound`` the most that it can
    hold; None where there is no such thing or it was not measured.
    ``depth``: so many edges of the finding's path lead to it.  ``alike``
    holders are of one sort, ``layers[0].seen``, ``layers[1].seen``: they are
    one finding, and this one stands for all.  ``shared``: other references
    hold the same, and what is retained is freed when all of them are cut.
    ``beside`` it these expressions lead to tensors on the same graph, and the
    figures are of all of them.  ``older`` of its items were there before the
    watch.  ``leads_back``: it gets no longer, but what has left it is led to
    by what it has.  ``full_since``: the step at which it was first seen to
    have as many as its bound.  ``doubles``: so many others of its sort
    had the same at the last walk, each in a container of its own.
    """

    expression: str
    type: str
    length: int | None = None
    growth_per_step: float | None = None
    bound: int | None = None
    depth: int | None = None
    alike: int = 1
    shared: bool = False
    older: int = 0
    full_since: int | None = None
    beside: tuple[str, ...] = ()
    leads_back: bool = False
    doubles: int = 0

    @property
    def others(self) -> str:
        """Those beside it, as code in a sentence; empty where none is."""
        return ", ".join(f"`{one}`" for one in self.beside)


@dataclass(frozen=True)
class GraphCost:
    """What an autograd graph keeps alive.

    ``bytes`` are those of the saved tensors; ``node_bytes`` those of the
    nodes themselves, which are no tensor memory, at least (0: unknown).
    ``biggest`` lists (node name, nodes of that name, their bytes).
    """

    nodes: int
    saved_tensors: int
    bytes: int
    biggest: tuple[tuple[str, int, int], ...] = ()
    node_bytes: int = 0


@dataclass(frozen=True)
class Reader:
    """An operation of a live graph whose backward will read a block:
    ``node`` has it as ``saved``, such as "saved[mat1]".

    ``called_at`` is the line that called it in the forward: known where what
    it gave back is alive, and unchanged since; else None.
    """

    node: str
    saved: str
    called_at: Site | None = None

    def __str__(self) -> str:
        at = f" ({self.called_at.place})" if self.called_at else ""
        return f"{self.node}.{self.saved}{at}"


@dataclass(frozen=True)
class Variable:
    """What C++ code holds something in.

    A variable of a library's, as its symbols name it; ``library`` is the path
    of the file.  Or a C++ object that a Python object wraps: ``path`` leads to
    that one, ``symbol`` is its type, ``library`` is empty.
    """

    library: str
    symbol: str
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"C++ behind {self.path} ({self.symbol})"
        return f"{os.path.basename(self.library)}: {self.symbol}"


@dataclass(frozen=True)
class NativeCall:
    """A function of C's or C++'s on the stack of an allocation: ``library`` is
    the path of its file, ``symbol`` its name, "" where it has none there."""

    library: str
    symbol: str

    def __str__(self) -> str:
        name = self.symbol or "a function without a name"
        return f"{os.path.basename(self.library)}: {name}"


def in_words(variables: Sequence[Variable]) -> str:
    """``ext.so: kv_cache, ext.so: rows``."""
    return ", ".join(map(str, variables))


@dataclass(frozen=True)
class Kept:
    """What a holder's items keep by themselves, whatever graphs they have.

    ``bytes_per_step`` is the memory of their own tensors; ``numbers``: each
    of these is a single number, ``graphs``: some have a graph.
    """

    bytes_per_step: float
    numbers: bool = False
    graphs: bool = False


@dataclass(frozen=True)
class Cycle:
    """A garbage cycle that tensors hang on, edge by edge.

    ``collectable``: the collector frees it when it runs; it never does
    where C++ is part of the cycle.  ``collected_bytes``: tensor memory from
    the same line that the collector has freed so far.
    ``freed_in_time``: of what a walk saw of such garbage, more was gone later
    than was left, and the collector still runs now and then.
    """

    path: Path
    collectable: bool = True
    collected_bytes: int = 0
    freed_in_time: bool = False


@dataclass(frozen=True)
class TensorExample:
    """One retained tensor; ``shape`` is None where it is masked.

    An array of NumPy's is on the device "numpy".
    """

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    generation: int
    bytes: int


def signature_of(
    allocated_at: Site, path: Path | None, holder: Holder | None
) -> str:
    """A name by which two runs' findings are told to be the same one.

    Made of the holder (else the path) without indices, counts and
    addresses, of the types of items on the way to it, and of the allocating
    file's base name and function; never of line numbers, sizes or the
    verdict.  16 hexadecimal digits.
    """
    text = holder.expression if holder else str(path) if path else ""
    way = path.upto(holder.depth) if path and holder and holder.depth else path
    pattern = pattern_of(way) if way and str(way) == text else None
    file = os.path.basename(allocated_at.file.replace("\\", "/"))
    above = path.edges[: holder.depth] if path and holder else ()
    items = [edge.type for edge in above if edge.is_item]
    names = (pattern or without_numbers(text), file, allocated_at.function)
    key = "\0".join((*names, *items))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A site that keeps its storages, and everything known about it.

    ``path``, ``holder``, ``grown_at``, ``graph``, ``cycle``, ``phase``,
    ``patch`` and the forecast are None where they cannot be told.
    ``confirmation`` says what would settle a ``growing`` verdict,
    ``confirmed_step`` when a verdict was settled, ``rule``
    which rule spoke (docs/verdicts.md), ``note`` anything else worth a
    sentence.  ``grown_at`` was seen to grow the holder, by way of the user's
    calls in ``grown_stack``, the innermost first (three at most, of the first
    time); ``maybe_grown_at`` is a guess by name, where nothing was seen.  At
    ``may_end_at`` the source may end a growth that goes on, at ``asked_at`` it
    asks for a key before it sets it: keys that come again may end it.
    ``patch_note`` says why there is no patch, where one comes to mind.
    ``kept`` is what the holder's items were seen to be (None: not looked at),
    ``trains`` whether the program has run a backward, ``ages`` its lines'
    survivors by age.
    ``graph_bytes_per_step`` is the memory of autograd nodes, no tensors,
    that is kept beside ``bytes_per_step`` of tensor memory;
    ``object_bytes_per_step``, at least, that of the tensors' own objects.
    ``shares``: what part of its tensors' bytes lies on which device, the most
    first; empty where all are on the example's, or it is not known.
    ``needed_by`` are operations of live graphs that will read the example's
    memory, ``readers`` how many they are (the first of many are listed):
    none, and every backward that used it is done with it.  None: not known.
    ``held_in``: where C or C++ code holds it, the variables of libraries, or
    the one wrapped object, that a search of the process's memory found to lead
    to half of its blocks or more.  ``made_in``: where nothing in Python leads
    to it, the native functions that made some of it, the innermost first; what
    was made before that was known says nothing.
    ``signature`` is made from site and holder when it is not given.
    """

    verdict: Verdict
    severity: Severity = "info"
    allocated_at: Site
    path: Path | None = None
    holder: Holder | None = None
    grown_at: Site | None = None
    bytes_per_step: float = 0.0
    tensors_per_step: float = 0.0
    graph_bytes_per_step: float = 0.0
    retained_bytes: int = 0
    retained_tensors: int = 0
    generations: int = 0
    first_step: int = 0
    last_step: int = 0
    graph: GraphCost | None = None
    cycle: Cycle | None = None
    steps_to_oom: int | None = None
    seconds_to_oom: float | None = None
    object_bytes_per_step: float = 0.0
    shares: tuple[tuple[str, float], ...] = ()
    tensors: tuple[TensorExample, ...] = ()
    advice: str = ""
    patch: str | None = None
    patch_note: str | None = None
    stack: tuple[Site, ...] = ()
    grown_stack: tuple[Site, ...] = ()
    phase: str | None = None
    confirmation: str | None = None
    confirmed_step: int | None = None
    maybe_grown_at: Site | None = None
    may_end_at: Site | None = None
    asked_at: Site | None = None
    rule: str = ""
    kept: Kept | None = None
    trains: bool = True
    ages: Ages | None = None
    note: str | None = None
    needed_by: tuple[Reader, ...] | None = None
    readers: int = 0
    held_in: tuple[Variable, ...] = ()
    made_in: tuple[NativeCall, ...] = ()
    signature: str = ""

    def __post_init__(self) -> None:
        _one_of("verdict", self.verdict, VERDICTS)
        _one_of("severity", self.severity, SEVERITIES)
        if not self.signature:
            made = signature_of(self.allocated_at, self.path, self.holder)
            object.__setattr__(self, "signature", made)

    @property
    def goes_in_time(self) -> bool:
        """Whether it is garbage that the collector mostly frees while it is
        young."""
        return self.cycle is not None and self.cycle.freed_in_time

    @property
    def is_in_frames_of_an_error(self) -> bool:
        """Whether a kept exception's traceback leads to its tensors."""
        return any(edge.kind == "traceback" for edge in self.below_holder)

    @property
    def below_holder(self) -> tuple[Edge, ...]:
        """The path's edges from the holder on to the tensor."""
        if self.path is None or self.holder is None:
            return ()
        return self.path.edges[self.holder_depth :]

    @property
    def holder_depth(self) -> int:
        """Edges of the path that lead to the holder."""
        path, holder = self.path, self.holder
        if path is None or holder is None:
            return 0
        if holder.depth is not None:
            return holder.depth
        return path.depth_of(holder.expression)

    @property
    def all_bytes_per_step(self) -> float:
        """Tensor memory and graph nodes together."""
        return self.bytes_per_step + self.graph_bytes_per_step

    @property
    def cost_per_step(self) -> float:
        """The same with the tensors' own objects: what the process pays, at
        least."""
        return self.all_bytes_per_step + self.object_bytes_per_step

    @property
    def device(self) -> str:
        """Where most of its tensors lie, as far as it is known."""
        return self._shares[0][0]

    @property
    def _shares(self) -> tuple[tuple[str, float], ...]:
        device = self.tensors[0].device if self.tensors else "cpu"
        return self.shares or ((device, 1.0),)

    @property
    def host_bytes_per_step(self) -> float:
        """What of that lies in the process's own memory: a device's tensors
        do not, their nodes and objects do."""
        rest = self.cost_per_step - self.bytes_per_step
        rates = self.rates.items()
        return rest + sum(rate for name, rate in rates if is_on_host(name))

    @property
    def rates(self) -> dict[str, float]:
        """Tensor memory a step by the device that it lies on."""
        rate = self.bytes_per_step
        return {name: rate * share for name, share in self._shares}

    @property
    def noun(self) -> str:
        """What it keeps: "tensor", or "array" of NumPy's and JAX's."""
        return noun_of(t.device for t in self.tensors)

    @property
    def number_method(self) -> str:
        """By which one of its scalars gives its number."""
        return number_method_of(t.device for t in self.tensors)

    @property
    def confirmed(self) -> bool:
        """Whether it is settled, and settled to be no bounded growth."""
        return is_confirmed(self.verdict)

    @property
    def site(self) -> Site:
        """Where to look first: the growing statement, else the allocation."""
        return self.grown_at or self.allocated_at

    def __repr__(self) -> str:
        what = self.holder.expression if self.holder else str(self.site)
        return f"Finding({self.severity} {self.verdict}: {clean(what)})"

    def __str__(self) -> str:
        return text_of("finding text", self)

    _repr_pretty_ = pretty


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(
            f"{name} is {value!r}: expected one of {', '.join(allowed)}"
        )
