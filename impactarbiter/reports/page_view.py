"""What a page says of a report: plain texts and numbers for the templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..base.records import dataclass
from ..base.text import shown_lines
from ..base.units import format_bytes, format_count, plural
from ..model.finding import Finding, TensorExample
from ..model.history import Excerpt
from ..model.order import by_urgency
from ..model.path import Edge, Path, compress_runs
from ..model.report import Report
from ..model.site import Site
from ..model.words import BOUNDED
from .charts import AgesView, Chart, ages_view, growth_chart, memory_chart
from .first_line import alarming, summary
from .icicles import Cell, icicles_of
from .purpose_chart import purpose_chart
from .reasons import otherwise, why
from .wording import Fact, facts, footer, headline, retained_text

#: Characters of a headline.
HEADLINE = 120
#: Edges of a path that get a line of their own.
MOST_EDGES = 24
#: Facts that a page shows as something better than a line of text.
_SHOWN_OTHERWISE = (
    "allocated",
    "grown at",
    "grown maybe",
    "kept by",
    "holder",
    "patch",
    "do",
    "if a leak",
    "settled by",
)


@dataclass(frozen=True)
class SourceLine:
    """A line of an excerpt; ``mark`` says what it is guilty of."""

    number: int
    text: str
    mark: str = ""


@dataclass(frozen=True)
class Source:
    """An excerpt with its guilty lines marked."""

    title: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True)
class Node:
    """A line of a path's tree; ``notes`` are figures of this object.

    ``kept`` bytes hang on it alone, ``share`` percent of the most that one on
    the path has; None where there is nothing to compare.
    """

    text: str
    type: str = ""
    notes: tuple[str, ...] = ()
    grows: bool = False
    kept: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class DiffLine:
    """A line of a patch: ``kind`` is "add", "cut", "head" or "same"."""

    kind: str
    text: str


@dataclass(frozen=True)
class HeldView:
    """One of the holders that a statement feeds."""

    headline: str
    noun: str
    tree: tuple[Node, ...]
    ages: AgesView | None
    facts: tuple[Fact, ...]
    why: tuple[str, ...]
    otherwise: tuple[str, ...]


@dataclass(frozen=True)
class BlockView:
    """All findings that one statement makes."""

    anchor: str
    severity: str
    verdict: str
    headline: str
    where: str
    confirmed: bool
    advice: str
    sources: tuple[Source, ...]
    patch: tuple[DiffLine, ...]
    held: tuple[HeldView, ...]
    stack: tuple[tuple[str, str], ...]
    of: tuple[Finding, ...]


@dataclass(frozen=True)
class ChildrenView:
    """What the processes that this one started have found.

    ``blocks`` has who found it with each.
    """

    answer: str
    blocks: tuple[tuple[str, BlockView], ...]


@dataclass(frozen=True)
class ReportView:
    """The whole page."""

    title: str
    state: str
    todo: str
    change: tuple[DiffLine, ...]
    change_at: str
    blocks: tuple[BlockView, ...]
    children: ChildrenView | None
    charts: tuple[Chart, ...]
    icicles: tuple[tuple[str, Cell], ...]
    footer: tuple[str, ...]
    warnings: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, ...], ...]
    recorded: tuple[tuple[str, ...], ...]


def view_of(report: Report) -> ReportView:
    """What the template of a report is given."""
    blocks = tuple(
        _block(number, group, report.excerpts)
        for number, group in enumerate(_by_statement(report.findings), 1)
    )
    urgent = _most_urgent(report)
    first = urgent if urgent is not None and urgent.confirmed else None
    changed = tuple(
        line
        for block in blocks[:1]
        for line in block.patch
        if first in block.of and line.kind in ("add", "cut")
    )
    charts = (
        growth_chart(report),
        memory_chart(report),
        purpose_chart(report),
    )
    return ReportView(
        title=summary(report, HEADLINE),
        state=urgent.severity if urgent is not None else "quiet",
        todo=first.advice if first else "",
        change=changed,
        change_at=str(first.site) if first and first.site.known else "",
        blocks=blocks,
        children=_children(report, len(blocks)),
        charts=tuple(chart for chart in charts if chart is not None),
        icicles=icicles_of(report),
        footer=tuple(footer(report)),
        warnings=tuple(report.warnings),
        environment=tuple(sorted(report.environment.items())),
        figures=_figures(report),
        recorded=_recorded(report),
    )


def _most_urgent(report: Report) -> Finding | None:
    """Of the process itself, else of those that it started."""
    urgent = alarming(report)
    if not urgent and report.children is not None:
        found = by_urgency(c.worst for c in report.children.findings)
        urgent = [f for f in found if f.verdict not in BOUNDED]
    return urgent[0] if urgent else None


# -- findings -----------------------------------------------------------------


def _by_statement(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that share one statement, the most urgent first."""
    groups: dict[object, list[Finding]] = {}
    for finding in by_urgency(findings):
        site = finding.site
        key: object = (site.file, site.line, finding.verdict in BOUNDED)
        groups.setdefault(key if site.known else id(finding), []).append(
            finding
        )
    return list(groups.values())


def _children(report: Report, before: int) -> ChildrenView | None:
    """A block for what each line of theirs keeps, after the process's own."""
    children = report.children
    if children is None:
        return None
    return ChildrenView(
        children.answer,
        tuple(
            (child.on, _block(number, [child.worst], report.excerpts))
            for number, child in enumerate(children.findings, before + 1)
        ),
    )


def _block(
    number: int, group: Sequence[Finding], excerpts: Sequence[Excerpt]
) -> BlockView:
    first = group[0]
    patch = next((f.patch for f in group if f.patch and f.confirmed), None)
    return BlockView(
        anchor=f"finding-{number}",
        severity=first.severity,
        verdict=first.verdict,
        headline=headline(first),
        where=str(first.site) if first.site.known else "",
        confirmed=first.confirmed,
        advice=first.advice,
        sources=sources_of(group, excerpts),
        patch=diff_lines(patch),
        held=tuple(_held(finding) for finding in group),
        stack=tuple((str(site), site.source) for site in first.stack),
        of=tuple(group),
    )


def _held(finding: Finding) -> HeldView:
    return HeldView(
        headline=headline(finding),
        tree=tree_of(finding),
        noun=finding.noun,
        ages=ages_view(finding.ages, finding.noun),
        facts=tuple(
            fact
            for fact in facts(finding)
            if fact.label not in _SHOWN_OTHERWISE
        ),
        why=tuple(why(finding)),
        otherwise=tuple(otherwise(finding)),
    )


def diff_lines(patch: str | None) -> tuple[DiffLine, ...]:
    """A unified diff, line by line."""
    return tuple(
        DiffLine(_kind(line), line) for line in shown_lines(patch or "")
    )


def _kind(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "head"
    return {"+": "add", "-": "cut"}.get(line[:1], "same")


# -- source -------------------------------------------------------------------


def sources_of(
    group: Sequence[Finding], excerpts: Sequence[Excerpt]
) -> tuple[Source, ...]:
    """The excerpts around the statements, each guilty line marked once."""
    marks: dict[Site, str] = {}
    for finding in group:
        for site, said in (
            (finding.allocated_at, "makes it"),
            (finding.grown_at, "keeps it"),
            *((site, "leads to it") for site in finding.grown_stack[:1]),
            (finding.maybe_grown_at, "may keep it"),
            (finding.may_end_at, "may let it go"),
            (finding.asked_at, "asks for its key"),
        ):
            if site is not None and site.known:
                before = marks.get(site)
                if before is None:
                    marks[site] = said
                elif said not in before and "keep" not in before:
                    marks[site] = f"{before} and {said}"
    found: dict[object, Source] = {}
    for site in marks:
        excerpt = next(
            (e for e in excerpts if _holds(e, site)),
            Excerpt(site.file, site.line, (site.source,)),
        )
        key = (excerpt.file, excerpt.first)
        if key not in found and any(excerpt.lines):
            found[key] = _source(site, excerpt, marks)
    return tuple(found.values())


def _holds(excerpt: Excerpt, site: Site) -> bool:
    last = excerpt.first + len(excerpt.lines)
    return excerpt.file == site.file and excerpt.first <= site.line < last


def _source(site: Site, excerpt: Excerpt, marks: dict[Site, str]) -> Source:
    of_line = {
        s.line: said for s, said in marks.items() if s.file == excerpt.file
    }
    return Source(
        str(site),
        tuple(
            SourceLine(number, text, of_line.get(number, ""))
            for number, text in enumerate(excerpt.lines, excerpt.first)
        ),
    )


# -- paths --------------------------------------------------------------------


def tree_of(finding: Finding) -> tuple[Node, ...]:
    """From the root to the tensor; the holder is the one that grows."""
    path = finding.path
    if path is None:
        return ()
    depth = finding.holder_depth if finding.holder else len(path.edges)
    way = path.upto(depth)
    above = _nodes(way, _retained_note if way.measured else None)
    nodes = finding.graph.node_bytes if finding.graph else 0
    top = replace(
        above[-1],
        notes=_held_notes(finding),
        grows=True,
        kept=finding.retained_bytes + nodes,
    )
    below = _nodes(Path(path.root, path.edges[depth:]))[1:]
    ways = _with_shares((*above[:-1], top))
    return (*ways, *_with_leaf(below, finding.tensors))


def _with_shares(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """With bars, where more than the holder was measured."""
    kept = [node.kept for node in nodes if node.kept is not None]
    most = max(kept, default=0)
    if len(kept) < 2 or not most:
        return nodes
    return tuple(
        node
        if node.kept is None
        else replace(node, share=100 * node.kept / most)
        for node in nodes
    )


def _held_notes(finding: Finding) -> tuple[str, ...]:
    holder, notes = finding.holder, []
    if holder is not None and holder.length is not None:
        text = plural(holder.length, "item")
        if holder.growth_per_step:
            text += f", {holder.growth_per_step:+.3g} a step"
        notes.append(text)
    if finding.retained_tensors:
        notes.append(
            f"retains {format_bytes(finding.retained_bytes)} in"
            f" {plural(finding.retained_tensors, finding.noun)}"
        )
    if finding.graph is not None and finding.graph.node_bytes:
        nodes = format_bytes(finding.graph.node_bytes)
        notes.append(f"and {nodes} of autograd nodes")
    if holder is not None and holder.alike > 1:
        notes.append(f"and {format_count(holder.alike - 1)} alike")
    return tuple(notes)


def _with_leaf(
    nodes: tuple[Node, ...], examples: Sequence[TensorExample]
) -> tuple[Node, ...]:
    if not nodes or not examples:
        return nodes
    tensor = examples[0]
    shape = "" if tensor.shape is None else f"{list(tensor.shape)} "
    note = f"such as {shape}{tensor.dtype}, {format_bytes(tensor.bytes)}"
    last = nodes[-1]
    return (*nodes[:-1], Node(last.text, last.type, (note,)))


def _nodes(
    path: Path, said: Callable[[Edge], str] | None = None
) -> tuple[Node, ...]:
    """The root, then a node for each edge; runs of equal edges stand once."""
    found = [Node(path.root)]
    run: list[Edge] = []
    for edge in path.edges:
        if run and edge != run[0]:
            found.append(_node(run, said))
            run = []
        run.append(edge)
    if run:
        found.append(_node(run, said))
    if len(found) > MOST_EDGES:
        left_out = len(found) - MOST_EDGES
        half = MOST_EDGES // 2
        found[half:-half] = [Node(f"\u2026 {left_out} more \u2026")]
    return tuple(found)


def _node(run: Sequence[Edge], said: Callable[[Edge], str] | None) -> Node:
    """One for equal edges; the first has what is in the others, too."""
    first, kept = run[0], None
    notes = (said(first),) if said else ()
    if first.retained_bytes is not None:
        kept = first.retained_bytes + (first.retained_node_bytes or 0)
    text = compress_runs([edge.text for edge in run])[0]
    return Node(text, first.type, notes, kept=kept)


def _retained_note(edge: Edge) -> str:
    """Of an object that leads to a holder, which has something."""
    if edge.retained_bytes == edge.retained_node_bytes == 0:
        return "retains nothing: others hold the same"
    return retained_text(edge)


def path_nodes(path: Path) -> tuple[Node, ...]:
    """A path whose holder is not known."""
    return _with_shares(_nodes(path, retained_text if path.measured else None))


# -- the curves as figures ----------------------------------------------------


def _figures(report: Report) -> tuple[tuple[str, ...], ...]:
    """Some ten rows of the history: what a picture says, in words."""
    history = report.history
    count = len(history.steps)
    if count < 3:
        return ()
    live = f"live {report.noun}s"
    rows = [("step", live, "autograd nodes", "process")]
    for at in sorted({round(i * (count - 1) / 9) for i in range(10)}):
        step = history.steps[at]
        nodes = [
            size
            for s, size in zip(
                history.node_steps, history.node_bytes, strict=True
            )
            if s <= step
        ]
        rows.append(
            (
                format_count(step),
                format_bytes(history.live_bytes[at]),
                format_bytes(nodes[-1]) if nodes else "not measured",
                format_bytes(history.resident_bytes[at])
                if history.resident_bytes
                else "not measured",
            )
        )
    return tuple(rows)


def _recorded(report: Report) -> tuple[tuple[str, ...], ...]:
    """Lines of another tool's recording, by age."""
    if not report.lines:
        return ()
    ages = list(dict.fromkeys(a for one in report.lines for a in one.by_age))
    rows = [("line", "alive", "blocks", *ages)]
    for one in report.lines:
        by_age = (format_bytes(one.by_age.get(age, 0)) for age in ages)
        size, blocks = format_bytes(one.bytes), format_count(one.blocks)
        rows.append((str(one.site), size, blocks, *by_age))
    return tuple(rows)
