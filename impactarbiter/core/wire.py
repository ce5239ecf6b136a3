"""What the C modules answer, as plain data: decoded here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.finding import GraphCost
from ..model.path import Edge, Path

#: _core cuts off longer names of roots.
_LONGEST_ROOT = 119
#: Roots that are either the user's own or a library's.
_OF_LIBRARIES = ("module", "module state", "frame")


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
