"""What closes a cycle through the autograd graph."""

from __future__ import annotations

from ..model.path import Path


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
