"""What a run has shown, as plain data: findings, paths and the report.

Everything here is frozen and holds text and numbers only: no reference to
a tensor, a frame or any object of the watched program.  Bytes are bytes,
times are seconds unless a name says otherwise, steps count from 1.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import UsageError
from ..core.devices import DeviceMemory
from ..judging.severity import BOUNDED, SEVERITIES, VERDICTS, by_rate
from ..knowledge.ipython import cell_name, pretty

SCHEMA = "impactarbiter/1"

#: Edges that repeat this often in a row are printed once, with a count.
RUN_LENGTH = 4
#: Longest pattern of edges that is looked for in a run.
RUN_PERIOD = 4

_INDEX = re.compile(r"\[\d+\]|\[(['\"])[^\]]*\d[^\]]*\1\]")
_COUNT = re.compile(r" \u00d7\d+ ?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def _from_here(file: str) -> str:
    """A file below the working folder by its relative name."""
    try:
        here = os.getcwd() + os.sep
    except OSError:
        return file
    return file[len(here) :] if file.startswith(here) else file


@dataclass(frozen=True)
class Site:
    """A source position: ``line`` counts from 1, ``source`` is that line.

    ``file`` is empty where no Python frame was running.
    """

    file: str
    line: int
    function: str
    source: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a position at all."""
        return bool(self.file)

    def __str__(self) -> str:
        if not self.known:
            return "outside Python"
        file = cell_name(self.file) or _from_here(self.file)
        where = f"{file}:{self.line}" if self.line > 0 else file
        return f"{where} in {self.function}" if self.function else where


@dataclass(frozen=True)
class Edge:
    """One reference on a path.

    ``kind`` is the sort of reference (attribute, key, index, cell, node,
    ...), ``name`` what it is called there, ``type`` the type of the object
    it leads to, ``text`` the piece as printed: ``.history``, ``[17]``,
    ``.<closure>.store``, ``.grad_fn\N{RIGHTWARDS ARROW}AddBackward0``.
    """

    kind: str
    name: str
    type: str
    text: str


def compress_runs(texts: list[str]) -> tuple[str, bool]:
    """Joins texts; a pattern repeated 4 times or more is printed once.

    Returns the text and whether anything was shortened:
    ``.prev .prev .prev .prev .x`` -> ``(".prev x4 .x", True)``, with a
    multiplication sign; a pattern of several edges stands in braces.
    """
    pieces: list[str] = []
    shortened = False
    at = 0
    while at < len(texts):
        period, times = _run_at(texts, at)
        if times < RUN_LENGTH:
            pieces.append(texts[at])
            at += 1
            continue
        pattern = "".join(texts[at : at + period])
        once = pattern if period == 1 else "{" + pattern + "}"
        pieces.append(f"{once} \u00d7{times} ")
        shortened = True
        at += period * times
    return "".join(pieces).rstrip(), shortened


def _run_at(texts: list[str], at: int) -> tuple[int, int]:
    """(period, times) of the longest run of a short pattern at ``at``."""
    best = (1, 1)
    for period in range(1, RUN_PERIOD + 1):
        end = at + period
        while end < len(texts) and texts[end] == texts[end - period]:
            end += 1
        times = (end - at) // period
        if times >= RUN_LENGTH and times * period > best[0] * best[1]:
            best = (period, times)
    return best


@dataclass(frozen=True)
class Path:
    """A retaining path, from ``root`` over ``edges`` to a tensor.

    ``python`` says whether ``str(path)`` can be evaluated in the program.
    A path that is printed shortened is not, so the flag is lowered then;
    ``expression`` is never shortened.  ``library`` says that it starts in a
    library and not in the user's own code.
    """

    root: str
    edges: tuple[Edge, ...] = ()
    python: bool = False
    library: bool = False

    def __post_init__(self) -> None:
        if self.python and self._compressed()[1]:
            object.__setattr__(self, "python", False)

    def _compressed(self) -> tuple[str, bool]:
        return compress_runs([edge.text for edge in self.edges])

    def __str__(self) -> str:
        return self.root + self._compressed()[0]

    @property
    def expression(self) -> str:
        """The whole path, every edge of it."""
        return self.root + "".join(edge.text for edge in self.edges)


@dataclass(frozen=True)
class Holder:
    """The object on a path that grows.

    ``expression`` reads like a path, ``length`` is its present length in
    items, ``growth_per_step`` in items, ``bound`` the most that it can
    hold; None where there is no such thing or it was not measured.
    """

    expression: str
    type: str
    length: int | None = None
    growth_per_step: float | None = None
    bound: int | None = None


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
class Cycle:
    """A garbage cycle that tensors hang on, edge by edge.

    ``collectable``: the collector frees it when it runs; it never does
    where C++ is part of the cycle.  ``collected_bytes``: tensor memory from
    the same line that the collector has freed so far.
    """

    path: Path
    collectable: bool = True
    collected_bytes: int = 0


@dataclass(frozen=True)
class TensorExample:
    """One retained tensor; ``shape`` is None where it is masked."""

    shape: tuple[int, ...] | None
    dtype: str
    device: str
    generation: int
    bytes: int


def pattern_of(path: Path) -> str:
    """The path with indices, counts and addresses left out."""
    text = _ADDRESS.sub("0x", _COUNT.sub("", str(path)))
    return _INDEX.sub("[*]", text)


def signature_of(
    allocated_at: Site, path: Path | None, holder: Holder | None
) -> str:
    """A name by which two runs' findings are told to be the same one.

    Made of the holder (else the path) without indices, counts and
    addresses, and of the allocating file's base name and function; never
    of line numbers, sizes or the verdict.  16 hexadecimal digits.
    """
    text = holder.expression if holder else str(path) if path else ""
    text = _ADDRESS.sub("0x", _COUNT.sub("", _INDEX.sub("[*]", text)))
    file = os.path.basename(allocated_at.file.replace("\\", "/"))
    key = "\0".join((text, file, allocated_at.function))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A site that keeps its storages, and everything known about it.

    ``path``, ``holder``, ``grown_at``, ``graph``, ``cycle``, ``phase``,
    ``patch`` and the forecast are None where they cannot be told.
    ``confirmation`` says what would settle a ``growing`` verdict,
    ``confirmed_step`` when a verdict was settled, ``cause``
    in a word or two what kind of mistake it looks like, ``note`` anything
    else worth a sentence.
    ``graph_bytes_per_step`` is the memory of autograd nodes, no tensors,
    that is kept beside ``bytes_per_step`` of tensor memory.
    ``signature`` is made from site and holder when it is not given.
    """

    verdict: str
    severity: str = "info"
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
    tensors: tuple[TensorExample, ...] = ()
    advice: str = ""
    patch: str | None = None
    stack: tuple[Site, ...] = ()
    phase: str | None = None
    confirmation: str | None = None
    confirmed_step: int | None = None
    cause: str | None = None
    note: str | None = None
    signature: str = ""

    def __post_init__(self) -> None:
        _one_of("verdict", self.verdict, VERDICTS)
        _one_of("severity", self.severity, SEVERITIES)
        if not self.signature:
            made = signature_of(self.allocated_at, self.path, self.holder)
            object.__setattr__(self, "signature", made)

    @property
    def below_holder(self) -> tuple[Edge, ...]:
        """The path's edges from the holder on to the tensor."""
        path, holder = self.path, self.holder
        if path is None or holder is None:
            return ()
        depth = len(path.edges)
        while depth and str(Path(path.root, path.edges[:depth])) != (
            holder.expression
        ):
            depth -= 1
        return path.edges[depth:]

    @property
    def all_bytes_per_step(self) -> float:
        """Tensor memory and graph nodes together."""
        return self.bytes_per_step + self.graph_bytes_per_step

    @property
    def confirmed(self) -> bool:
        """Whether it is settled, and settled to be no bounded growth."""
        return self.verdict not in BOUNDED and self.verdict != "growing"

    @property
    def site(self) -> Site:
        """Where to look first: the growing statement, else the allocation."""
        return self.grown_at or self.allocated_at

    def __str__(self) -> str:
        from ..reports.text import finding_text

        return finding_text(self)

    _repr_pretty_ = pretty


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(
            f"{name} is {value!r}: expected one of {', '.join(allowed)}"
        )


@dataclass(frozen=True)
class Cost:
    """What watching cost: milliseconds and bytes; None: not measured.

    ``ms_per_step`` is spent in hooks and checks; ``looks`` walks over the
    heap took ``looks_ms`` in all, ``last_walk_ms`` is the last one's walk.
    """

    ms_per_step: float | None = None
    last_walk_ms: float | None = None
    ledger_bytes: int | None = None
    looks: int | None = None
    looks_ms: float | None = None


@dataclass(frozen=True)
class History:
    """Live bytes at step boundaries, for the timeline.

    ``steps`` and ``live_bytes`` have the same length; a long run may be
    thinned, so steps ascend but need not be consecutive.
    """

    steps: tuple[int, ...] = ()
    live_bytes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.steps) != len(self.live_bytes):
            raise UsageError(
                f"history has {len(self.steps)} steps and"
                f" {len(self.live_bytes)} sizes: expected as many of each"
            )


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a run has shown; ``findings`` are ordered here by rate.

    ``taken_back`` are former leaks that stopped growing before the end.

    ``accounted`` maps categories to bytes that add up to ``live_bytes``.
    ``needed_steps`` is the fewest steps that a verdict takes: silence after
    fewer proves nothing.  ``memory_limit`` is the forecast's limit in bytes.
    ``devices`` is where the memory of each device was at the end.
    """

    findings: tuple[Finding, ...] = ()
    taken_back: tuple[Finding, ...] = ()
    steps: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    accounted: Mapping[str, int] = field(default_factory=dict)
    cost: Cost = Cost()
    warnings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    history: History = History()
    memory_limit: int | None = None
    needed_steps: int = 0
    devices: tuple[DeviceMemory, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", tuple(by_rate(self.findings)))

    def __str__(self) -> str:
        from ..reports.text import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from ..reports.html import report_fragment

        return report_fragment(self)

    _repr_pretty_ = pretty

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; has ``"schema"``."""
        from ..reports.jsonio import report_to_dict

        return report_to_dict(self)

    @classmethod
    def from_dict(cls, data: object, source: str = "report") -> Report:
        """The inverse of ``to_dict``; ReportError names the bad field."""
        from ..reports.jsonio import report_from_dict

        return report_from_dict(data, source)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Reads what ``to_json`` wrote; executes nothing in it.

        Raises ReportError for what is not such a file.
        """
        from ..reports.jsonio import load_report

        return load_report(path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON form; the file appears whole or not at all."""
        from ..reports.jsonio import write_json

        write_json(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page (needs jinja2)."""
        from ..reports.html import write_html

        write_html(self, path)

    def to_sarif(self, path: str | os.PathLike[str]) -> None:
        """Writes SARIF 2.1.0 for code scanning."""
        from ..reports.sarif import write_sarif

        write_sarif(self, path)

    def plot(self, path_or_ax: Any) -> Any:
        """Draws live bytes over steps (needs matplotlib).

        ``path_or_ax`` is a file name (.png, .svg or .pdf) or an ``Axes``;
        returns the ``Axes``.
        """
        from ..reports.timeline import plot_report

        return plot_report(self, path_or_ax)


def load(path: str | os.PathLike[str]) -> Report:
    """``Report.load(path)``."""
    return Report.load(path)
