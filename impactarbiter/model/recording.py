"""What another tool recorded of one device's memory, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.records import dataclass
from .finding import Site
from .words import StepKind

if TYPE_CHECKING:
    import numpy as np


#: The rule of a finding that a recording shows: it says how fast memory goes,
#: and not how much of it the device has.
RECORDED = "recording"


@dataclass(frozen=True)
class Block:
    """A block that was alive at the end.

    ``site`` is an index of ``Recording.sites``, ``born`` the position of its
    birth, -1: before the recording began.
    """

    site: int
    bytes: int
    born: int


@dataclass(frozen=True)
class Recording:
    """Births and deaths on one device, by line.

    ``events`` are int64 rows (site, position, position at birth or -1,
    bytes), a death's bytes negative.  Positions count events of ``kind``:
    "optimizer" or "backward" calls that were seen, else "allocation".
    ``stacks`` are the frames of each site's last birth, innermost first,
    ``seconds`` what passed from the first entry to the last (None: not
    recorded), ``ooms`` how often memory ran out.
    """

    device: int
    kind: StepKind
    end: int
    events: np.ndarray[Any, Any]
    sites: tuple[Site, ...]
    stacks: tuple[tuple[Site, ...], ...]
    blocks: tuple[Block, ...]
    seconds: float | None = None
    ooms: int = 0
    reserved_bytes: int = 0
