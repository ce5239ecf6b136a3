"""``explain()``: who holds an object, and what would be freed with it."""

from __future__ import annotations

from typing import Any, overload

from ..base.errors import UsageError
from ..core import questions
from ..core.sources import readers_of
from ..core.wire import Answer
from ..knowledge.autograd import cause_of
from ..knowledge.ipython import shell_advice
from ..model.devices import noun_of
from ..model.finding import Variable
from ..model.path import Path, pattern_of
from ..model.retention import InstanceGroup, Instances, Retention, Retentions

#: Instances of a class that are shown.
MOST_INSTANCES = 200
_BUSY = (
    "another thread was busy in torch: what autograd graphs hold is left out"
)
_NONE_NAMED = " for the search for the variable that holds it: none is named"
#: A class's name, whatever its metaclass says.
_NAME_OF = type.__dict__["__name__"].__get__


@overload
def explain(  # type: ignore[overload-overlap]  # a class is an object, too
    obj: type, /, *, paths: int = 1
) -> Instances: ...
@overload
def explain(obj: object, /, *, paths: int = 1) -> Retention: ...
@overload
def explain(
    first: object, second: object, /, *more: object, paths: int = 1
) -> Retentions: ...
def explain(
    *objects: object, paths: int = 1
) -> Retention | Retentions | Instances:
    """Says who holds an object; works without ``watch()``.

    One object gives a ``Retention``, several a tuple of them, a class its
    live ``Instances``.  ``paths`` is the most paths to give for each.
    Creates no wrapper, collects nothing, runs no code of the objects'.
    """
    if not objects:
        raise UsageError("explain() needs an object: explain(tensor)")
    if type(paths) is not int or not 1 <= paths <= questions.MOST_PATHS:
        raise UsageError(
            f"paths is {paths!r}: expected a whole number from 1 to"
            f" {questions.MOST_PATHS}"
        )
    if len(objects) == 1 and issubclass(type(objects[0]), type):
        return _instances(objects[0])
    answers = questions.explain(objects, paths)
    made = Retentions(
        _retention(answer, _held_in(answer, obj))
        for answer, obj in zip(answers, objects, strict=True)
    )
    return made[0] if len(made) == 1 else made


def retained_bytes(obj: object) -> int:
    """Bytes that would be freed with ``obj``.

    Tensor memory, counted by storage, NumPy's arrays too, and the autograd
    graph behind a tensor: what its nodes saved, and the nodes themselves.
    """
    answer = questions.explain((obj,), 1, ways=False)[0]
    nodes = answer.graph.node_bytes if answer.graph is not None else 0
    return answer.retained_bytes + nodes


def _held_in(answer: Answer, obj: object) -> tuple[Variable, ...] | str:
    """Asked of what no Python object leads to; a text: why not known."""
    return questions.variables_of(obj) if answer.verdict == "native" else ()


def _retention(
    answer: Answer, held_in: tuple[Variable, ...] | str
) -> Retention:
    note = _note(answer)
    if note is None and answer.paths:
        note = shell_advice(answer.paths[0])
    if not answer.still:
        note = f"{note}. {_BUSY}" if note else _BUSY
    if isinstance(held_in, str):
        problem, held_in = held_in + _NONE_NAMED, ()
        note = f"{note}. {problem}" if note else problem
    return Retention(
        target=str(answer.target),
        paths=answer.paths,
        retained_bytes=answer.retained_bytes,
        retained_tensors=answer.retained_tensors,
        verdict=answer.verdict,
        cycle=answer.cycle,
        graph=answer.graph,
        referrers=answer.referrers,
        refcount=answer.refcount,
        collectable=not answer.forever,
        note=note,
        needed_by=readers_of(answer.reads),
        readers=answer.readers,
        held_in=held_in,
        elsewhere=answer.elsewhere,
        noun=noun_of((answer.target.device,)),
    )


def _note(answer: Answer) -> str | None:
    if answer.verdict == "native":
        return (
            "C or C++ code holds it and no graph of a tensor that Python"
            " knows does: an extension, a script, a running backward"
        )
    if answer.verdict != "cycle" or answer.cycle is None:
        return None
    fate = (
        "the collector never frees it, as C++ is part of the cycle"
        if answer.forever
        else "the collector frees it when it runs"
    )
    cause = cause_of(answer.cycle)
    return f"{cause}; {fate}" if cause else fate


def _instances(cls: Any) -> Instances:
    count, found = questions.instances(cls, MOST_INSTANCES)
    groups: dict[str, list[Path]] = {}
    for path in found:
        groups.setdefault(pattern_of(path), []).append(path)
    return Instances(
        type=_NAME_OF(cls),
        count=count,
        groups=tuple(
            InstanceGroup(pattern, len(paths), paths[0])
            for pattern, paths in sorted(
                groups.items(), key=lambda item: -len(item[1])
            )
        ),
    )
