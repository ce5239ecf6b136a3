"""The words for what grew: how much of it findings explain, and of which
kinds the rest is.

Nothing here knows how it is shown, as in ``wording``.
"""

from __future__ import annotations

from typing import NamedTuple

from ..base.shell import cell_name
from ..base.units import format_bytes, format_count
from ..model.finding import Finding, Site
from ..model.growth import (
    EXPLAINED,
    LaterGrowth,
    LaterLine,
    ProcessGrowth,
    TypeGrowth,
)
from ..model.report import Report
from ..model.words import BOUNDED

#: Kinds below this part of the growth are not worth a word.
LEAST_PART = 0.05
#: No more types are named where those before have this part of the objects.
ENOUGH = 0.9
#: Kinds and types that a first line names.
MOST_KINDS = 3
MOST_TYPES = 2


class Kind(NamedTuple):
    """What one kind of memory gained, in bytes a step; ``field`` is that of
    ``ProcessGrowth``."""

    field: str
    words: str
    bytes_per_step: float


_WORDS = {
    "tensors": "tensors",
    "arrays": "NumPy arrays",
    "nodes": "autograd nodes",
    "objects": "Python objects",
    "heap": "memory of C libraries",
    "kept": "memory that malloc keeps",
    "files": "mapped files",
    "shared": "shared memory",
    "watching": "our own ledger and objects",
    "rest": "other memory",
}


#: What the ledger has, and graphs that hang on it.
_WATCHED = ("tensors", "arrays", "nodes")
#: What lies in malloc's memory: what is let go of it is kept by malloc.
_IN_HEAP = ("tensors", "arrays", "nodes", "objects", "heap", "watching")


def kinds(growth: ProcessGrowth) -> list[Kind]:
    """Every kind that was measured; they add up to what the process grew."""
    measured = ((name, getattr(growth, name)) for name in _WORDS)
    return [
        Kind(name, _WORDS[name], size)
        for name, size in measured
        if size is not None
    ]


def parts(growth: ProcessGrowth) -> list[Kind]:
    """What the growth is made of, the most first.

    What there was before and was let go is still in the process where malloc
    keeps it, and no growth of that.  They add up to the growth, but for what
    ``beyond`` gives.
    """
    found = {kind.field: kind.bytes_per_step for kind in kinds(growth)}
    let_go = sum(min(found.get(name, 0.0), 0.0) for name in _IN_HEAP)
    kept = found.get("kept", 0.0)
    if kept > 0 > let_go:
        found["kept"] = kept + max(let_go, -kept)
    gained = [
        Kind(name, _WORDS[name], size)
        for name, size in found.items()
        if size > 0
    ]
    return sorted(gained, key=lambda kind: -kind.bytes_per_step)


def beyond(growth: ProcessGrowth) -> str:
    """What its parts were given and the process did not gain, as a clause;
    empty where that is little.

    Freed pools of Python objects are filled again, and what was asked for
    and never written lies nowhere.
    """
    told = sum(kind.bytes_per_step for kind in parts(growth))
    size = told - growth.process
    if size <= LEAST_PART * growth.process:
        return ""
    return (
        f"; {format_bytes(size)} of it in memory that the process had or"
        " never touched"
    )


def objects_count(finding: Finding) -> bool:
    """Whether its tensors' own objects are worth a word."""
    return finding.object_bytes_per_step > LEAST_PART * finding.cost_per_step


def rate(finding: Finding) -> float:
    """Bytes a step, of all that is worth a word."""
    if objects_count(finding):
        return finding.cost_per_step
    return finding.all_bytes_per_step


def types_of(growth: ProcessGrowth, most: int = MOST_TYPES) -> str:
    """``int and list``: the types of which most of the objects are."""
    names, told = [], 0.0
    for one in growth.types[:most]:
        if told > ENOUGH * (growth.objects or 0):
            break
        names.append(one.type)
        told += one.bytes_per_step
    return " and ".join(names)


def unexplained(report: Report) -> list[str]:
    """A first line for growth that the findings leave open, and shorter ones
    that leave parts of it out; none where they don't."""
    grown, told = report.grown_bytes_per_step, report.explained_bytes_per_step
    whole = report.process_growth
    leaks = any(f.verdict not in BOUNDED for f in report.findings)
    if whole is not None and (leaks or whole.process <= grown):
        whole = None  # a leak comes first: the last lines have the rest
    # Nodes are part of what the process gained, and come to what tensors did.
    nodes = sum(f.graph_bytes_per_step for f in report.findings)
    grown = grown + nodes if whole is None else whole.process
    told += nodes
    if grown <= 0 or told >= EXPLAINED * grown:
        return []
    text = f"grew {format_bytes(grown)} a step"
    if told > 0:
        text += f"; findings explain {format_bytes(told)}"
    elif whole is None:
        if not (report.growing_lines or report.recorded_by):
            text += ", at no line steadily"
        text += "; no finding explains it"
    if whole is None:
        return _with_lines(text, report)
    lead = ": the rest is " if told > 0 else ": "
    return _with_kinds(text, lead, _open_kinds(report, whole), report, whole)


def _with_lines(text: str, report: Report) -> list[str]:
    """With the lines that grow, fewer of them, or none."""
    lines = report.growing_lines[:MOST_KINDS]
    rates = [f" ({format_bytes(line.bytes_per_step)})" for line in lines]
    named = [
        [of(line.site) + rate for line, rate in zip(lines, rates, strict=True)]
        for of in (str, place)
    ]
    return [
        *(
            f"{text}: {', '.join(parts[:most])}"
            for most in range(len(lines), 0, -1)
            for parts in named
        ),
        text,
    ]


def _with_kinds(
    text: str,
    lead: str,
    still_open: list[Kind],
    report: Report,
    whole: ProcessGrowth,
) -> list[str]:
    """With the kinds of memory that grow, fewer of them, or none.  They add
    up to more than the growth where some of them lie in memory that there
    was: that stands beside their sizes, or there are no sizes."""
    shown = still_open[:MOST_KINDS]
    if not any(kind.field in _WATCHED for kind in still_open):
        text = f"no leak among {report.noun}s; {text}"
    sizes = [f" ({format_bytes(kind.bytes_per_step)})" for kind in shown]
    sized = [k.words + size for k, size in zip(shown, sizes, strict=True)]
    named = [kind.words for kind in shown]
    more = beyond(whole)
    texts = []
    for most in range(len(shown), 0, -1):
        if most == len(shown) or not more:
            texts.append(f"{text}{lead}{', '.join(sized[:most])}{more}")
        texts.append(f"{text}{lead}{', '.join(named[:most])}")
    return [*texts, text]


#: Characters of a file's name in a first line.
MOST_NAME = 32


def place(site: Site) -> str:
    """File and line, in so much room that the rest fits."""
    name = cell_name(site.file) or site.file.rpartition("/")[2]
    if len(name) > MOST_NAME:
        name = "\u2026" + name[1 - MOST_NAME :]
    return f"{name}:{site.line}"


def _open_kinds(report: Report, growth: ProcessGrowth) -> list[Kind]:
    """What findings leave open of each kind, the most first."""
    explained = {
        "tensors": _explained(report, of_numpy=False),
        "arrays": _explained(report, of_numpy=True),
        "nodes": sum(f.graph_bytes_per_step for f in report.findings),
        "heap": _objects(report),
    }
    left = [
        Kind(
            field,
            _named(report, growth, field, words),
            size - explained.get(field, 0),
        )
        for field, words, size in parts(growth)
    ]
    least = LEAST_PART * growth.process
    return sorted(
        (kind for kind in left if kind.bytes_per_step > least),
        key=lambda kind: -kind.bytes_per_step,
    )


def _explained(report: Report, *, of_numpy: bool) -> float:
    """JAX's arrays lie where tensors do, NumPy's have a kind of their own."""
    return sum(
        f.bytes_per_step
        for f in report.findings
        if ({t.device for t in f.tensors} == {"numpy"}) == of_numpy
    )


def _objects(report: Report) -> float:
    """Of tensors that findings are about, at least."""
    return sum(f.object_bytes_per_step for f in report.findings)


def _named(
    report: Report, growth: ProcessGrowth, field: str, words: str
) -> str:
    """With the types, or the line that makes most of it."""
    if field == "objects" and growth.types:
        return f"Python {types_of(growth)}"
    noun = {"tensors": report.noun, "arrays": "array"}.get(field)
    if field == "tensors":
        words = f"{report.noun}s"
    for line in report.growing_lines:
        if line.noun == noun:
            return f"{words} from {line.site}"
    return words


def beside_tensors(report: Report) -> str:
    """What the process gained besides tensors; empty where that is little."""
    grown = report.process_bytes_per_step or 0.0
    split = report.process_growth
    if split is not None and grown > 0:
        return _split(split, report.noun) if split.process > 0 else ""
    tensors = max(report.grown_bytes_per_step, report.gained_bytes_per_step)
    nodes = sum(f.graph_bytes_per_step for f in report.findings)
    known_bytes = tensors + nodes + _objects(report)
    if grown <= 0 or known_bytes >= EXPLAINED * grown:
        return ""
    both = "arrays" if report.noun == "array" else "tensors and arrays"
    known = [f"{format_bytes(tensors)} of it {both}"]
    if nodes:
        known.append(f"{format_bytes(nodes)} autograd nodes")
    if _objects(report):
        known.append(f"{format_bytes(_objects(report))} their own objects")
    rest = format_bytes(grown - known_bytes)
    return (
        f"the process grew {format_bytes(grown)} a step,"
        f" {' and '.join(known)}; {rest} is other memory"
    )


def _where(one: TypeGrowth) -> str:
    return "" if one.path is None else f" mostly in {one.path}"


def _split(growth: ProcessGrowth, noun: str) -> str:
    """All kinds, in one sentence; ``noun``: of what is no NumPy array."""
    said = []
    for field, words, size in parts(growth):
        if size <= LEAST_PART * growth.process / 5:
            continue
        what = f"{noun}s" if field == "tensors" else words
        text = f"{format_bytes(size)} {what}"
        if field == "objects" and growth.types:
            text += " (" + ", ".join(
                f"{one.type} {format_bytes(one.bytes_per_step)}{_where(one)}"
                for one in growth.types[:MOST_KINDS]
            )
            text += ")"
        said.append(text)
    return (
        f"the process grew {format_bytes(growth.process)} a step from step"
        f" {growth.first_step} to {growth.last_step}"
        + (f": {', '.join(said)}{beyond(growth)}" if said else "")
    )


def later(report: Report) -> str:
    """What was seen of growth after the last step; empty where none was."""
    grown = report.later_growth
    if grown is None:
        return ""
    text = (
        f"after step {format_count(grown.after_step)} {report.noun} memory"
        f" went on to grow, {_each(grown)} in"
        f" {format_count(grown.calls)} of them"
    )
    if grown.lines:
        text += ", of " + "; ".join(map(_kept, grown.lines))
    return f"{text}: no verdict is about that"


def later_in_short(report: Report) -> str:
    """The same as the end of a first line."""
    grown = report.later_growth
    if grown is None:
        return ""
    return f"; then {_each(grown)} more"


def _each(grown: LaterGrowth) -> str:
    return f"{format_bytes(grown.bytes_per_call)} a {grown.call_kind}"


def _kept(line: LaterLine) -> str:
    kept = f", kept by {line.path}" if line.path is not None else ""
    return f"{line.site}{kept}"
