"""``explain()``: who holds an object, and what would be freed with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import UsageError
from ..knowledge.ipython import pretty, shell_advice
from ..model.finding import Edge, GraphCost, Path

#: Most paths that can be asked for, and instances of a class that are shown.
MOST_PATHS = 256
MOST_INSTANCES = 200
#: _core cuts off longer names of roots.
_LONGEST_ROOT = 119
#: Roots that are either the user's own or a library's.
_OF_LIBRARIES = ("module", "module state", "frame")
#: A class's name, whatever its metaclass says.
_NAME_OF = type.__dict__["__name__"].__get__


@dataclass(frozen=True)
class Retention:
    """Who holds one object; holds no reference to it itself.

    ``target`` says what it is.  ``paths``: the best first; further ones
    share no last edge.  ``retained_bytes`` and ``retained_tensors``: tensor
    memory in bytes and storages that would be freed with it.  ``verdict``:
    "held" (a path leads to it), "cycle" (only a garbage cycle, spelled out
    in ``cycle``; there are no paths when it is on the cycle itself), "native"
    (only C or C++ code) or "free" (nothing but the caller).  ``collectable``:
    the collector frees that cycle when it runs; it can't where C++ is part
    of it.  ``note``: what is known besides, in a sentence or two.
    ``referrers``: distinct references that were met.
    """

    target: str
    paths: tuple[Path, ...]
    retained_bytes: int
    retained_tensors: int
    verdict: str
    cycle: Path | None = None
    graph: GraphCost | None = None
    referrers: int = 0
    refcount: int = 0
    collectable: bool = True
    note: str | None = None

    def __str__(self) -> str:
        from ..reports.retention import retention_text

        return retention_text(self)

    def _repr_html_(self) -> str:
        from ..reports.retention import retention_fragment

        return retention_fragment(self)

    _repr_pretty_ = pretty


class Retentions(tuple[Retention, ...]):
    """Several of them, which print one after the other."""

    def __str__(self) -> str:
        return "\n\n".join(str(one) for one in self)

    def _repr_html_(self) -> str:
        return "".join(one._repr_html_() for one in self)

    _repr_pretty_ = pretty


@dataclass(frozen=True)
class Group:
    """Instances of a class that hang on paths that differ by index only."""

    pattern: str
    count: int
    example: Path


@dataclass(frozen=True)
class Instances:
    """The live instances of a class, by where they hang."""

    type: str
    count: int
    groups: tuple[Group, ...]

    def __str__(self) -> str:
        from ..reports.retention import instances_text

        return instances_text(self)

    def _repr_html_(self) -> str:
        from ..reports.retention import instances_fragment

        return instances_fragment(self)

    _repr_pretty_ = pretty


def explain(*objects: object, paths: int = 1) -> Any:
    """Says who holds an object; works without ``watch()``.

    One object gives a ``Retention``, several a tuple of them, a class its
    live ``Instances``.  ``paths`` is the most paths to give for each.
    Creates no wrapper, collects nothing, runs no code of the objects'.
    """
    if not objects:
        raise UsageError("explain() needs an object: explain(tensor)")
    if type(paths) is not int or not 1 <= paths <= MOST_PATHS:
        raise UsageError(
            f"paths is {paths!r}: expected a whole number from 1 to"
            f" {MOST_PATHS}"
        )
    core = _ready()
    if len(objects) == 1 and issubclass(type(objects[0]), type):
        return _instances(core, objects[0])
    answers = core.explain(objects, paths, True)
    made = Retentions(_retention(a, _describe(core, a)) for a in answers)
    return made[0] if len(made) == 1 else made


def retained_bytes(obj: object) -> int:
    """Bytes of tensor memory that would be freed with ``obj``.

    Counted by storage; the autograd graph behind a tensor is included.
    """
    core = _ready()
    answer = core.explain((obj,), 1, True)[0]
    size: int = answer["cost"]["bytes"]
    return size


def _ready() -> Any:
    """_core, knowing torch's objects where torch is loaded."""
    from .. import _core
    from .arbiter import prepare

    prepare()
    return _core


def _describe(core: Any, answer: dict[str, Any]) -> str:
    tensor = answer.get("tensor")
    if not tensor or tensor["dtype"] is None:
        return str(answer["type"])
    shape = ", ".join(str(n) for n in tensor["shape"] or ())
    return f"{answer['type']} [{shape}] {tensor['dtype']} {tensor['device']}"


def path_of(raw: tuple[str, str, bool, list[Any]]) -> Path:
    """A ``Path`` of what ``_core`` says of one."""
    kind, root, user, edges = raw
    python = (
        kind == "module"
        and len(root) < _LONGEST_ROOT
        and all(part.isidentifier() for part in root.split("."))
        and all(edge[3] for edge in edges)
    )
    return Path(
        root,
        tuple(_edge(edge) for edge in edges),
        python,
        library=not user and kind in _OF_LIBRARIES,
    )


def _edge(raw: tuple[str, str, str, bool]) -> Edge:
    kind, text, type_name, _python = raw
    return Edge(
        kind=kind, name=text.strip(".[]'\""), type=type_name, text=text
    )


def _retention(answer: dict[str, Any], target: str) -> Retention:
    cost = answer["cost"]
    cycle = cycle_of(answer["cycle"])
    collectable = not answer["forever"]
    paths = tuple(path_of(raw) for raw in answer["paths"])
    note = _note(answer["verdict"], cycle, collectable)
    if note is None and paths:
        note = shell_advice(paths[0].expression)
    return Retention(
        target=target,
        paths=paths,
        retained_bytes=cost["bytes"],
        retained_tensors=cost["storages"],
        verdict=answer["verdict"],
        cycle=cycle,
        graph=graph_of(cost),
        referrers=answer["referrers"],
        refcount=answer["refcount"],
        collectable=collectable,
        note=note,
    )


def _note(verdict: str, cycle: Path | None, collectable: bool) -> str | None:
    if verdict == "native":
        return (
            "C or C++ code holds it and no graph of a tensor that Python"
            " knows does: an extension, a script, a running backward"
        )
    if verdict != "cycle" or cycle is None:
        return None
    fate = (
        "the collector frees it when it runs"
        if collectable
        else "the collector never frees it, as C++ is part of the cycle"
    )
    cause = cause_of(cycle)
    return f"{cause}; {fate}" if cause else fate


def cause_of(cycle: Path) -> str:
    """What closes a cycle through the autograd graph, and what to do."""
    kinds = {edge.kind for edge in cycle.edges}
    types = {edge.type for edge in cycle.edges}
    if "CheckpointFunctionBackward" in types and "ctx" in kinds:
        return (
            "the context of a re-entrant checkpoint leads to its own output:"
            " use use_reentrant=False, or keep a detached copy"
        )
    if any(edge.text.startswith(".grad") for edge in cycle.edges) and any(
        edge.kind == "grad" or edge.text.startswith(".grad.")
        for edge in cycle.edges
    ):
        return (
            "a gradient and its own graph hold each other, as after"
            " backward(create_graph=True): use torch.autograd.grad(), or set"
            " .grad to None"
        )
    if "hook" in kinds:
        return (
            "a hook closes over the tensor or graph that it is on: use its"
            " argument, or a weak reference"
        )
    if "ctx" in kinds:
        return (
            "a custom Function keeps its own output on ctx: give it to"
            " ctx.save_for_backward() in forward()"
        )
    if kinds & {"saved", "packed"}:
        return (
            "a node keeps the tensor that it made: a saved-tensor hook must"
            " not return that tensor itself"
        )
    return ""


def cycle_of(raw: Sequence[tuple[str, str, str, bool]] | None) -> Path | None:
    """A cycle as a path from one of its objects back to itself."""
    if not raw:
        return None
    return Path(f"<{raw[-1][2]}>", tuple(_edge(edge) for edge in raw))


def graph_of(cost: dict[str, Any]) -> GraphCost | None:
    """What a cut would free of the autograd graph."""
    if not cost["nodes"]:
        return None
    return GraphCost(
        cost["nodes"],
        cost["saved"],
        cost["saved_bytes"],
        tuple(tuple(node) for node in cost["biggest"]),
        cost["node_bytes"],
    )


def _instances(core: Any, cls: Any) -> Instances:
    from ..model.finding import pattern_of

    count, raws = core.instances(cls, MOST_INSTANCES)
    groups: dict[str, list[Path]] = {}
    for raw in raws:
        path = path_of(raw)
        groups.setdefault(pattern_of(path), []).append(path)
    return Instances(
        type=_NAME_OF(cls),
        count=count,
        groups=tuple(
            Group(pattern, len(paths), paths[0])
            for pattern, paths in sorted(
                groups.items(), key=lambda item: -len(item[1])
            )
        ),
    )
