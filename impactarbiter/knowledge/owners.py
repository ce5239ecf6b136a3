"""What to do where the holder has an owner that is known: a module with its
hooks, an optimizer, a library, an iterator, a gradient's tensor.

Each of these is asked of any finding, and has an empty answer where the holder
is no such owner's; ``where`` is what the holder is called.
"""

from __future__ import annotations

import re

from ..model.finding import Finding

#: Edges from an object to what is its own.
_OWN = frozenset({"attribute", "local"})


def of_hooks(finding: Finding, where: str) -> str:
    """Where a module or tensor has its hooks."""
    if finding.path is None or finding.holder is None:
        return ""
    edges = finding.path.edges[: finding.holder_depth]
    if not edges or not edges[-1].name.endswith("_hooks"):
        return ""
    return (
        f"ever more hooks are registered in {where}: register one once,"
        " or keep the handle that it returns and call `handle.remove()`"
    )


def of_like_hooks(finding: Finding) -> str:
    """Where several hooks have the same, each in a container of its own."""
    path, holder = finding.path, finding.holder
    if path is None or holder is None or not holder.doubles:
        return ""
    above = path.edges[: finding.holder_depth]
    names = [edge.name.endswith("_hooks") for edge in above]
    if True not in names:
        return ""
    depth = names.index(True) + 1
    own = "".join(edge.text for edge in above[depth + 1 :])
    return (
        f"remove each hook from `{path.expression_upto(depth)}` once it has"
        " served, by `remove()` of the handle that registering it returned:"
        f" {holder.doubles + 1} of them had the same at the last look, each in"
        f" its own `{own}`"
    )


#: An optimizer's own: the parameters in groups, and the state of each.
_GROUPS, _STATE = "param_groups", "state"
#: What may be trained.
_TRAINED = ("Parameter", "Tensor")


def of_an_optimizer(finding: Finding, where: str) -> str:
    """Where an optimizer has groups of parameters and the state of each, and
    parameters are what grows there."""
    if finding.path is None:
        return ""
    edges = finding.path.edges[: finding.holder_depth]
    if not edges or not _has_parameters(finding, edges[-1].name):
        return ""
    owner = where.removesuffix(f".{edges[-1].name}`")
    return (
        f"take what is trained no more out of {owner}.{_GROUPS}` and of"
        f" {owner}.{_STATE}`, or make a new optimizer: the one here keeps"
        " every parameter that it ever had, with its state"
    )


def _has_parameters(finding: Finding, name: str) -> bool:
    """Whether the holder, an attribute of this name, has them as keys, or in
    groups as an optimizer's are."""
    below = finding.below_holder
    if not below or below[0].type not in (*_TRAINED, "dict"):
        return False
    if name == _STATE:
        keys = [f"<key of type {one}>" for one in _TRAINED]
        return below[0].type in _TRAINED or below[0].name in keys
    named = [edge.name for edge in below[1:2]]
    return name == _GROUPS and named == ["params"]


#: Python's own table of the threads that have not ended.
_THREADS = "`threading._active`"


def of_a_library(finding: Finding, where: str) -> str:
    """A library's own table, to which a call of the program's adds."""
    if not _is_librarys(finding):
        return ""
    site, noun = finding.grown_at, finding.noun
    below = finding.below_holder
    leads = "".join(edge.text for edge in below[1:])
    each = f"each {below[0].type}" if below and below[0].is_item else "what is"
    undo = (
        f"undo what {site.place} does"
        if site is not None
        else f"look for the call that adds to {where}, and undo what it does"
    )
    said = (
        "have each thread end once it has served, by `cancel()` of a Timer"
        f" or what else it waits for: {where} lists those that have not ended"
        if where == _THREADS
        else f"{undo}: {where} is the library's own, and what takes things out"
        " of it is the counterpart of that call (such as `remove`,"
        " `unregister`, `cancel` or `detach`)"
    )
    return said + (
        f"; {each} there leads to the {noun} by `{leads}`" if leads else ""
    )


def _is_librarys(finding: Finding) -> bool:
    """Whether a library's module or variable leads to the holder by
    attributes alone, and nothing of the program's by its name adds to it."""
    path = finding.path
    if path is None or not path.library or finding.holder is None:
        return False
    above = path.edges[: finding.holder_depth]
    if not above or any(edge.kind not in _OWN for edge in above):
        return False
    adds = finding.grown_at or finding.maybe_grown_at
    if adds is None:
        return True
    name = rf"\b{re.escape(above[-1].name)}\b"
    return bool(adds.source) and not re.search(name, adds.source)


#: The attribute by which pandas' frames and series have their values.
_BLOCKS = "_mgr"


def of_a_frame(finding: Finding) -> str:
    """Where one of pandas' gets longer, which none of its arrays can: they
    are made anew with it."""
    path = finding.path
    if path is None:
        return ""
    names = [edge.name for edge in path.edges[: finding.holder_depth]]
    if _BLOCKS not in names:
        return ""
    frame = path.upto(names.index(_BLOCKS))
    return (
        f"`{frame.expression}` gets ever longer: keep its last rows only, or"
        " begin anew once it has been used"
    )


def of_an_iterator(finding: Finding, where: str) -> str:
    """The list of what `itertools.cycle` has given."""
    if finding.path is None:
        return ""
    above = finding.path.edges[: finding.holder_depth]
    if not above or above[-1].text != ".<saved>":
        return ""
    return (
        "do without `itertools.cycle`: it saves every item of its first"
        f" pass, in {where}, and lets none go; `while True: yield from"
        " loader` begins the loader anew instead"
    )


def of_a_gradient(finding: Finding, where: str) -> str:
    """Where the graph that hangs on a tensor made no tensor of it: it made
    the gradient; and where a gradient itself gets larger."""
    holder, kept, path = finding.holder, finding.kept, finding.path
    if holder is None:
        return ""
    depth = finding.holder_depth
    leads = path.edges[depth - 1].kind if path is not None and depth else ""
    if leads == "grad" and finding.graph is None:
        return (
            "call zero_grad() of its optimizer or module in each step:"
            f" backward() adds to {where} while that is there, and a sparse"
            " gradient keeps the rows of every step so far"
        )
    if (
        holder.type not in ("Parameter", "Tensor")
        or finding.graph is None
        or kept is None
        or kept.graphs
    ):
        return ""
    return (
        f"set the gradient of {where} to None in each step, as zero_grad() of"
        " an optimizer or a module does: backward(create_graph=True) adds to"
        " it, and so it keeps the graph of every step so far"
    )
