"""What to change: one sentence or two, with the share of the growth that it
stops where that was measured."""

from __future__ import annotations

import math
import os
import re
from itertools import pairwise

from ..base.units import A_PERCENT, format_share, plural
from ..model.devices import is_accelerator
from ..model.finding import Cycle, Finding, Holder
from ..model.words import BOUNDED
from .autograd import cause_of
from .containers import MAPPINGS, MEMO, PLAIN
from .ipython import shell_advice
from .owners import (
    of_a_frame,
    of_a_gradient,
    of_a_library,
    of_an_iterator,
    of_an_optimizer,
    of_hooks,
    of_like_hooks,
)

#: A remedy that stops less of the growth than this is no remedy.
WORTHWHILE = 0.5


def advise(
    finding: Finding, patched: tuple[str, ...] = (), *, carried: bool = False
) -> str:
    """What to do about a finding, from what holds it and what it holds.

    ``patched``: the methods that its patch takes, or would take; ``carried``:
    the graph behind a container's items reaches ever further back.
    """
    where = _where(finding)
    if finding.cycle is not None:
        return _of_cycle(finding.cycle, where)
    if finding.held_in:
        first = finding.held_in[0]
        if first.path is not None:
            return (
                f"empty what C++ keeps behind `{first.path}`"
                f" ({first.symbol}), or let go of it: a search of the"
                " process's memory led there from what the allocating line"
                " made"
            )
        library = os.path.basename(first.library)
        return (
            f"clear `{first.symbol}` in {library}: a search of the process's"
            " memory led there from what the allocating line made"
        )
    if finding.verdict == "native":
        return (
            "look for where it is handed to C or C++ code, be it far from the"
            " allocating line, as what `atexit.register`,"
            " `os.register_at_fork`, an extension or a script is given; or for"
            " an object of C++'s that has it, as a future, a work handle or a"
            " capsule"
        )
    kept = shell_advice(finding.path) if finding.path else None
    if kept:
        return kept
    if finding.verdict in BOUNDED:
        return ""
    if carried and finding.holder and finding.holder.length is not None:
        return _carried_on(where)
    if finding.is_in_frames_of_an_error:
        return (
            f"keep `str(error)` in {where} instead of the exception, or drop"
            " its frames with `error.with_traceback(None)`: its traceback"
            " keeps the variables of every frame that it went through"
        )
    owned = (
        of_hooks(finding, where)
        or of_like_hooks(finding)
        or of_an_optimizer(finding, where)
    )
    if owned:
        return owned
    if finding.holder is not None and finding.holder.leads_back:
        return _of_links(where)
    object_type = _type_of_objects(finding)
    if object_type:
        return (
            of_a_library(finding, where)
            or _of_sliced_attributes(finding, object_type)
            or f"drop each {object_type} from {where} once it has been used,"
            " or keep only what is needed of it: each one keeps its"
            f" {finding.noun}s"
        )
    return _of_values(finding, where, patched)


def _of_links(where: str) -> str:
    """Where what leaves a container is led to by what it has."""
    return (
        f"cut the references to what is taken out of {where} (a parent's"
        " children, a neighbour's link): the items that it has lead there"
    )


def needs_graph(finding: Finding, by: str) -> str:
    """Where a later backward needs the graphs of what is held, as far as the
    source shows: a variable may have other values than those."""
    return (
        f"clear {_where(finding)} once {by} has been done: by the source that"
        " may need the graphs; where it does not, `.detach()` what is kept"
    )


def _carried_on(where: str) -> str:
    """Where each item's graph leads back to the step before."""
    return (
        "detach what is carried from step to step, such as a hidden state:"
        f" each graph in {where} leads back to the step before, so"
        " `.detach()` there alone is no help"
    )


def _where(finding: Finding) -> str:
    holder = finding.holder
    if holder is None:
        return "the holder"
    return f"`{holder.expression}{_script_attribute(finding)}`"


def _script_attribute(finding: Finding) -> str:
    """``.outs`` of ``.outs['b'][7]``, where a script holds it in C++."""
    edge = next(iter(finding.below_holder), None)
    if edge is None or edge.kind != "script":
        return ""
    return edge.text.partition("[")[0]


def _of_values(finding: Finding, where: str, patched: tuple[str, ...]) -> str:
    """Plain tensors, with or without a graph."""
    owned = of_a_gradient(finding, where)
    if owned:
        return owned
    holder, share = finding.holder, graph_share(finding)
    if _has_graph(finding) and (share is None or share >= WORTHWHILE):
        return _of_graph(finding, where, patched)
    part = slice_part(finding)
    if part is not None:
        return _of_slices(finding, where, part, share or 0.0)
    rest = _of_tensors(finding, where)
    if holder is not None and holder.doubles:
        others = plural(holder.doubles, "other")
        rest += f"; so in {others} alike, which had the same at the last look"
    stopped = _of_the_cost(finding, share or 0.0)
    if stopped >= A_PERCENT and holder is not None:
        rest += (
            f"; `.detach()` would stop {format_share(stopped)} of the growth,"
            " the tensors themselves are the rest"
        )
    return rest


def graph_share(finding: Finding) -> float | None:
    """The part of the growth that is the graph's; None: not measured."""
    total = finding.all_bytes_per_step
    if finding.kept is None or total <= 0:
        return None
    if not finding.kept.graphs:
        return 0.0
    if finding.graph is None:
        return None  # others hold the same graphs: they are in no figure
    return max(1.0 - finding.kept.bytes_per_step / total, 0.0)


def _of_the_cost(finding: Finding, share: float) -> float:
    """A share of the memory, as one of all that it costs: without a graph the
    tensors have their own objects still."""
    cost = finding.cost_per_step
    return share * finding.all_bytes_per_step / cost if cost > 0 else share


def _has_graph(finding: Finding) -> bool:
    if finding.kept is not None:
        return finding.kept.graphs
    return finding.graph is not None or _is_through_graph(finding)


def _of_graph(finding: Finding, where: str, patched: tuple[str, ...]) -> str:
    holder, share = finding.holder, graph_share(finding)
    if share is None:
        stops = ""
    else:
        stopped = format_share(_of_the_cost(finding, share))
        stops = f"; that stops {stopped} of it"
    numbers = _is_scalar(finding) and "detach" not in patched
    if not finding.trains:
        return (
            "run the forward under `torch.no_grad()`: the program has no"
            f" backward, and {where} keeps the graph of each step{stops}"
        )
    if holder is not None and holder.type == "Parameter":
        return (
            f"update {where} under `torch.no_grad()`: what is written into a"
            " parameter in place leaves it the graph of every step so far"
            f"{stops}"
        )
    if holder is not None and holder.beside:
        return (
            f"detach before adding to {where} and to {holder.others}: they"
            " carry one graph of every step so far, each alone keeps it"
            f"{stops}"
        )
    if holder is not None and holder.length is None:
        return (
            f"detach before adding to {where}: it carries the graph of every"
            f" step so far; use `.item()` for a number or `.detach()` for a"
            f" tensor{stops}"
        )
    if numbers:
        stops = "" if share is None else "; that stops all of it"
    instead = ".item()" if numbers else ".detach()"
    return (
        f"store `{instead}` in {where} instead of the tensor: each one"
        f" keeps the graph that made it{stops}"
    )


def _of_slices(
    finding: Finding, where: str, part: float, graphs: float
) -> str:
    """Where each is a ``part`` of what it keeps; ``graphs``: the share of the
    growth that is theirs."""
    noun, also = finding.noun, ""
    items = next((edge.type for edge in finding.below_holder), "")
    copy, kind = (
        (".copy()", "view")
        if noun == "array" or items == "ndarray"
        else (".clone()", "slice")
    )
    if graphs >= A_PERCENT:
        copy, also = f".detach(){copy}", ", and the graph that made it"
    share = _of_the_cost(finding, 1.0 - part * (1.0 - graphs))
    return (
        f"store a `{copy}` in {where}: a {kind} keeps the whole {noun}"
        f" that it was taken from{also}; that stops {format_share(share)} of"
        " it"
    )


def _of_sliced_attributes(finding: Finding, owner: str) -> str:
    """Where each object in the holder has a slice."""
    part = slice_part(finding)
    if part is None or _has_graph(finding):
        return ""
    own = [edge for edge in finding.below_holder if edge.kind == "attribute"]
    if not own:
        return ""
    name = "".join(edge.text for edge in own)
    return _of_slices(finding, f"`{name}` of each {owner}", part, 0.0)


def _of_tensors(finding: Finding, where: str) -> str:
    """Where the tensors themselves are the growth."""
    noun = finding.noun
    if _is_scalar(finding):
        number = f".{finding.number_method}()"
        return f"store numbers in {where}: take `{number}` of each {noun}"
    holder = finding.holder
    kind = holder.type if holder else ""
    if _script_attribute(finding):
        return (
            f"the script's own code fills {where}: bound it there, or clear it"
            f" once its {noun}s are used"
        )
    if holder is not None and holder.length is None:
        return _of_one(finding, where)
    owned = "" if kind == MEMO else of_a_library(finding, where)
    owned = owned or of_an_iterator(finding, where)
    if owned:
        return owned
    if holder is not None and _gets_no_longer(finding, holder):
        return (
            f"{where} gets no longer, but what its items lead to grows: keep"
            " no more of what was there before than is still needed"
        )
    first = next(iter(finding.below_holder), None)
    if first is not None and first.kind == "lru_cache":
        said = (
            f"give {where} a `maxsize` that memory has room for, or arguments"
            " that come back: `functools.lru_cache` keeps the result of each"
            " new call"
        )
    elif kind in MAPPINGS and finding.may_end_at is not None:
        return (
            f"see that all that comes to {where} gets to"
            f" {finding.may_end_at.place}: by its source that takes things"
            " out or empties it, and what never gets there stays"
        )
    elif kind in MAPPINGS:
        said = (
            f"use keys that come back in {where}, or delete what has been"
            " used: each new key stays"
        )
    elif kind == "list":
        said = (
            f"bound {where} or clear it once its {noun}s are used:"
            " `collections.deque(maxlen=...)` keeps the last ones"
        )
    else:
        said = f"bound {where} or clear it once its {noun}s are used"
    if noun == "array":
        return (
            f"{said}; what must be kept can be written to disk (`np.memmap`)"
        )
    devices = {t.device for t in finding.tensors}
    if devices and all(map(is_accelerator, devices)):
        return f"{said}; what must be kept can go off the device by `.cpu()`"
    return f"{said}; what must be kept can be summed up"


def _of_one(finding: Finding, where: str) -> str:
    """Of no container: a tensor that is made longer, or an object that leads
    to ever more."""
    below = [edge for edge in finding.below_holder if edge.kind != "base"]
    if not below:
        return of_a_frame(finding) or (
            f"{where} gets ever longer: keep its last part only, or"
            " begin anew once it has been used"
        )
    return (
        "keep no more of what was there before than is still needed:"
        f" {where} leads to ever more, such as by `{below[0].text}`"
    )


def _gets_no_longer(finding: Finding, holder: Holder) -> bool:
    """Whether it was seen to be as long as ever, and keeps more than it has
    items: a named tuple that leads to the one before."""
    return holder.growth_per_step == 0 and finding.retained_tensors > (
        holder.length or 0
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


def _type_of_objects(finding: Finding) -> str | None:
    """Type of the objects in the holder, where they are no plain data."""
    if finding.holder is None or finding.holder.length is None:
        return None
    if _is_through_graph(finding):
        return None
    below = finding.below_holder
    # What has a base is a view, be it of a class of its own.
    types = [
        edge.type for edge, after in pairwise(below) if after.kind != "base"
    ]
    return next((t for t in types if t not in PLAIN), None)


#: Bytes of a tensor of one number, with what the allocator adds.
_NUMBER = 64


def _is_scalar(finding: Finding) -> bool:
    """Whether all of it is numbers, not the example alone."""
    if finding.kept is not None:
        return finding.kept.numbers
    if finding.tensors_per_step and finding.graph is None:
        mean = finding.bytes_per_step / finding.tensors_per_step
        if mean > _NUMBER:
            return False
    return any(
        t.shape is not None and all(n == 1 for n in t.shape)
        for t in finding.tensors
    )


def slice_part(finding: Finding) -> float | None:
    """What part of the memory that it keeps a tensor shows, with the others
    that are slices of the same; None: most."""
    for t in finding.tensors:
        bits = re.search(r"\d+$", t.dtype)
        if t.shape is not None and bits is not None and t.bytes:
            shown = math.prod(t.shape) * int(bits[0]) // 8
            part = shown / t.bytes * _slices_of_one(finding)
            return part if 4 * part <= 1 else None
    return None


def _slices_of_one(finding: Finding) -> float:
    """How many of what it holds show one piece of memory: each row of a
    batch, be it kept by itself, and all of them show it all."""
    kept, size = finding.kept, finding.bytes_per_step
    if kept is not None and size > 0:
        return max(kept.bytes_per_step / size, 1.0)
    holder, count = finding.holder, finding.tensors_per_step
    pace = holder.growth_per_step if holder is not None else None
    return max(pace / count, 1.0) if pace and count else 1.0
