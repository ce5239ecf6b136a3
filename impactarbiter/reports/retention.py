"""``explain()``'s answer as a tree of text."""

from __future__ import annotations

from ..base.text import clean
from ..base.units import format_bytes, format_count, plural
from ..model.finding import GraphCost, in_words
from ..model.path import Edge, Path, compress_runs
from ..model.retention import Elsewhere, Instances, Retention
from .wording import needed_text, retained_text

_MEANING = {
    "held": "",
    "cycle": "only a garbage cycle holds it, besides the caller",
    "native": "no Python path to it was found: C or C++ code holds it",
    "free": "nothing but the caller holds it",
}
#: Edges of a path that get a line of their own.
_MOST_LINES = 24


def retention_text(r: Retention) -> str:
    """First line what it is and costs, then one tree per path."""
    lines = [clean(f"{r.target}: {headline_of(r)}")]
    for number, path in enumerate(r.paths, 1):
        label = "kept by" if len(r.paths) == 1 else f"path {number}"
        lines.append(clean(f"  {label}  {path}{whose(path)}"))
        lines.extend("    " + text for text in _tree(path))
    lines.extend(clean(f"  {label}  {text}") for label, text in notes_of(r))
    return "\n".join(lines)


def whose(path: Path) -> str:
    return "  (held by a library)" if path.library else ""


def headline_of(r: Retention) -> str:
    """What holds it in general, and what it costs."""
    held = (
        f"{format_bytes(r.retained_bytes)} in"
        f" {plural(r.retained_tensors, r.noun)}"
    )
    if r.graph is not None and r.graph.node_bytes:
        held += f" and {format_bytes(r.graph.node_bytes)} of autograd nodes"
    freed = f"{held} would be freed with it"
    meaning = _MEANING[r.verdict]
    return f"{r.verdict}; {meaning}; {freed}" if meaning else freed


def notes_of(r: Retention) -> list[tuple[str, str]]:
    """What is known beside its paths, by a label."""
    notes = []
    if r.cycle is not None:
        notes.append(("cycle", f"{r.cycle} -> itself"))
    if r.graph is not None:
        notes.append(("graph", _graph(r.graph)))
    if r.elsewhere is not None:
        notes.append(("held also", _elsewhere(r.elsewhere, r.noun)))
    if r.held_in:
        notes.append(("held in", in_words(r.held_in)))
    if r.needed_by:
        notes.append(("needed by", needed_text(r)))
    if r.note:
        notes.append(("note", r.note))
    if r.verdict == "native":
        said = f"{r.refcount}, none from Python objects"
        notes.append(("references", said))
    return notes


def _elsewhere(held: Elsewhere, noun: str) -> str:
    """``optimizer.param_groups[0]['params'][0]``, and how much of it."""
    size = f"{format_bytes(held.bytes)} of what it has"
    more = f" and {plural(held.tensors - 1, noun)} more"
    return f"{held.path}{more if held.tensors > 1 else ''}: {size}"


def _graph(graph: GraphCost) -> str:
    nodes = ", ".join(
        f"{name} \u00d7{format_count(count)}"
        for name, count, _ in graph.biggest
    )
    return (
        f"{plural(graph.nodes, 'node')} of autograd with"
        f" {plural(graph.saved_tensors, 'saved tensor')}"
        f" ({format_bytes(graph.bytes)}); most: {nodes}"
    )


def _steps(path: Path) -> list[str]:
    """A text for each edge; runs of equal edges stand once."""
    steps: list[str] = []
    run: list[Edge] = []
    for edge in path.edges:
        if run and (edge.text, edge.type) != (run[0].text, run[0].type):
            steps.append(_step(run, path.measured))
            run = []
        run.append(edge)
    if run:
        steps.append(_step(run, path.measured))
    return steps


def _step(run: list[Edge], measured: bool) -> str:
    text = compress_runs([edge.text for edge in run])[0]
    said = f"{text}  ({run[-1].type})"
    return f"{said}  {retained_text(run[0])}" if measured else said


def _tree(path: Path) -> list[str]:
    steps = _steps(path)
    shown = steps[:_MOST_LINES]
    lines = [clean(path.root)]
    for depth, text in enumerate(shown):
        lines.append(clean(f"{'  ' * depth}\u2514 {text}"))
    if len(steps) > len(shown):
        lines.append(f"... {len(steps) - len(shown)} more")
    return lines


def instances_text(found: Instances) -> str:
    """How many instances there are, and where they hang."""
    lines = [f"{plural(found.count, 'live instance')} of {found.type}"]
    for group in found.groups:
        lines.append(f"  {format_count(group.count)} at {group.pattern}")
        if group.count > 1:
            lines.append(f"      such as {group.example}")
    shown = sum(group.count for group in found.groups)
    if shown < found.count:
        lines.append(f"  {format_count(found.count - shown)} more not shown")
    return "\n".join(clean(text) for text in lines)
