"""A report's first line: the answer, and what to do, in so much room."""

from __future__ import annotations

import re

from ..base.errors import NOT_WATCHED
from ..base.text import shown_lines
from ..base.units import format_bytes, plural
from ..model.finding import Finding, in_words
from ..model.order import by_urgency
from ..model.report import Report
from ..model.words import BOUNDED, severity_rank
from . import growth as growth_words

#: Characters of a first line, less those before the summary.
ROOM = 100 - len("ImpactArbiter: ")
#: Where a piece of advice may end early.
_CLAUSE = re.compile(r": |; | instead of ")
#: The last name of what keeps the memory.
_LAST = re.compile(r"\.\w+`$")


def alarming(report: Report) -> list[Finding]:
    """Findings that are no mere information, the most urgent first."""
    return [f for f in by_urgency(report.findings) if f.verdict not in BOUNDED]


def summary(report: Report, room: int | None = None) -> str:
    """The first line: the verdict for all processes that were watched, and
    what to do; ``room`` for a terminal's where it is not given."""
    room = ROOM if room is None else room
    children = report.children
    if children is None or children.severity is None:
        return _of_process(report, room)
    told = f"{children.severity.upper()}: {children.answer}"
    urgent = alarming(report)
    if not urgent and not growth_words.unexplained(report):
        return _fitting(room, *_clauses(told))
    own = urgent[0].severity if urgent else "info"
    if severity_rank(children.severity) > severity_rank(own):
        more = "; the process that started them grows, too"
        return _fitting(room - len(more), *_clauses(told)) + more
    more = "; children leak, too"
    return _of_process(report, room - len(more)) + more


def _of_process(report: Report, room: int) -> str:
    """The same for the process alone whose report it is."""
    urgent = alarming(report)
    too_few = "" if urgent else _too_few(report)
    texts = growth_words.unexplained(report)
    if texts and not too_few:
        return _fitting(room, *texts)
    if urgent:
        return _alarm(urgent, room)
    if not report.complete:
        return "no report could be made"
    if report.recorded_by:
        return _quiet_recording(report)
    watched = plural(report.steps, "step")
    if report.steps == 0:
        if name := _unwatched(report):
            return f"no step was seen, as {name} is not watched"
        return (
            "no step was seen, nor a loop that makes tensors:"
            " call arbiter.step()"
        )
    if too_few:
        return too_few
    if report.process_growth is None and growth_words.beside_tensors(report):
        rate = format_bytes(report.process_bytes_per_step or 0)
        return (
            f"no leak among {report.noun}s in {watched}; the process grew"
            f" {rate} a step"
        )
    bounded = len(report.findings)
    if bounded:
        growths = plural(bounded, "bounded growth")
        watched += f"; {growths}, for information only"
    text = f"no leak in {watched}{growth_words.later_in_short(report)}"
    if report.later_growth is not None and report.later_growth.lines:
        at = growth_words.place(report.later_growth.lines[0].site)
        return _fitting(room, f"{text} at {at}", text)
    return text


def _too_few(report: Report) -> str:
    """What to do where no verdict can be given, and nothing said of growth;
    empty where there were steps enough, or none at all."""
    if not report.complete or report.recorded_by:
        return ""
    if not 0 < report.steps < report.needed_steps:
        return ""
    return (
        f"only {plural(report.steps, 'step')} seen, {report.needed_steps} are"
        " needed: run it longer, or lower --warmup and --window"
    )


def _unwatched(report: Report) -> str:
    """What could not be watched and makes tensors: a warning says why."""
    names = (
        warning.partition(NOT_WATCHED)[0]
        for warning in report.warnings
        if NOT_WATCHED in warning
    )
    return next((name for name in names if name != "numpy"), "")


def _quiet_recording(report: Report) -> str:
    """The first line on another tool's recording in which nothing grows."""
    steps = plural(report.steps, f"{report.step_kind} step")
    if report.step_kind == "allocation":
        steps = plural(report.steps, "allocation")
    if report.steps == 0:
        return "nothing can be told of growth: no allocation was recorded"
    if report.steps < report.needed_steps:
        return (
            f"only {steps} recorded, {report.needed_steps} are needed:"
            " record for longer"
        )
    return f"no line keeps ever more in {steps}"


def _alarm(urgent: list[Finding], room: int) -> str:
    """Severity, rate, line and what to change, in so much room."""
    counts: dict[str, int] = {}
    for finding in urgent:
        counts[finding.verdict] = counts.get(finding.verdict, 0) + 1
    names = {"cycle": "garbage cycle", "native": "native hold"}
    said = ", ".join(
        f"{number} growing, unconfirmed"
        if verdict == "growing"
        else plural(number, names.get(verdict, verdict))
        for verdict, number in counts.items()
    )
    first = urgent[0]
    # What the collector frees is no part of how fast memory goes.
    stays = [f for f in urgent if not f.goes_in_time] or urgent
    rate = sum(map(growth_words.rate, stays))
    at, part = "", ""
    if first.site.known:
        place = first.site.file, first.site.line
        there = [f for f in stays if (f.site.file, f.site.line) == place]
        part = format_bytes(sum(map(growth_words.rate, there)))
        part = "" if part == format_bytes(rate) else f", {part} of it"
        at = f" at {growth_words.place(first.site)}"
        if first.grown_at is None:  # that line may be as it should
            at = (" allocated" if part else ", allocated") + at
    in_all = plural(len(urgent), "finding")
    text = _fitting(
        room,
        *(
            f"{first.severity.upper()}, {what}: {format_bytes(rate)} a step"
            + where
            for where in (part + at, "")
            for what in (said, in_all)
        ),
    )
    todo = _todo(first, room - len(text) - 2) if first.confirmed else ""
    return f"{text}; {todo}" if todo else text


def _todo(finding: Finding, room: int) -> str:
    """What to change, or else where it is kept, if that fits."""
    advice = finding.advice.rstrip(".")
    clause = _CLAUSE.split(advice)[0]
    added = [
        line[1:].strip()
        for line in shown_lines(finding.patch or "")
        if line.startswith("+") and not line.startswith("+++")
    ]
    held_in, short = in_words(finding.held_in[:1]), clause.split(" in `")[0]
    symbols = [one.symbol for one in finding.held_in[:1] if one.library]
    holder = finding.holder
    kept = f"kept in `{holder.expression}`" if holder is not None else ""
    end = _LAST.search(kept)
    last = f"kept in `\u2026{end[0]}" if end is not None else ""
    # Half an instruction is none.
    said = (advice, clause, *added[:1], held_in, *symbols, short, kept, last)
    for text in said:
        if text and len(text) <= room:
            return text
    return ""


def _fitting(room: int, *texts: str) -> str:
    """The first that fits, else the last: half a sentence says nothing, or
    something else."""
    return next((text for text in texts if len(text) <= room), texts[-1])


def _clauses(text: str) -> list[str]:
    """A sentence, and what is left of it without its last clauses."""
    parts = text.split("; ")
    return ["; ".join(parts[:most]) for most in range(len(parts), 0, -1)]
