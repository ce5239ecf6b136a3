"""What ``explain()`` answers."""

from __future__ import annotations

import os

from ..base.records import dataclass
from ..base.shell import pretty
from .door import renderer, text_of
from .finding import GraphCost, Reader, Variable
from .path import Path
from .words import RetentionVerdict


@dataclass(frozen=True)
class Elsewhere:
    """What an object has that others hold as well: so many bytes, in so many
    tensors, and the path by which they hold the largest."""

    path: Path
    bytes: int
    tensors: int


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
    ``needed_by``: operations of live graphs that will read its memory in
    their backward, ``readers`` of them (the first of many are listed); None:
    it has no tensor memory, or graphs were left out.
    ``elsewhere``: where nothing would be freed with it, who else holds what it
    has.
    ``held_in``: of what only C or C++ code holds, the variables of libraries,
    or the one wrapped object, that a search of the process's memory found to
    lead there.
    ``referrers``: distinct references that were met.  ``noun``: what is
    counted, "tensor", or "array" for an array of NumPy's.
    """

    target: str
    paths: tuple[Path, ...]
    retained_bytes: int
    retained_tensors: int
    verdict: RetentionVerdict
    cycle: Path | None = None
    graph: GraphCost | None = None
    referrers: int = 0
    refcount: int = 0
    collectable: bool = True
    note: str | None = None
    noun: str = "tensor"
    needed_by: tuple[Reader, ...] | None = None
    readers: int = 0
    held_in: tuple[Variable, ...] = ()
    elsewhere: Elsewhere | None = None

    def __str__(self) -> str:
        return text_of("retention text", self)

    def _repr_html_(self) -> str:
        return text_of("retention fragment", self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page (needs jinja2)."""
        renderer("retention html")([self], path)

    _repr_pretty_ = pretty


class Retentions(tuple[Retention, ...]):
    """Several of them, which print one after the other."""

    def __str__(self) -> str:
        return "\n\n".join(str(one) for one in self)

    def _repr_html_(self) -> str:
        return text_of("retentions fragment", self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page (needs jinja2)."""
        renderer("retention html")(self, path)

    _repr_pretty_ = pretty


@dataclass(frozen=True)
class InstanceGroup:
    """Instances of a class that hang on paths that differ by index only."""

    pattern: str
    count: int
    example: Path


@dataclass(frozen=True)
class Instances:
    """The live instances of a class, by where they hang."""

    type: str
    count: int
    groups: tuple[InstanceGroup, ...]

    def __str__(self) -> str:
        return text_of("instances text", self)

    def _repr_html_(self) -> str:
        return text_of("instances fragment", self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page (needs jinja2)."""
        renderer("instances html")(self, path)

    _repr_pretty_ = pretty
