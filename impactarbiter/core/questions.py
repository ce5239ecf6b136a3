"""The questions that take a walk over the heap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from ..base.records import dataclass
from ..model.finding import NativeCall, Variable
from ..model.path import Path
from . import frameworks, wire
from .code import prepare

#: Paths to one object that can be asked for.
MOST_PATHS = _core.MOST_PATHS


def explain(
    objects: tuple[object, ...], paths: int, ways: bool = True
) -> list[wire.Answer]:
    """Who holds each object, at most so many paths each.

    With ``ways`` it is measured what the objects on the paths retain.  The
    tuple, its caller's variables and the calls that handed the objects
    down are no holders: they are how the question was asked.
    """
    prepare()
    frameworks.know()
    try:
        found = _core.explain(objects, paths, ways)
    finally:
        frameworks.forget()
    return [wire.answer_of(raw) for raw in found]


#: What a search gives: a library or an object, a symbol of the library's, ...
_Raw = list[tuple[object, str | None, int, int]]


#: Why a search tells nothing, to be said of it.
NO_MEMORY = "memory was short"
NOT_READ = "not all of the process's memory was read"


def variables_of(obj: object) -> tuple[Variable, ...] | str:
    """What in C++ leads to a tensor's memory; a text: not known, for that
    reason."""
    return _found(_core.native_of_object, obj)


def variables_of_site(site: int) -> tuple[Variable, ...] | str:
    """What in C++ leads to what is alive of one line; a search of the
    process's memory, some tenths of a second.  A text as above."""
    return _found(_core.native_of_site, site)


def calls_of_site(site: int) -> tuple[NativeCall, ...]:
    """The native calls in which what is alive of one line was made, the
    innermost first; empty where none was seen."""
    return tuple(
        NativeCall(library, symbol or "")
        for library, symbol in _core.native_calls_of_site(site)
    )


def _found(
    search: Callable[[Any], _Raw], what: object
) -> tuple[Variable, ...] | str:
    """Empties the search's list, which would be one more that has what it
    found."""
    found: list[Variable] = []
    try:
        raw = search(what)
        while raw:
            owner, symbol, *_ = raw.pop(0)
            if symbol is None:
                found += _wrapped(owner)
            else:
                found.append(Variable(str(owner), symbol))
    except MemoryError:
        return NO_MEMORY
    except OSError:
        return NOT_READ
    return tuple(found)


def _wrapped(owner: object) -> list[Variable]:
    """The C++ object that this Python object wraps, by a path to it."""
    (answer,) = explain((owner,), 1, ways=False)
    return [Variable("", answer.target.type, path) for path in answer.paths]


def instances(cls: type, most: int) -> tuple[int, list[Path]]:
    """(how many live instances, paths to some of them)."""
    prepare()
    count, paths = _core.instances(cls, most)
    return count, [wire.path_of(path) for path in paths]


@dataclass(frozen=True)
class Held:
    """Storages of one site that one holder has: how many, their bytes."""

    site: int
    path: Path
    type: str
    storages: int
    bytes: int


def holders_of(sites: Sequence[int]) -> list[Held]:
    """Who holds the storages of these sites, whenever they were born."""
    return [
        Held(
            site=holder["site"],
            path=wire.path_of(holder["path"]),
            type=holder["object"]["type"],
            storages=sum(group["count"] for group in holder["groups"]),
            bytes=sum(group["bytes"] for group in holder["groups"]),
        )
        for holder in _core.diagnose(sites, sites)["holders"]
    ]
