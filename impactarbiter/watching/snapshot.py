"""Snapshots of the ledger: live storages as one structured array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.errors import UsageError
from ..core import ledger

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Live storages at one moment.

    ``array`` is a NumPy structured array with a row per storage: ``address``
    (u8), ``bytes`` (u8), ``site``, ``stack``, ``generation`` (u4), ``device``
    (u2, type << 8 | index), ``allowed`` (u2, 0 or the label of the
    ``allow()`` block).  ``step`` is the generation that was open.
    """

    array: np.ndarray[Any, Any]
    step: int

    def __len__(self) -> int:
        return len(self.array)

    @property
    def live_bytes(self) -> int:
        """Bytes of all rows."""
        return int(self.array["bytes"].sum())

    def __sub__(self, older: Snapshot) -> Snapshot:
        """What is in this one and not in the older: the new storages.

        An address alone may have been used again since: a row is old only
        where its generation and stack are the same too.
        """
        if not isinstance(older, Snapshot):
            return NotImplemented
        import numpy as np

        keys = ["address", "generation", "stack"]
        before = set(older.array[keys].tolist())
        new = np.fromiter(
            (row not in before for row in self.array[keys].tolist()),
            dtype=bool,
            count=len(self.array),
        )
        return Snapshot(self.array[new], self.step)

    def by_site(self) -> list[tuple[str, int, int]]:
        """(site, storages, bytes), the most bytes first."""
        import numpy as np

        from ..core.sources import site_of

        sites, where = np.unique(self.array["site"], return_inverse=True)
        counts = np.bincount(where, minlength=len(sites))
        sizes = np.bincount(
            where, weights=self.array["bytes"], minlength=len(sites)
        )
        rows = [
            (str(site_of(int(site))), int(count), int(size))
            for site, count, size in zip(sites, counts, sizes, strict=True)
        ]
        return sorted(rows, key=lambda row: -row[2])

    def __str__(self) -> str:
        from ..base.units import format_bytes, plural

        lines = [
            f"{plural(len(self), 'live storage')},"
            f" {format_bytes(self.live_bytes)}, at step {self.step}"
        ]
        lines += [
            f"  {format_bytes(size):>10} {count:>7} \u00d7 {site}"
            for site, count, size in self.by_site()[:20]
        ]
        return "\n".join(lines)


def snapshot() -> Snapshot:
    """The storages that are alive now; needs an active ``watch()``.

    Only storages born while watching are known.  Raises UsageError when
    nothing watches.
    """
    if not ledger.is_active():
        raise UsageError(
            "snapshot() knows storages born while watching: call"
            " impactarbiter.watch() first"
        )
    ledger.refresh()
    return Snapshot(ledger.rows(), ledger.totals().generation)
