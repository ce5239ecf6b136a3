"""What the process gained, by kind: the sum closes, or says what is left."""

from __future__ import annotations

from ..base.records import dataclass
from .path import Path
from .site import Site
from .words import StepKind

#: Growth is explained where findings account for this part of it.
EXPLAINED = 0.8


@dataclass(frozen=True)
class TypeGrowth:
    """Python objects of one type, what each alone owns counted with it.

    ``path`` leads to what surely has most of those that came; None where
    nothing is known to.
    """

    type: str
    bytes_per_step: float
    objects_per_step: float
    path: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessGrowth:
    """How a process grew between two walks, in bytes a step.

    ``process`` is resident memory, or, where that has not grown by enough to
    tell, what of it is in use, ``kept`` being None then; the kinds add up to
    it, ``rest`` included, which is negative where more was asked for than was
    touched.
    ``tensors`` lie in the process's own memory, not a device's; ``arrays``
    are NumPy's, ``nodes`` autograd's; ``objects`` Python's by the types
    that grew most in ``types``; ``heap`` is what C code has of malloc
    besides, ``kept`` what malloc keeps though it is free, ``files`` mapped
    files, ``shared`` shared memory, ``watching`` our own ledger.  None: not
    measured, and part of ``rest``.

    ``first_step`` is when the first of the walks was made, at the trend's
    start, and ``last_step`` when the second.
    """

    first_step: int
    last_step: int
    process: float
    tensors: float
    arrays: float
    nodes: float | None
    objects: float | None
    types: tuple[TypeGrowth, ...]
    heap: float | None
    kept: float | None
    files: float
    shared: float
    watching: float
    rest: float


@dataclass(frozen=True)
class LaterLine:
    """A line that keeps what it makes after the last step, and the path to
    what held that when it was looked for, None where nothing was found."""

    site: Site
    path: Path | None


@dataclass(frozen=True, kw_only=True)
class LaterGrowth:
    """What tensor memory gained after the last step, in ``calls`` that came
    in place of steps, too few to be judged by.

    ``lines`` are those that were seen to keep the most.
    """

    after_step: int
    calls: int
    call_kind: StepKind
    bytes_per_call: float
    lines: tuple[LaterLine, ...] = ()
