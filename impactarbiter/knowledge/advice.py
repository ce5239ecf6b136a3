"""One sentence of what to change."""

from __future__ import annotations

import math
import re

from ..model.finding import Cycle, Finding
from ..model.words import BOUNDED
from .autograd import cause_of
from .containers import PLAIN
from .ipython import shell_advice


def advise(finding: Finding) -> str:
    """What to do about a finding, from what holds it and what it holds."""
    holder = finding.holder
    graph = finding.graph is not None or _is_through_graph(finding)
    where = f"`{holder.expression}`" if holder else "the holder"
    if finding.cycle is not None:
        return _of_cycle(finding.cycle, where)
    if finding.verdict == "native":
        return (
            "no Python object holds this: look for what C++ code or the"
            " autograd graph was given at the allocating line"
        )
    kept = shell_advice(finding.path) if finding.path else None
    if kept:
        return kept
    if finding.verdict in BOUNDED:
        return ""
    if any(edge.kind == "traceback" for edge in finding.below_holder):
        return (
            f"keep `str(error)` in {where} instead of the exception, or drop"
            " its frames with `error.with_traceback(None)`: its traceback"
            " keeps the variables of every frame that it went through"
        )
    scalar = _is_scalar(finding)
    owner = _owner(finding)
    if owner:
        return (
            f"drop each {owner} from {where} once it has been used, or keep"
            " only what is needed of it: each one keeps its tensors"
        )
    if graph and holder is not None and holder.length is None:
        return (
            f"detach before adding to {where}: it carries the graph of every"
            " step so far; use `.item()` for a number or `.detach()` for a"
            " tensor"
        )
    if graph:
        instead = ".item()" if scalar else ".detach()"
        return (
            f"store `{instead}` in {where} instead of the tensor: each one"
            " keeps the graph that made it"
        )
    if _is_slice(finding):
        return (
            f"store a `.clone()` in {where}: a slice keeps the whole tensor"
            " that it was taken from"
        )
    if scalar:
        return f"store numbers in {where}: take `.item()` of each tensor"
    return (
        f"bound {where} or clear it once its tensors are used; what must be"
        " kept can go to the CPU or be summed up"
    )


def recurrence(finding: Finding) -> str:
    """The same where the graph behind it reaches ever further back."""
    holder = finding.holder
    if holder is None or holder.length is None or finding.cycle is not None:
        return advise(finding)
    return (
        f"the graph behind what `{holder.expression}` holds reaches further"
        " back with every step: detach what one step hands to the next"
        " (`state = state.detach()`)"
    )


def _of_cycle(cycle: Cycle, where: str) -> str:
    cause = cause_of(cycle.path)
    if cause:
        return cause
    fate = (
        "until then only the collector frees it"
        if cycle.collectable
        else "the collector never frees it, as C++ is part of it"
    )
    return (
        f"break the reference cycle through {where} (a weak reference, or"
        f" `del` of one side); {fate}"
    )


def _is_through_graph(finding: Finding) -> bool:
    """Whether the tensor hangs on the graph of what the holder has."""
    return any(edge.kind == "grad_fn" for edge in finding.below_holder)


def _owner(finding: Finding) -> str | None:
    """Type of the objects in the holder, where they are no plain data."""
    if finding.holder is None or finding.holder.length is None:
        return None
    if _is_through_graph(finding):
        return None
    types = [edge.type for edge in finding.below_holder[:-1]]
    return next((t for t in types if t not in PLAIN), None)


#: Bytes of a tensor of one number, with what the allocator adds.
_NUMBER = 64


def _is_scalar(finding: Finding) -> bool:
    """Whether all of it is numbers, not the example alone."""
    if finding.tensors_per_step and finding.graph is None:
        mean = finding.bytes_per_step / finding.tensors_per_step
        if mean > _NUMBER:
            return False
    return any(
        t.shape is not None and all(n == 1 for n in t.shape)
        for t in finding.tensors
    )


def _is_slice(finding: Finding) -> bool:
    """Whether a tensor shows a small part of the memory that it keeps."""
    for t in finding.tensors:
        bits = re.search(r"\d+$", t.dtype)
        if t.shape is not None and bits is not None:
            return 4 * math.prod(t.shape) * int(bits[0]) // 8 <= t.bytes
    return False
