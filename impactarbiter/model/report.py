"""The report: all that a run has shown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ..base.records import dataclass
from ..base.shell import pretty
from ..base.units import plural
from .children import Children
from .devices import DeviceMemory, noun_of
from .door import renderer, text_of
from .finding import Finding
from .growth import LaterGrowth, ProcessGrowth
from .history import Excerpt, History
from .live import LiveTable
from .order import by_rate
from .process import Process
from .site import Site
from .words import StepKind

__all__ = ["SCHEMA", "Cost", "GrowingLine", "History", "Report"]

SCHEMA = "impactarbiter/1"


@dataclass(frozen=True)
class GrowingLine:
    """A line that keeps what it makes, and that no finding is about.

    ``bytes_per_step`` counts tensor memory alone; ``noun`` is what it makes,
    "tensor" or "array".
    """

    site: Site
    bytes_per_step: float
    noun: str = "tensor"


@dataclass(frozen=True)
class LineBytes:
    """What is alive of one line, ``bytes`` in ``blocks``.

    ``by_age`` has the same bytes by when they were born, oldest first.
    """

    site: Site
    bytes: int
    blocks: int
    by_age: Mapping[str, int]


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


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a run has shown; ``findings`` are ordered here by rate.

    ``taken_back`` are former leaks that stopped growing before the end.

    ``steps`` are of ``step_kind``: "optimizer", "backward", "module call",
    "compiled call" (of what JAX or TensorFlow compiled), "manual", or "loop
    turn" where none of these was seen: of a loop that makes tensors or arrays.
    ``grown_bytes_per_step`` is how fast live tensor memory grew and
    ``process_bytes_per_step`` how fast the process did (None: not
    measured), both 0 where there was no steady growth;
    ``gained_bytes_per_step`` counts what came in bursts, too, and
    ``explained_bytes_per_step`` is what the findings account for of the
    first, and ``growing_lines`` grow without a finding.  ``process_growth``
    says of which kinds the process's growth is, where it grew steadily beside
    its tensors, ``later_growth`` what came after the last step.

    ``accounted`` maps categories to bytes that add up to ``live_bytes``;
    ``older`` does so with what is alive besides, from before the watch.
    ``needed_steps`` is the fewest steps that a verdict takes: silence after
    fewer proves nothing.  ``memory_limit`` is the forecast's limit in bytes.
    ``devices`` is where the memory of each device was at the end, ``process``
    which one of a job this was (None: of no job).
    ``history`` is how memory went, ``excerpts`` the source around the lines
    that the findings are about.
    ``live`` is what was alive by allocating stack: at the end, or where the
    program had let most of it go by then at the last look before.
    ``recorded_by`` names the tool whose recording this is made of ("": we
    watched), ``lines`` is what was alive then, the most bytes first; such a
    report has no holders, and its steps may be "allocation"s.
    ``cross_checks`` are sentences that put what a framework says of its own
    memory beside what we know of it.
    ``children`` is what the processes that this one started have found by
    then (None: none of them was watched).
    ``complete``: whether a last look was made.  Where that failed, which a
    warning tells, findings are the looks' before it, if there are any.
    """

    findings: tuple[Finding, ...] = ()
    taken_back: tuple[Finding, ...] = ()
    steps: int = 0
    step_kind: StepKind = "manual"
    grown_bytes_per_step: float = 0.0
    gained_bytes_per_step: float = 0.0
    process_bytes_per_step: float | None = None
    process_growth: ProcessGrowth | None = None
    explained_bytes_per_step: float = 0.0
    growing_lines: tuple[GrowingLine, ...] = ()
    later_growth: LaterGrowth | None = None
    live_bytes: int = 0
    peak_bytes: int = 0
    accounted: Mapping[str, int] = field(default_factory=dict)
    older: Mapping[str, int] = field(default_factory=dict)
    cost: Cost = Cost()
    warnings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    history: History = field(default_factory=History)
    excerpts: tuple[Excerpt, ...] = ()
    memory_limit: int | None = None
    needed_steps: int = 0
    devices: tuple[DeviceMemory, ...] = ()
    process: Process | None = None
    live: LiveTable = field(default_factory=LiveTable)
    recorded_by: str = ""
    lines: tuple[LineBytes, ...] = ()
    cross_checks: tuple[str, ...] = ()
    children: Children | None = None
    complete: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", tuple(by_rate(self.findings)))

    def __repr__(self) -> str:
        count = Counter(finding.verdict for finding in self.findings)
        said = [_counted(n, verdict) for verdict, n in count.items()]
        said.append(plural(self.steps, "step"))
        return f"Report({', '.join(said)})"

    def __str__(self) -> str:
        return text_of("report text", self)

    def _repr_html_(self) -> str:
        return text_of("report fragment", self)

    _repr_pretty_ = pretty

    @property
    def noun(self) -> str:
        """What it is about: "array" where there are no tensors."""
        return noun_of(device.device for device in self.devices)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; has ``"schema"``."""
        data: dict[str, Any] = renderer("report dict")(self)
        return data

    @classmethod
    def from_dict(cls, data: object, source: str = "report") -> Report:
        """The inverse of ``to_dict``; ReportError names the bad field."""
        report: Report = renderer("report from dict")(data, source)
        return report

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Reads what ``to_json`` wrote; executes nothing in it.

        Raises ReportError for what is not such a file.
        """
        report: Report = renderer("report from file")(path)
        return report

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON form; the file appears whole or not at all."""
        renderer("report json")(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page (needs jinja2)."""
        renderer("report html")(self, path)

    def to_sarif(self, path: str | os.PathLike[str]) -> None:
        """Writes SARIF 2.1.0 for code scanning."""
        renderer("report sarif")(self, path)

    def to_flame(self, path: str | os.PathLike[str]) -> None:
        """Writes a page of ``live`` as a flame graph (needs jinja2)."""
        renderer("report flame")(self, path)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for ui.perfetto.dev: counters, phases, findings."""
        renderer("report perfetto")(self, path)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes ``live`` as a table: bytes, storages, line and stack."""
        renderer("report csv")(self, path)

    def plot(self, path_or_ax: Any) -> Any:
        """Draws memory over steps (needs matplotlib).

        ``path_or_ax`` is a file name (.png, .svg or .pdf) or an ``Axes``;
        returns the ``Axes``.
        """
        return renderer("report plot")(self, path_or_ax)


def _counted(number: int, verdict: str) -> str:
    """ "2 leaks", "3 growing"."""
    nouns = {"growing", "native"}
    return (
        f"{number} {verdict}" if verdict in nouns else plural(number, verdict)
    )
