"""Masks what a report tells of the user's program.

Shapes, source lines, files, functions and names of the user's become
numbers; the same name becomes the same number throughout one report.  What
is PyTorch's or Python's own (list, Tensor, AddmmBackward0, mat1) stays.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable

from ..base.imports import names_in
from ..base.records import replace
from ..knowledge.advice import advise
from ..model.children import Children
from ..model.finding import (
    Cycle,
    Finding,
    GraphCost,
    Holder,
    NativeCall,
    Reader,
    Site,
    Variable,
)
from ..model.growth import LaterGrowth, ProcessGrowth
from ..model.history import History
from ..model.path import Edge, Path, name_in
from ..model.report import Report

#: Edges whose text is a name that torch or Python gave.
_PUBLIC_KINDS = frozenset(
    [
        "grad",
        "grad_fn",
        "next",
        "saved",
        "packed",
        "variable",
        "base",
        "hook",
        "ctx",
        "storage",
        "default",
        "annotation",
        "traceback",
        "cell",
        "elided",
    ]
)
_PUBLIC_TYPES = frozenset(
    [
        "AccumulateGrad",
        "OrderedDict",
        "Parameter",
        "Size",
        "Tensor",
        "UntypedStorage",
        "cell",
        "coroutine",
        "defaultdict",
        "deque",
        "frame",
        "function",
        "generator",
        "method",
        "module",
        "partial",
        "traceback",
    ]
) | frozenset(dir(builtins))
#: A node's name, where an edge leads to one.
_NODE = re.compile("(\N{RIGHTWARDS ARROW})(.+)")
_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"(['\"])(?:\\.|(?!\1).)*\1")
_FRAMING = frozenset({"closure", "locals", "cache", "key", "of", "type"})


class _Masks:
    """Name -> number, in the order of first sight."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def of(self, kind: str, name: str) -> str:
        key = kind, name
        if key not in self._known:
            count = sum(k == kind for k, _ in self._known) + 1
            self._known[key] = f"{kind}{count}"
        return self._known[key]

    def site(self, site: Site | None) -> Site | None:
        if site is None or not site.known:
            return site
        return Site(
            self.of("file", site.file),
            site.line,
            self.of("function", site.function),
        )

    def type(self, name: str) -> str:
        if name in _PUBLIC_TYPES or _is_node_of_torch(name):
            return name
        return self.of("Type", name)

    def text(self, text: str) -> str:
        """Quoted keys and identifiers, but for the path's own framing."""
        text = _QUOTED.sub(lambda m: f"'{self.of('key', m.group())}'", text)
        pieces, at = [], 0
        for quoted in _QUOTED.finditer(text):
            pieces += [self._words(text[at : quoted.start()]), quoted.group()]
            at = quoted.end()
        return "".join([*pieces, self._words(text[at:])])

    def _words(self, text: str) -> str:
        return _WORD.sub(
            lambda m: (
                m.group()
                if m.group() in _FRAMING
                else self.of("name", m.group())
            ),
            text,
        )

    def root(self, root: str) -> str:
        if root == "__main__":
            return root
        if root.startswith("<"):
            return f"<{self.type(root.strip('<>'))}>"
        if root.endswith("()"):
            return self.of("function", root[:-2]) + "()"
        return self.of("module", root)

    def edge(self, edge: Edge) -> Edge:
        if edge.kind in _PUBLIC_KINDS:
            text = _NODE.sub(lambda m: m[1] + self.type(m[2]), edge.text)
        else:
            text = self.text(edge.text)
        return replace(
            edge, name=name_in(text), type=self.type(edge.type), text=text
        )

    def path(self, path: Path | None) -> Path | None:
        if path is None:
            return None
        return Path(
            self.root(path.root),
            tuple(self.edge(e) for e in path.edges),
            library=path.library,
        )


def obfuscated(report: Report) -> Report:
    """The report with everything of the user's masked."""
    masks = _Masks()
    environment = dict(report.environment)
    environment.pop("cwd", None)
    return replace(
        report,
        findings=tuple(_finding(f, masks) for f in report.findings),
        taken_back=tuple(_finding(f, masks) for f in report.taken_back),
        growing_lines=tuple(
            replace(line, site=masks.site(line.site) or line.site)
            for line in report.growing_lines
        ),
        process_growth=_process(report.process_growth, masks),
        later_growth=_later(report.later_growth, masks),
        environment=environment,
        excerpts=(),
        history=_history(report.history, masks),
        live=replace(
            report.live,
            frames=tuple(masks.site(s) or s for s in report.live.frames),
        ),
        warnings=tuple(_warnings(report.warnings)),
        children=_children(report.children, masks),
    )


def _children(children: Children | None, masks: _Masks) -> Children | None:
    """What leaks is named in their answer by its file."""
    if children is None:
        return None
    return replace(
        children,
        answer="children leak" if children.severity else children.answer,
        findings=tuple(
            replace(child, worst=_finding(child.worst, masks))
            for child in children.findings
        ),
    )


def _history(history: History, masks: _Masks) -> History:
    return replace(
        history,
        phases=tuple(
            masks.of("phase", p) if p else "" for p in history.phases
        ),
        lines=tuple(
            replace(line, site=masks.site(line.site) or line.site)
            for line in history.lines
        ),
    )


def _process(
    growth: ProcessGrowth | None, masks: _Masks
) -> ProcessGrowth | None:
    if growth is None:
        return None
    types = tuple(
        replace(t, type=masks.type(t.type), path=masks.path(t.path))
        for t in growth.types
    )
    return replace(growth, types=types)


def _later(growth: LaterGrowth | None, masks: _Masks) -> LaterGrowth | None:
    if growth is None:
        return None
    lines = tuple(
        replace(
            line,
            site=masks.site(line.site) or line.site,
            path=masks.path(line.path),
        )
        for line in growth.lines
    )
    return replace(growth, lines=lines)


def _finding(finding: Finding, masks: _Masks) -> Finding:
    path, holder = masks.path(finding.path), finding.holder
    if holder is not None and finding.path is not None and path is not None:
        holder = _holder(holder, finding.holder_depth, path, masks)
    site = masks.site(finding.allocated_at)
    masked = replace(
        finding,
        allocated_at=site or finding.allocated_at,
        path=path,
        cycle=_cycle(finding.cycle, masks),
        holder=holder,
        graph=_graph(finding.graph, masks),
        needed_by=_readers(finding.needed_by, masks),
        held_in=tuple(
            Variable(
                masks.of("library", v.library) if v.library else "",
                masks.of("variable", v.symbol),
                masks.path(v.path),
            )
            for v in finding.held_in
        ),
        made_in=tuple(
            NativeCall(
                masks.of("library", c.library),
                masks.of("function", c.symbol) if c.symbol else "",
            )
            for c in finding.made_in
        ),
        grown_at=masks.site(finding.grown_at),
        stack=tuple(masks.site(s) or s for s in finding.stack),
        grown_stack=tuple(masks.site(s) or s for s in finding.grown_stack),
        tensors=tuple(replace(t, shape=None) for t in finding.tensors),
        maybe_grown_at=masks.site(finding.maybe_grown_at),
        may_end_at=masks.site(finding.may_end_at),
        asked_at=masks.site(finding.asked_at),
        patch=None,
        patch_note=None,
        phase=masks.of("phase", finding.phase) if finding.phase else None,
    )
    return replace(masked, advice=advise(masked))


def _is_node_of_torch(name: str) -> bool:
    """A custom Function's node is named after the user's class."""
    ours = names_in("torch").get("_C")
    return ours is not None and hasattr(ours._functions, name)


def _graph(graph: GraphCost | None, masks: _Masks) -> GraphCost | None:
    if graph is None:
        return None
    biggest = tuple((masks.type(n), c, b) for n, c, b in graph.biggest)
    return replace(graph, biggest=biggest)


def _readers(
    readers: tuple[Reader, ...] | None, masks: _Masks
) -> tuple[Reader, ...] | None:
    if readers is None:
        return None
    return tuple(
        replace(r, node=masks.type(r.node), called_at=masks.site(r.called_at))
        for r in readers
    )


def _cycle(cycle: Cycle | None, masks: _Masks) -> Cycle | None:
    path = masks.path(cycle.path) if cycle is not None else None
    return replace(cycle, path=path) if cycle and path else None


def _holder(holder: Holder, depth: int, path: Path, masks: _Masks) -> Holder:
    """The holder's expression is the masked path's up to it."""
    return replace(
        holder,
        expression=str(path.upto(depth)),
        type=masks.type(holder.type),
        beside=("another tensor",) * len(holder.beside),
        depth=depth,
    )


#: How a warning begins that goes on to quote the program, and what stays.
_QUOTING = {
    "allow rule ": "an allow rule matched nothing",
    "on_finding raised ": "on_finding raised an exception",
    "watching ended early: ": "watching ended early",
    "no report could be made: ": "no report could be made",
    "no diagnosis could be made: ": "no diagnosis could be made",
}


def _warnings(warnings: Iterable[str]) -> Iterable[str]:
    """Rules and errors quote the program: only that there was one stays."""
    for warning in warnings:
        said = (s for how, s in _QUOTING.items() if warning.startswith(how))
        yield next(said, warning)
