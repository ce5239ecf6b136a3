"""All processes of one job, read one file after the other.

Of each file a line of figures is kept, and of findings that many ranks share
the worst alone: ten thousand files take no more memory than their names and
figures do.
"""

from __future__ import annotations

import io
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import time
from typing import Any

from ..base.errors import ReportError
from ..base.ranks import MASKED_HOST, host_name
from ..base.text import clean
from ..model.finding import Finding
from ..model.growth import EXPLAINED
from ..model.order import by_urgency
from ..model.process import ROLES, Process
from ..model.report import Report
from ..model.words import BOUNDED, severity_rank
from .jsonio import read_json, report_from_dict

#: Seconds without a word after which a process on another host is given up.
SILENT = 300.0
#: Points of a process's curve that are kept for the page.
POINTS = 60
#: Findings of different lines that are told apart; what comes beyond is
#: counted.
MOST_FINDINGS = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """One process, without its findings."""

    file: str
    process: Process
    steps: int
    live_bytes: int
    peak_bytes: int
    unexplained: float  # bytes a step that no finding accounts for
    too_short: bool  # fewer steps than a verdict takes
    complete: bool  # whether its report is what it was to be
    curve: tuple[int, ...] = ()


@dataclass(slots=True)
class JobFinding:
    """What several processes of one role found alike; by member's number."""

    role: str
    worst: Finding
    rates: dict[int, float] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)

    @property
    def confirmed(self) -> bool:
        return self.worst.verdict not in BOUNDED

    def add(self, number: int, finding: Finding) -> None:
        """One more process's."""
        rate = finding.all_bytes_per_step
        self.rates[number] = self.rates.get(number, 0.0) + rate
        held = finding.retained_bytes
        self.held[number] = self.held.get(number, 0) + held
        nodes = finding.graph.node_bytes if finding.graph is not None else 0
        self.nodes[number] = self.nodes.get(number, 0) + nodes
        first = self.since.get(number, finding.first_step)
        self.since[number] = min(first, finding.first_step)
        self.worst = by_urgency((self.worst, finding))[0]

    def only(self, numbers: set[int]) -> JobFinding | None:
        """As these members have it; None where none of them does."""
        return self.renumbered({n: n for n in numbers})

    def renumbered(self, places: Mapping[int, int]) -> JobFinding | None:
        """As these members have it, by new numbers."""
        if not self.rates.keys() & places.keys():
            return None

        def of(values: dict[int, Any]) -> dict[int, Any]:
            return {places[n]: v for n, v in values.items() if n in places}

        return JobFinding(
            self.role,
            self.worst,
            rates=of(self.rates),
            held=of(self.held),
            nodes=of(self.nodes),
            since=of(self.since),
        )

    @property
    def rate(self) -> float:
        """Of a usual process among them."""
        return statistics.median(self.rates.values())

    @property
    def leader(self) -> int:
        """Who grows fastest."""
        return max(self.rates, key=lambda n: (self.rates[n], -n))


@dataclass
class Job:
    """What is known of all processes."""

    members: list[Member] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    left_out: int = 0
    _found: dict[tuple[str, str], JobFinding] = field(default_factory=dict)
    _now: float = field(default_factory=time)

    def add(self, file: str, report: Report, curves: bool = False) -> None:
        """One more process."""
        number = len(self.members)
        process = report.process or _process_of(report)
        grown, told = (
            report.grown_bytes_per_step,
            report.explained_bytes_per_step,
        )
        open_growth = grown - told if told < EXPLAINED * grown else 0.0
        self.members.append(
            Member(
                file,
                process,
                report.steps,
                report.live_bytes,
                report.peak_bytes,
                open_growth,
                report.complete and report.steps < max(report.needed_steps, 1),
                report.complete,
                _thinned(report.history.live_bytes) if curves else (),
            )
        )
        for finding in report.findings:
            key = (process.role, finding.signature)
            group = self._found.get(key)
            if group is None:
                if len(self._found) >= MOST_FINDINGS:
                    self.left_out += 1
                    continue
                group = JobFinding(process.role, finding)
                self._found[key] = group
            group.add(number, finding)

    def below(self, pid: int) -> Job:
        """The children of a process of this host, as a job of their own."""
        hosts = host_name(), MASKED_HOST
        chosen = [
            n
            for n, m in enumerate(self.members)
            if m.process.parent == pid and m.process.host in hosts
        ]
        place = {n: i for i, n in enumerate(chosen)}
        part = Job([self.members[n] for n in chosen])
        for key, group in self._found.items():
            kept = group.renumbered(place)
            if kept is not None:
                part._found[key] = kept
        return part

    # -- who is who -----------------------------------------------------------

    def settle(self) -> None:
        """Ranks for reports that do not say whose they are: by position,
        also where two claim one and neither says when it ran."""
        unnamed = [m for m in self.members if not m.process.begin]
        ranks = [m.process.rank for m in unnamed]
        if None in ranks or len(set(ranks)) != len(ranks):
            for place, number in enumerate(
                n for n, m in enumerate(self.members) if not m.process.begin
            ):
                member = self.members[number]
                self.members[number] = replace(
                    member, process=replace(member.process, rank=place)
                )

    def owners(self) -> dict[int, list[int]]:
        """Rank -> members that are this rank themselves, oldest first."""
        found: dict[int, list[int]] = {}
        for number, member in enumerate(self.members):
            process = member.process
            if process.rank is not None and process.owns_rank:
                found.setdefault(process.rank, []).append(number)
        for numbers in found.values():
            numbers.sort(key=self._age)
        return found

    def _age(self, number: int) -> tuple[int, float]:
        process = self.members[number].process
        return process.restart, process.begin

    @property
    def restart(self) -> int:
        """The newest attempt."""
        return max((m.process.restart for m in self.members), default=0)

    @property
    def world_size(self) -> int:
        """Ranks of the job; 0: it has none."""
        newest = self.restart
        said = [
            m.process.world_size or 0
            for m in self.members
            if m.process.restart == newest
        ]
        ranks = self.owners()
        return max([0, *said, *(rank + 1 for rank in ranks)])

    def earlier(self) -> set[int]:
        """Members of attempts that were begun again since."""
        newest = self.restart
        old = {
            n for n, m in enumerate(self.members) if m.process.restart < newest
        }
        for numbers in self.owners().values():
            last = self.members[numbers[-1]].process
            old |= {
                n
                for n in numbers[:-1]
                if self.members[n].process.seen <= last.begin
                and last.begin > 0
            }
        return old

    def missing(self) -> list[int]:
        """Ranks that left no file in the newest attempt."""
        old = self.earlier()
        there = {
            rank
            for rank, numbers in self.owners().items()
            if any(n not in old for n in numbers)
        }
        return [r for r in range(self.world_size) if r not in there]

    def findings(self, earlier: bool = False) -> list[JobFinding]:
        """Of the newest attempt, or of those before; the worst first."""
        old = self.earlier()
        chosen = old if earlier else set(range(len(self.members))) - old
        found = [f.only(chosen) for f in self._found.values()]
        return sorted(
            (f for f in found if f is not None),
            key=lambda f: (
                not f.confirmed,
                -severity_rank(f.worst.severity),
                f.worst.verdict == "growing",
                -sum(f.rates.values()),
            ),
        )

    def alarms(self) -> list[JobFinding]:
        """Findings that are no bounded growth."""
        return [f for f in self.findings() if f.confirmed]

    def unjudged(self) -> list[int]:
        """Members of the newest attempt without a last report: it could not
        be made."""
        old = self.earlier()
        return [
            n
            for n, member in enumerate(self.members)
            if n not in old and not member.complete
        ]

    # -- how they ended -----------------------------------------------------

    def state(self, number: int) -> str:
        """ "finished" and the like, "running", or "lost"."""
        process = self.members[number].process
        if process.ended is not None:
            return process.ended
        if not process.begin:
            return "finished"
        if process.host == host_name():
            return "running" if _is_alive(process) else "lost"
        if self._now - process.seen > SILENT:
            return "lost"
        return "running"

    def lost(self) -> list[int]:
        """Members of the newest attempt that ended without a word."""
        old = self.earlier()
        return [
            n
            for n in range(len(self.members))
            if n not in old and self.state(n) == "lost"
        ]

    def is_over(self) -> bool:
        """Whether nobody runs any more, as far as can be told."""
        states = map(self.state, range(len(self.members)))
        return bool(self.members) and "running" not in states


def _is_alive(process: Process) -> bool:
    """Whether that process, not a later one of its number, runs here."""
    try:
        with io.open(f"/proc/{process.pid}/stat", "rb") as stream:
            after = stream.read().rpartition(b")")[2].split()
        if after[0] in (b"Z", b"X"):
            return False
        with io.open("/proc/stat", "rb") as stream:
            boot = int(stream.read().partition(b"btime ")[2].split()[0])
    except (OSError, IndexError, ValueError):
        return False
    began = boot + int(after[19]) / os.sysconf("SC_CLK_TCK")
    return began <= process.seen + 2


def _process_of(report: Report) -> Process:
    """Of a report that was written outside a job's folder."""
    text = report.environment.get("rank", "")
    return Process(rank=int(text) if text.isdecimal() else None)


def _thinned(sizes: tuple[int, ...]) -> tuple[int, ...]:
    stride = -(-len(sizes) // POINTS) or 1
    return sizes[::stride]


# -- files ------------------------------------------------------------------


def files_of(folder: str) -> list[str]:
    """The files of a job's folder, in order; ReportError where there is no
    such folder."""
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name.endswith(".json")
                and not entry.name.startswith(".")
                and not entry.is_dir()
            ]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ReportError(
            f"cannot read {folder!r}: {reason}; give the folder that --job or"
            " IMPACTARBITER_JOB named"
        ) from None
    return [os.path.join(folder, name) for name in sorted(names)]


def files_of_host(folder: str) -> list[str]:
    """Those of this host's processes: of a job of thousands, the few that a
    rank reads for its children."""
    hosts = f".{host_name()}-", f".{MASKED_HOST}-"
    return [
        file
        for file in files_of(folder)
        if any(host in os.path.basename(file) for host in hosts)
    ]


def read_job(
    files: Iterable[str], curves: bool = False, regular: bool = True
) -> Job:
    """The job of these files; one that cannot be read is named in
    ``skipped``, and so is what is no ``regular`` file: nobody may ever write
    into a pipe that lies in a folder."""
    job = Job()
    seen: dict[tuple[str, int, float], float] = {}
    for file, report in _reports(files, job, curves, regular):
        process = report.process
        if process is not None and process.role not in ROLES:
            said = f"role {clean(process.role)!r} is of no version known here"
            job.skipped.append((os.path.basename(file), said))
            continue
        if process is not None and process.begin:
            key = (process.host, process.pid, process.begin)
            if key in seen:
                continue  # its --json lies in the same folder
            seen[key] = process.seen
        job.add(file, report, curves)
    job.settle()
    return job


def _reports(
    files: Iterable[str], job: Job, curves: bool, regular: bool
) -> Iterator[tuple[str, Report]]:
    for file in files:
        try:
            data = _needed(read_json(file, regular), curves)
            yield file, report_from_dict(data, file)
        except ReportError as error:
            reason = str(error).partition("; ")[0]
            job.skipped.append((os.path.basename(file), _short(reason, file)))


def _short(reason: str, file: str) -> str:
    """Without the file's name, which stands before it."""
    for start in (f"{file!r}: ", f"cannot read {file!r}: ", f"{file!r} "):
        reason = reason.removeprefix(start)
    return reason


#: What is large, and what nobody asks of a whole job.
_UNUSED = ("stack", "patch", "cycle", "ages")


def _needed(data: Any, curves: bool) -> Any:
    """The parts of a file that are looked at: the others take time."""
    if not isinstance(data, dict):
        return data
    data.pop("devices", None)
    data.pop("taken_back", None)
    data.pop("growing_lines", None)
    data.pop("excerpts", None)
    data.pop("live", None)
    history = data.pop("history", None)
    if curves and isinstance(history, dict):
        steps, live = history.get("steps"), history.get("live_bytes")
        data["history"] = {"steps": steps or [], "live_bytes": live or []}
    found = data.get("findings")
    for finding in found if isinstance(found, list) else ():
        if isinstance(finding, dict):
            for name in _UNUSED:
                finding.pop(name, None)
    return data
