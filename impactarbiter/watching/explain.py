"""``explain()``: who holds an object, and what would be freed with it."""

from __future__ import annotations

from typing import Any

from ..base.errors import UsageError
from ..core.wire import cycle_of, graph_of, path_of
from ..knowledge.autograd import cause_of
from ..knowledge.ipython import shell_advice
from ..model.path import Path
from ..model.retention import Group, Instances, Retention, Retentions

#: Most paths that can be asked for, and instances of a class that are shown.
MOST_PATHS = 256
MOST_INSTANCES = 200
#: A class's name, whatever its metaclass says.
_NAME_OF = type.__dict__["__name__"].__get__


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
    from ..core.code import prepare

    prepare()
    return _core


def _describe(core: Any, answer: dict[str, Any]) -> str:
    tensor = answer.get("tensor")
    if not tensor or tensor["dtype"] is None:
        return str(answer["type"])
    shape = ", ".join(str(n) for n in tensor["shape"] or ())
    return f"{answer['type']} [{shape}] {tensor['dtype']} {tensor['device']}"


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


def _instances(core: Any, cls: Any) -> Instances:
    from ..model.path import pattern_of

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
