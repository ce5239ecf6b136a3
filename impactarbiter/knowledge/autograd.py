"""What closes a cycle through the autograd graph, and what leads into one."""

from __future__ import annotations

from collections.abc import Callable

from ..base.records import dataclass
from ..model.path import Edge, Path


@dataclass(frozen=True)
class Cause:
    """A kind of cycle: how it is known, and what it takes to open it."""

    name: str
    is_of: Callable[[Path], bool]
    remedy: str


def _has(*kinds: str) -> Callable[[Path], bool]:
    return lambda cycle: any(edge.kind in kinds for edge in cycle.edges)


def _is_checkpoint(cycle: Path) -> bool:
    types = {edge.type for edge in cycle.edges}
    return "CheckpointFunctionBackward" in types and _has("ctx")(cycle)


def _is_gradient(edge: Edge) -> bool:
    """A gradient, also one that no Python object stands for yet."""
    return edge.kind == "grad" or edge.name.startswith("grad.")


def _is_of_gradient(cycle: Path) -> bool:
    """Over a gradient, and over what a tensor's ``.grad...`` names."""
    return any(map(_is_gradient, cycle.edges)) and any(
        edge.kind in ("grad", "grad_fn") and edge.name.startswith("grad")
        for edge in cycle.edges
    )


def _is_of_view(cycle: Path) -> bool:
    """Over the base of a view that a node has saved."""
    return _has("base")(cycle) or any(
        edge.text.endswith("._base") for edge in cycle.edges
    )


def _is_of_class(cycle: Path) -> bool:
    """Over the bases of a class, of which it is the first itself."""
    return any(
        edge.kind == "attribute" and edge.name == "__mro__"
        for edge in cycle.edges
    )


#: The first that fits is the one; those above are special cases of below.
CAUSES = (
    Cause(
        "checkpoint",
        _is_checkpoint,
        "the context of a re-entrant checkpoint leads to its own output:"
        " use use_reentrant=False, or keep a detached copy",
    ),
    Cause(
        "gradient",
        _is_of_gradient,
        "a gradient and its own graph hold each other, as after"
        " backward(create_graph=True): use torch.autograd.grad(), or set"
        " .grad to None",
    ),
    Cause(
        "hook",
        _has("hook"),
        "a hook closes over the tensor or graph that it is on: use its"
        " argument, or a weak reference",
    ),
    Cause(
        "context",
        _has("ctx"),
        "a custom Function keeps its own output on ctx: give it to"
        " ctx.save_for_backward() in forward()",
    ),
    Cause(
        "view",
        _is_of_view,
        "a node saved a view of a tensor that was then written to in place,"
        " and what was written leads back to the node: put it together with"
        " torch.cat() or torch.stack(), or `.clone()` the view first",
    ),
    Cause(
        "saved",
        _has("saved", "packed"),
        "a node keeps the tensor that it made: a saved-tensor hook must"
        " not return that tensor itself",
    ),
    Cause(
        "class",
        _is_of_class,
        "each step makes a class, which leads to itself by its `__mro__`:"
        " make it once, before the loop; until then only the collector"
        " frees it",
    ),
)


def cause_of(cycle: Path) -> str:
    """What closes a cycle, and what to do; "" unknown."""
    return next((c.remedy for c in CAUSES if c.is_of(cycle)), "")
