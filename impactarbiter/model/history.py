"""What a run was like from step to step: measured curves, and source lines."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import UsageError
from ..base.records import dataclass
from .site import Site


@dataclass(frozen=True)
class LineCurve:
    """Live bytes of the storages that one line made.

    As many as the history has points; None before the line was among those
    that hold most: what it held then is among the others'.
    """

    site: Site
    live_bytes: tuple[int | None, ...]


@dataclass(frozen=True)
class PurposePoint:
    """Live bytes by what they are for, as one walk over the heap saw them."""

    step: int
    bytes: Mapping[str, int]


@dataclass(frozen=True)
class History:
    """Memory at step boundaries, in bytes: what was measured, nothing else.

    All columns but those of nodes and purposes have as many entries as
    ``steps``, or none where nobody measured.  A long run is thinned, so
    steps ascend but need not be consecutive.  ``seconds`` count from the
    start; ``resident_bytes`` is the whole process, ``allocated_bytes`` and
    ``reserved_bytes`` are the allocators' of all devices together;
    ``phases`` are names, "" outside any.  ``lines`` hold the most, what is
    left to ``live_bytes`` is other lines'.  ``node_bytes`` are of autograd
    nodes, no tensor memory, counted at ``node_steps``.  ``purposes`` were
    seen by walks.
    """

    steps: tuple[int, ...] = ()
    live_bytes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    resident_bytes: tuple[int, ...] = ()
    allocated_bytes: tuple[int, ...] = ()
    reserved_bytes: tuple[int, ...] = ()
    phases: tuple[str, ...] = ()
    lines: tuple[LineCurve, ...] = ()
    node_steps: tuple[int, ...] = ()
    node_bytes: tuple[int, ...] = ()
    purposes: tuple[PurposePoint, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.steps)
        self._check("sizes", len(self.live_bytes), count)
        for name in (
            "seconds",
            "resident_bytes",
            "allocated_bytes",
            "reserved_bytes",
            "phases",
        ):
            if getattr(self, name):
                self._check(name, len(getattr(self, name)), count)
        for line in self.lines:
            self._check("sizes of a line", len(line.live_bytes), count)
        self._check(
            "sizes of nodes", len(self.node_bytes), len(self.node_steps)
        )

    def _check(self, what: str, got: int, expected: int) -> None:
        if got != expected:
            raise UsageError(
                f"history has {expected} steps and {got} {what}:"
                " expected as many of each"
            )


@dataclass(frozen=True)
class Ages:
    """Survivors by age: what these lines made in each stretch of the run and
    is still alive.

    ``steps`` are where the stretches begin, ascending; ``alive`` counts
    storages; ``end`` is the step that this was seen at.
    """

    steps: tuple[int, ...]
    alive: tuple[int, ...]
    end: int

    def __post_init__(self) -> None:
        if len(self.steps) != len(self.alive):
            raise UsageError(
                f"ages have {len(self.steps)} steps and {len(self.alive)}"
                " counts: expected as many of each"
            )


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a source file; ``first`` is the number of the first."""

    file: str
    first: int
    lines: tuple[str, ...]
