"""The words of a report, shared by terminal, page and code scanning.

Nothing here knows how it is shown: texts are raw and must be escaped by
the renderer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.records import dataclass
from ..base.text import shown_lines
from ..base.units import (
    GIB,
    format_bytes,
    format_count,
    format_duration,
    plural,
)
from ..model.devices import has_torchs, is_on_host
from ..model.finding import (
    Cycle,
    Finding,
    GraphCost,
    Holder,
    NativeCall,
    Site,
    TensorExample,
    in_words,
)
from ..model.path import Edge
from ..model.recording import RECORDED
from ..model.report import LineBytes, Report
from ..model.retention import Retention
from ..model.words import BOUNDED
from . import growth as growth_words

#: What each verdict means, in a sentence for someone who never saw it.
VERDICT_MEANING = {
    "leak": "Tensors are kept step after step and nothing lets them go.",
    "growing": "Every step so far has kept more; not confirmed yet.",
    "cycle": "Only a garbage cycle holds the tensors.",
    "native": "C or C++ code keeps the tensors; no Python path was found.",
    "accumulation": "Tensors are collected, then let go together.",
    "cache": "Tensors are kept up to a bound.",
}
#: Below this a leak is too slow to matter to most runs.
SLOW_BYTES_PER_STEP = 4096


def meaning(finding: Finding) -> str:
    """What its verdict means, of what it is about."""
    noun = finding.noun
    return (
        VERDICT_MEANING[finding.verdict]
        .replace("tensor", noun)
        .replace("Tensor", noun.capitalize())
    )


@dataclass(frozen=True)
class Fact:
    """One labelled line; ``code`` is shown below it as it stands."""

    label: str
    text: str
    code: tuple[str, ...] = ()


def subject(finding: Finding) -> str:
    """What the finding is about, named as shortly as it can be."""
    if finding.holder is not None:
        return finding.holder.expression
    if finding.path is not None:
        return str(finding.path)
    return f"memory from {finding.allocated_at}"


def headline(finding: Finding) -> str:
    """One sentence."""
    what = subject(finding)
    rate = growth(finding)
    if finding.verdict == "growing":
        end = "not confirmed yet"
        if finding.may_end_at is not None:
            end = f"{finding.may_end_at} may end that"
        elif finding.rule == "may-end":
            end = "keys that come again may end that"
        return f"{what} has kept {rate} so far; {end}"
    if finding.verdict == "accumulation":
        return f"{what} collects {rate} and lets go in between"
    if finding.verdict == "cache":
        if finding.holder is not None and finding.holder.full_since:
            return f"{what} {_full_text(finding.holder)}"
        return f"{what} fills with {rate}, {bound_text(finding)}"
    if finding.verdict == "cycle":
        until = "until the collector runs"
        if finding.cycle is not None and not finding.cycle.collectable:
            until = "for ever, as C++ is part of it"
        return f"a garbage cycle holds {rate} {until}: {what}"
    if finding.verdict == "native":
        if finding.held_in:
            what = in_words(finding.held_in)
            return f"{what} keeps {rate}; no Python path was found"
        return f"C or C++ code keeps {rate}: {what}; no Python path was found"
    left = "nothing has let it go"
    if finding.rule == "outgrows":
        left = "less leaves than comes"
    if finding.holder is not None and finding.holder.leads_back:
        left = "what leaves it stays: what it has leads there"
    return f"{what} keeps {rate}, and {left}"


def announcement(finding: Finding) -> str:
    """One line for a finding that comes while the program runs."""
    text = f"{finding.severity.upper()} {finding.verdict}: {headline(finding)}"
    if finding.verdict == "leak":
        text += " so far"
    return text + site_clause(finding)


def site_clause(finding: Finding) -> str:
    """The statement to look at; where none was seen to grow it, the line that
    allocates, which may be as it should."""
    if not finding.site.known:
        return ""
    if finding.grown_at is None:
        return f"; allocated at {finding.allocated_at}"
    return f"; look at {finding.grown_at}"


def taken_back(finding: Finding) -> str:
    """What is said of a former leak at the end."""
    return f"{subject(finding)} grew for a while, {finding.note}"


def _full_text(holder: Holder) -> str:
    """Since when, as far as that was seen."""
    bound, step = format_count(holder.bound or 0), holder.full_since
    return (
        f"is full with {bound} of {bound}, and has been since step"
        f" {format_count(step or 0)} or before"
    )


def bound_text(finding: Finding) -> str:
    """``up to its bound of 128``, or that no bound is known."""
    holder = finding.holder
    if holder is None or holder.bound is None:
        return "and was seen to stop"
    return f"up to its bound of {format_count(holder.bound)}"


def growth(finding: Finding) -> str:
    """``10.3 MiB and 3 tensors more a step``."""
    parts, pace, count = [], "", finding.tensors_per_step
    if finding.bytes_per_step or not finding.graph_bytes_per_step:
        rate = format_bytes(finding.bytes_per_step)
        if 0 < count < 0.95:
            every = plural(round(1 / count, 1), "step")
            pace = f", 1 {finding.noun} every {every}"
        elif count:
            rate += f" in {plural(count, finding.noun)}"
        parts.append(rate)
    if finding.graph_bytes_per_step:
        nodes = format_bytes(finding.graph_bytes_per_step)
        parts.append(f"{nodes} of autograd nodes")
    if growth_words.objects_count(finding):
        own = format_bytes(finding.object_bytes_per_step)
        parts.append(f"at least {own} of {finding.noun} objects")
    *others, last = parts
    said = f"{', '.join(others)} and {last}" if others else last
    return f"{said} more a step{pace}"


def forecast(finding: Finding) -> str:
    """``out of memory in 1,204 steps (~3 h 12 min)``, or that it is not."""
    if finding.goes_in_time:
        return "none: the collector was seen to free most of it"
    if finding.steps_to_oom is None:
        return "not within this horizon"
    steps = plural(_rounded(finding.steps_to_oom), "step")
    text = f"out of memory in {steps}"
    if finding.seconds_to_oom is not None:
        text += f" (~{format_duration(finding.seconds_to_oom)})"
    return text


def _rounded(steps: int) -> int:
    """No more digits than a forecast can be trusted with."""
    digits = len(str(steps)) - 2
    return round(steps, -digits) if steps > 10_000 else steps


def facts(finding: Finding) -> list[Fact]:
    """The labelled lines below a headline, in reading order."""
    found = [_site_fact("allocated", finding.allocated_at)]
    if finding.path is not None:
        found.append(Fact("kept by", str(finding.path)))
    if finding.held_in:
        found.append(Fact("held in", in_words(finding.held_in)))
    if finding.made_in:
        found.append(Fact("made in", _calls_text(finding.made_in)))
    if finding.holder is not None:
        found.append(Fact("holder", _holder_text(finding)))
    if finding.grown_at is not None:
        found.append(_site_fact("grown at", finding.grown_at))
        found += [
            _site_fact("called from", site) for site in finding.grown_stack[:1]
        ]
    elif finding.maybe_grown_at is not None:
        found.append(_site_fact("grown maybe", finding.maybe_grown_at))
    if finding.may_end_at is not None:
        found.append(_site_fact("may end", finding.may_end_at))
    if finding.asked_at is not None:
        found.append(_site_fact("asked at", finding.asked_at))
    if finding.holder is None or not finding.holder.full_since:
        found.append(Fact("growth", _growth_text(finding)))
    found.append(Fact("retained", _retained_text(finding)))
    if finding.graph is not None:
        found.append(Fact("graph", graph_text(finding.graph)))
    # Of a program without a backward nobody expects to need it, and what
    # else than torch keeps for its own is not known.
    if finding.needed_by or (
        finding.needed_by == ()
        and finding.trains
        and has_torchs(t.device for t in finding.tensors)
    ):
        found.append(Fact("needed by", needed_text(finding)))
    if finding.cycle is not None:
        found.append(Fact("cycle", _cycle_text(finding.cycle)))
    if finding.tensors:
        found.append(Fact(f"{finding.noun}s", _examples_text(finding)))
    if finding.verdict not in BOUNDED and finding.rule != RECORDED:
        found.append(Fact("forecast", _forecast_text(finding)))
    # Nobody is told to change what may be all right.
    do = "if a leak" if finding.verdict == "growing" else "do"
    for label, text in (
        ("phase", finding.phase),
        ("settled by", finding.confirmation),
        ("note", finding.note),
        (do, finding.advice),
        ("no patch", finding.patch_note),
    ):
        if text:
            found.append(Fact(label, text))
    if finding.patch and finding.verdict != "growing":
        found.append(
            Fact("patch", "suggested:", tuple(shown_lines(finding.patch)))
        )
    return found


def _site_fact(label: str, site: Site) -> Fact:
    source = site.source.strip()
    return Fact(label, str(site), (source,) if source else ())


def _holder_text(finding: Finding) -> str:
    holder = finding.holder
    assert holder is not None
    text = f"{holder.expression}: {holder.type}"
    if holder.length is not None:
        text += f" of {format_count(holder.length)}"
        if 0 < holder.older <= holder.length:
            since = format_count(holder.length - holder.older)
            text += f", {since} of them since the watch"
    if holder.growth_per_step is not None:
        sign = "+" if holder.growth_per_step >= 0 else ""
        growth = format_count(holder.growth_per_step)
        if growth not in ("0", "-0"):
            text += f", {sign}{growth} a step"
            if holder.alike > 1:
                text += " on the average"
    if holder.bound is not None:
        text += f", bound {format_count(holder.bound)}"
    if holder.alike > 1:
        text += f"; and {format_count(holder.alike - 1)} alike"
    if holder.doubles:
        others = plural(holder.doubles, "other")
        text += f"; {others} alike had the same at the last look"
    return text


def _growth_text(finding: Finding) -> str:
    text = growth(finding)
    if finding.generations > 1:
        text += (
            f"; what {plural(finding.generations, 'step')} made is still"
            f" there, from step {finding.first_step} to {finding.last_step}"
        )
    return text


def _retained_text(finding: Finding) -> str:
    held = format_bytes(finding.retained_bytes)
    count = plural(finding.retained_tensors, finding.noun)
    if finding.graph is not None and finding.graph.node_bytes:
        count += f" and {format_bytes(finding.graph.node_bytes)} of nodes"
    elif not finding.retained_tensors:
        return "nothing by this path alone: another holds the same"
    if finding.holder is None:
        return f"{held} in {count}"
    if finding.holder.beside:
        return (
            f"{held} in {count}, freed if {finding.holder.others} loses the"
            " graph they share as well"
        )
    if finding.holder.shared:
        return f"{held} in {count}, freed once nothing else holds the same"
    if finding.holder.alike > 1:
        alike = f"all {format_count(finding.holder.alike)} of them"
        return f"{held} in {count}, freed if the paths to {alike} are cut"
    freed = f"{held} in {count}, freed if the path is cut at the holder"
    if finding.holder.doubles:
        return f"{freed}: those alike keep the rest"
    return freed


def _cycle_text(cycle: Cycle) -> str:
    text = f"{cycle.path} -> itself"
    if cycle.collected_bytes:
        freed = format_bytes(cycle.collected_bytes)
        text += f"; the collector's full runs have freed {freed} of such"
    return text


def graph_text(graph: GraphCost) -> str:
    """``28 nodes, 12 tensors saved by them (1.1 GiB), mostly ...``."""
    text = (
        f"{plural(graph.nodes, 'node')} of autograd,"
        f" {plural(graph.saved_tensors, 'tensor')} saved for backward"
        f" ({format_bytes(graph.bytes)})"
    )
    if graph.node_bytes:
        text += f", {format_bytes(graph.node_bytes)} in the nodes themselves"
    if graph.biggest:
        most = ", ".join(
            f"{name} \u00d7{format_count(count)}"
            + (f" ({format_bytes(size)})" if size else "")
            for name, count, size in graph.biggest[:3]
        )
        text += f"; biggest {most}"
    return text


#: Operations that are named where something is still needed.
MOST_READERS = 3


def retained_text(edge: Edge) -> str:
    """What the object that an edge leads to retains."""
    if edge.retained_bytes is None:
        return "what it retains was not measured"
    nodes = edge.retained_node_bytes or 0
    if not edge.retained_bytes + nodes:
        return "retains nothing"
    said = f"retains {format_bytes(edge.retained_bytes)}"
    more = f" and {format_bytes(nodes)} of autograd nodes" if nodes else ""
    return said + more


def _calls_text(calls: Sequence[NativeCall]) -> str:
    """``ext.so: fill(long), called by make(long)``."""
    innermost, *callers = calls
    text, library = str(innermost), innermost.library
    for call in callers:
        same = call.symbol and call.library == library
        text += f", called by {call.symbol if same else call}"
        library = call.library
    return text


def needed_text(thing: Finding | Retention) -> str:
    """``AddmmBackward0.saved[mat1] and 2 more``, or that nothing will."""
    readers = thing.needed_by or ()
    if not readers:
        return "nothing: no live graph will read it"
    text = ", ".join(str(reader) for reader in readers[:MOST_READERS])
    more = thing.readers - MOST_READERS
    return f"{text} and {format_count(more)} more" if more > 0 else text


def _born(finding: Finding, tensor: TensorExample) -> str:
    """When it was made, unless it is gone: it is an example still."""
    born = tensor.generation
    return f", step {born}" if born >= finding.first_step else ""


def _examples_text(finding: Finding) -> str:
    shown = []
    for tensor in finding.tensors[:3]:
        shape = "masked" if tensor.shape is None else str(list(tensor.shape))
        shown.append(
            f"{shape} {tensor.dtype} on {tensor.device}"
            f" ({format_bytes(tensor.bytes)}{_born(finding, tensor)})"
        )
    return "such as " + "; ".join(shown)


def _forecast_text(finding: Finding) -> str:
    text = forecast(finding)
    slow = 0 < finding.cost_per_step < SLOW_BYTES_PER_STEP
    if finding.steps_to_oom is None and slow and not finding.goes_in_time:
        steps = int(GIB / finding.cost_per_step)
        text += f": it takes {plural(steps, 'step')} to reach 1 GiB"
    return text


def ages_text(line: LineBytes) -> str:
    """Where a line's bytes come from in time, the oldest first."""
    return ", ".join(
        f"{age}: {format_bytes(size)}"
        for age, size in line.by_age.items()
        if size
    )


#: What steps are where a program has none of its own.
TURNS = ", turns of a loop that makes tensors: no other were seen"


def footer(report: Report) -> list[str]:
    """What was watched, where the live bytes are, what watching cost."""
    seen = "recorded" if report.recorded_by else "watched"
    # Of another kind nobody asks what they are.
    turns = TURNS if report.step_kind == "loop turn" else ""
    watched = (
        f"{seen} {plural(report.steps, 'step')}{turns};"
        f" {format_bytes(report.live_bytes)} live at the end,"
        f" {format_bytes(report.peak_bytes)} at the peak"
    )
    # Of one that could not be made there may be no figures.
    lines = [watched] if report.complete or report.steps else []
    if other := growth_words.beside_tensors(report):
        lines.append(other)
    if later := growth_words.later(report):
        lines.append(later)
    lines += [
        f"taken back: {taken_back(finding)}" for finding in report.taken_back
    ]
    shares = sorted(report.accounted.items(), key=lambda item: -item[1])
    shown = [
        f"{name.replace('_', ' ')} {format_bytes(size)}"
        for name, size in shares
        if size
    ]
    if shown:
        lines.append("live: " + ", ".join(shown))
    if older := sum(report.older.values()):
        lines.append(f"older than the watch: {format_bytes(older)} more")
    # What they have is in the line above.
    lines += [str(d) for d in report.devices if not is_on_host(d.device)]
    lines += report.cross_checks
    cost = _cost_text(report)
    if cost:
        lines.append(f"watching cost {cost}")
    return lines


def _cost_text(report: Report) -> str:
    cost = report.cost
    parts = []
    if cost.ms_per_step is not None:
        parts.append(f"{format_duration(cost.ms_per_step / 1000)} a step")
    if cost.looks and cost.looks_ms is not None:
        took = format_duration(cost.looks_ms / 1000)
        parts.append(f"{took} for {plural(cost.looks, 'look')} at suspects")
    if cost.ledger_bytes is not None:
        parts.append(f"{format_bytes(cost.ledger_bytes)} of ledger")
    return ", ".join(parts)
