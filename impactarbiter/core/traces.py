"""What others recorded: read as plain data, and asked by the criterion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core

if TYPE_CHECKING:
    import mmap

    import numpy as np

#: Positions that count for nothing, and occupied buckets that a stretch
#: needs: as ``watch()`` has them.
WARMUP = 3
#: Positions that a trace must have before silence proves anything.
NEEDED = WARMUP + _core.AGE_FOR_REPORT


class Kept(NamedTuple):
    """What one line of a trace keeps.

    ``kinds`` is 0 where it does not grow, ``since`` the position from which
    it does, ``life`` the longest lifetime that ended, in positions;
    ``survivors`` were born since.
    """

    kinds: int
    since: int
    life: int
    survivors: int
    live_count: int
    live_bytes: int

    @property
    def by_bytes(self) -> bool:
        """As many blocks as before, of ever more bytes."""
        return bool(self.kinds & _core.GROWS_BYTES)


def read_plain(data: bytes | mmap.mmap) -> Any:
    """What a pickle of plain data holds; nothing is imported or called.

    ValueError says what else it wants, and at which byte.
    """
    return _core.plain_pickle(data)


def ask(
    events: np.ndarray[Any, Any],
    sites: int,
    end: int,
    *,
    warmup: int = WARMUP,
    age: int = _core.AGE_FOR_REPORT,
) -> list[Kept]:
    """Each site's answer at position ``end``.

    ``events`` are int64 rows (site, position, position at birth or -1,
    bytes), a death's bytes negative, in the order in which they were.
    """
    answers = _core.replay(events, sites, end, age, warmup, _core.USUAL_WINDOW)
    return [Kept(*answer) for answer in answers]
