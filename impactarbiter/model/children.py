"""What the processes that a watched program started have found."""

from __future__ import annotations

from ..base.records import dataclass
from .finding import Finding
from .words import Severity


@dataclass(frozen=True, kw_only=True)
class ChildFinding:
    """What ``processes`` children of one ``role`` found alike.

    ``on`` names them; ``bytes_per_step`` is a usual one's, and a DataLoader
    worker's step is a batch.  ``worst`` is the finding of the one that it is
    the most urgent for; ``retained_bytes`` are of all.
    """

    role: str
    on: str
    processes: int
    bytes_per_step: float
    retained_bytes: int
    worst: Finding


@dataclass(frozen=True, kw_only=True)
class Children:
    """``answer`` is one sentence for all of them, ``severity`` that of the
    most urgent growth without a bound (None: there is none)."""

    answer: str
    processes: int
    severity: Severity | None = None
    findings: tuple[ChildFinding, ...] = ()
