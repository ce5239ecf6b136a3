"""The answer for a whole job: one sentence, then a paragraph a finding."""

from __future__ import annotations

import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable

from ..base.spans import named, spans
from ..base.text import clean
from ..base.units import format_bytes, format_count, plural
from ..model.children import ChildFinding, Children
from ..model.finding import Finding
from ..model.process import ROLES
from .console import Line, line
from .job import Job, JobFinding, Member
from .wording import subject

#: Columns, however many ranks there are.
WIDTH = 80
_LABEL = 11
#: Findings that are told in full.
MOST_TOLD = 20
#: Files that are named one by one.
MOST_NAMED = 5
_STYLE = {
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
}
#: Verdict -> what one process does, and what many do.
_VERBS = {
    "leak": ("leaks", "leak"),
    "growing": ("may leak", "may leak"),
    "cycle": ("leaves in garbage cycles", "leave in garbage cycles"),
    "native": ("has C++ code keep", "have C++ code keep"),
    "accumulation": ("collects", "collect"),
    "cache": ("caches", "cache"),
}


# -- who --------------------------------------------------------------------


def who(job: Job, role: str, numbers: Iterable[int]) -> str:
    """These processes in words."""
    members = [job.members[n] for n in numbers]
    if role == "dataloader":
        return _workers(members)
    ranks = {m.process.rank for m in members if m.process.rank is not None}
    own = all(m.process.owns_rank for m in members)
    if not own:
        many = plural(len(members), "child process", "child processes")
        return f"{many} of {named('rank', ranks)}" if ranks else many
    if not ranks:
        if role == "spawned":
            return plural(len(members), "child process", "child processes")
        if len(members) == 1:
            return "the main process"
        return plural(len(members), "process", "processes")
    size = job.world_size
    if len(ranks) == size > 1:
        return f"all {size:,} ranks"
    return f"{named('rank', ranks)} of {size:,}"


def _workers(members: list[Member]) -> str:
    """DataLoader workers, by number where they are of one process."""
    ranks = {m.process.rank for m in members}
    numbers = {m.process.worker for m in members}
    if len(ranks) > 1:
        known = sorted(r for r in ranks if r is not None)
        return f"DataLoader workers of {named('rank', known)}"
    (rank,) = ranks
    known = sorted(n for n in numbers if n is not None)
    text = named("DataLoader worker", known) if known else "DataLoader workers"
    return text if rank is None else f"{text} of rank {rank}"


def _is_many(words: str) -> bool:
    first = words.split()[0]
    return (
        first in ("all", "ranks")
        or " and " in words
        or (first.isdecimal() and first != "1")
        or words.startswith("DataLoader workers")
    )


def _unit(group: JobFinding) -> str:
    return "batch" if group.role == "dataloader" else "step"


# -- the first sentence -----------------------------------------------------


def sentence(job: Job) -> str:
    """The answer for the job."""
    alarms = job.alarms()
    parts = [_says(job, alarms[0])] if alarms else []
    if len(alarms) > 1:
        more = alarms[1:]
        others = {n for group in more for n in group.rates}
        more_text = plural(len(more), "more finding")
        role = more[0].role
        if all(group.role == role for group in more):
            more_text += f" on {who(job, role, others)}"
        parts.append(more_text)
    old = job.earlier()
    there = [n for n in range(len(job.members)) if n not in old]
    parts += _without(job, there, {n for g in alarms for n in g.rates})
    unjudged = there and len(job.unjudged()) == len(there)
    if not alarms and not unjudged:
        short = there and all(job.members[n].too_short for n in there)
        clear = "no leak" if job.members else "no report"
        if short:
            return "; ".join(["too few steps to tell", *_absent(job)])
        size = job.world_size
        if size > 1:
            clear += f" in {len(_present(job)):,} of {size:,} ranks"
        elif len(there) > 1:
            clear += f" in {plural(len(there), 'process', 'processes')}"
        parts.insert(0, clear)
    parts += _absent(job)
    if any(group.confirmed for group in job.findings(earlier=True)):
        parts.append("an attempt before a restart leaked, too")
    return "; ".join(parts)


def children(job: Job) -> Children:
    """The same for a report of whoever started these processes."""
    alarms = job.alarms()
    return Children(
        answer=sentence(job),
        processes=len(job.members),
        severity=alarms[0].worst.severity if alarms else None,
        findings=tuple(
            ChildFinding(
                role=group.role,
                on=who(job, group.role, group.rates),
                processes=len(group.rates),
                bytes_per_step=group.rate,
                retained_bytes=sum(group.held.values()),
                worst=group.worst,
            )
            for group in job.findings()
        ),
    )


def _absent(job: Job) -> list[str]:
    """Ranks that are not there, and that have not said how they ended."""
    parts = []
    if missing := job.missing():
        over = job.is_over()
        left = "left no report (killed?)" if over else "wrote nothing so far"
        parts.append(f"{named('rank', missing)} {left}")
    # A worker is often ended by whoever started it.
    lost = [n for n in job.lost() if job.members[n].process.owns_rank]
    for role in sorted({job.members[n].process.role for n in lost}):
        those = [n for n in lost if job.members[n].process.role == role]
        parts.append(
            f"{_plain(job, role, those)} left no last report (killed?)"
        )
    return parts


def _plain(job: Job, role: str, numbers: Iterable[int]) -> str:
    """Who, without how many there are in all."""
    return who(job, role, numbers).partition(" of ")[0]


def _present(job: Job) -> set[int]:
    return set(job.owners()) - set(job.missing())


def _says(job: Job, group: JobFinding) -> str:
    """``rank 7 and 41 of 64 leak 2.1 MiB a step at data.py:88``."""
    words = who(job, group.role, group.rates)
    if words == "the main process" and len(job.members) == 1:
        words = "the process"
    verb = _VERBS[group.worst.verdict][_is_many(words)]
    text = f"{words} {verb} {format_bytes(group.rate)} a {_unit(group)}"
    site = group.worst.site
    if site.known:
        text += f" at {site.file.rpartition('/')[2]}:{site.line}"
    return text


def _without(job: Job, there: list[int], told: set[int]) -> list[str]:
    """Growth that no finding explains, and runs that were too short."""
    parts = []
    for chosen, words in (
        (lambda m: m.unexplained > 0, "grew more than findings explain"),
        # Whoever only starts others has no steps.
        (lambda m: m.too_short and m.steps > 0, "saw too few steps to tell"),
        (lambda m: not m.complete, "could make no last report"),
    ):
        picked: Callable[[Member], bool] = chosen
        numbers = [
            n for n in there if n not in told and picked(job.members[n])
        ]
        for role in sorted({job.members[n].process.role for n in numbers}):
            those = [n for n in numbers if job.members[n].process.role == role]
            parts.append(f"{_plain(job, role, those)} {words}")
    return parts


# -- the text ---------------------------------------------------------------


def job_lines(job: Job) -> list[Line]:
    """First the answer, then what all have in common, then the findings."""
    alarms = job.alarms()
    style = _STYLE[alarms[0].worst.severity] if alarms else "bold green"
    if not alarms and (job.missing() or job.lost() or not job.members):
        style = "bold yellow"
    lines = _wrapped(f"ImpactArbiter: {sentence(job)}", "  ", style)
    lines.append([])
    for label, text in overview(job):
        lines += _fact(label, text)
    found = job.findings()
    for group in found[:MOST_TOLD]:
        lines.append([])
        lines += finding_lines(job, group)
    if len(found) > MOST_TOLD or job.left_out:
        rest = len(found) - MOST_TOLD + job.left_out
        lines += [[], line(f"{plural(rest, 'more finding')}: see --json")]
    earlier = before_a_restart(job)
    if earlier:
        lines += [[], line(("before a restart:", "bold"))]
    for text in earlier:
        lines += _fact("", text)
    lines += _skipped(job)
    return lines


def before_a_restart(job: Job) -> list[str]:
    """A line for each finding of an attempt that was begun again since."""
    found = job.findings(earlier=True)[:MOST_TOLD]
    return [f"{_of_attempt(job, g)}: {subject(g.worst)}" for g in found]


def _of_attempt(job: Job, group: JobFinding) -> str:
    attempts = {job.members[n].process.restart for n in group.rates}
    return f"attempt {spans(a + 1 for a in attempts)}, {_says(job, group)}"


def overview(job: Job) -> list[tuple[str, str]]:
    """Labelled lines of what all processes have in common."""
    old = job.earlier()
    there = [n for n in range(len(job.members)) if n not in old]
    if not there:
        return []
    facts = [("processes", _processes(job, there))]
    main = [n for n in there if job.members[n].process.role != "dataloader"]
    of: tuple[tuple[str, Callable[[Member], int], Callable[[float], str]], ...]
    of = (
        ("steps", lambda m: m.steps, format_count),
        ("live", lambda m: m.live_bytes, format_bytes),
        ("peak", lambda m: m.peak_bytes, format_bytes),
    )
    for label, value, shown in of:
        facts.append((label, _spread(job, main or there, value, shown)))
    if job.restart:
        facts.append(
            ("restarts", f"{job.restart}; figures are of the last attempt")
        )
    states = Counter(job.state(n) for n in there)
    facts.append(
        (
            "ended",
            ", ".join(f"{n:,} {_state(s)}" for s, n in states.most_common()),
        )
    )
    return facts


def _state(state: str) -> str:
    return "without a word" if state == "lost" else state


def _place(count: tuple[str, int]) -> int:
    return ROLES.index(count[0])


def _processes(job: Job, there: list[int]) -> str:
    roles = Counter(job.members[n].process.role for n in there)
    words = {
        "train": "",
        "dataloader": " of DataLoaders",
        "spawned": " started by them",
        "server": " serving",
    }
    if len(roles) > 1:
        words["train"] = " of the program"
    shown = [
        f"{n:,}{words[role]}" for role, n in sorted(roles.items(), key=_place)
    ]
    hosts = len({job.members[n].process.host for n in there} - {""})
    text = ", ".join(shown)
    return f"{text}, on {plural(hosts, 'host')}" if hosts > 1 else text


def _spread(
    job: Job,
    numbers: list[int],
    value: Callable[[Member], int],
    shown: Callable[[float], str],
) -> str:
    """The usual figure, and who is furthest from it."""
    values = {n: value(job.members[n]) for n in numbers}
    usual = statistics.median_low(values.values())
    least = min(values, key=lambda n: (values[n], n))
    most = max(values, key=lambda n: (values[n], -n))
    text = shown(usual)
    for number, word in ((least, "least"), (most, "most")):
        if shown(values[number]) != shown(usual):
            name = _plain(job, job.members[number].process.role, [number])
            text += f"; {word} {shown(values[number])} on {name}"
    return text


def finding_lines(job: Job, group: JobFinding) -> list[Line]:
    """What was found, and the labelled lines below it."""
    worst = group.worst
    head = f"{worst.severity.upper()} {worst.verdict}: {subject(worst)}"
    lines = _wrapped(head, "  ", _STYLE[worst.severity])
    for label, text in finding_facts(job, group):
        lines += _fact(label, text)
    return lines


def finding_facts(job: Job, group: JobFinding) -> list[tuple[str, str]]:
    """The labelled lines below a finding's head."""
    worst, unit = group.worst, _unit(group)
    facts = [("on", who(job, group.role, group.rates))]
    if worst.site.known:
        facts.append(("line", str(worst.site)))
    leader = group.leader
    rate = f"{format_bytes(group.rate)} a {unit}"
    if worst.graph_bytes_per_step:
        rate += f", {_part_of_nodes(worst)} of it autograd nodes"
    most = group.rates[leader]
    if len(group.rates) > 1 and format_bytes(most) != format_bytes(group.rate):
        name = _plain(job, group.role, [leader])
        rate += f"; most on {name}: {format_bytes(most)}"
        if group.rate > 0:
            times = format_count(most / group.rate)
            rate += f", {times} times the usual"
    facts.append(("growth", rate))
    held = format_bytes(sum(group.held.values()))
    if any(group.nodes.values()):
        nodes = format_bytes(sum(group.nodes.values()))
        held += f" of tensors and {nodes} of autograd nodes"
    facts.append(("retained", f"{held} in all"))
    first = min(group.since, key=lambda n: (group.since[n], n))
    since = f"{unit} {group.since[first]:,}"
    if len(group.rates) > 1:
        since += f", first on {_plain(job, group.role, [first])}"
    facts.append(("since", since))
    if worst.confirmed and worst.advice:
        facts.append(("do", worst.advice))
    return facts


def _part_of_nodes(finding: Finding) -> str:
    nodes = format_bytes(finding.graph_bytes_per_step)
    whole = format_bytes(finding.all_bytes_per_step)
    return "nearly all" if nodes == whole else nodes


def _skipped(job: Job) -> list[Line]:
    if not job.skipped:
        return []
    lines: list[Line] = [[]]
    for name, reason in job.skipped[:MOST_NAMED]:
        lines += _wrapped(f"skipped {name}: {reason}", "  ", "yellow")
    rest = len(job.skipped) - MOST_NAMED
    if rest > 0:
        lines.append(line((f"skipped {plural(rest, 'more file')}", "yellow")))
    return lines


def _fact(label: str, text: str) -> list[Line]:
    indent = " " * (_LABEL + 3)
    rows = _rows(text, WIDTH - len(indent))
    head = f"  {label:<{_LABEL}} "
    return [
        line((indent if number else head, "dim"), row)
        for number, row in enumerate(rows)
    ]


def _wrapped(text: str, indent: str, style: str) -> list[Line]:
    rows = _rows(text, WIDTH - len(indent))
    return [
        line((indent if number else "") + row, "")
        if not style
        else line(((indent if number else "") + row, style))
        for number, row in enumerate(rows)
    ]


def _rows(text: str, width: int) -> list[str]:
    return textwrap.wrap(clean(text), width, break_on_hyphens=False) or [""]
