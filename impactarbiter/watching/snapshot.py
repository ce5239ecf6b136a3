"""Snapshots of the ledger: live storages as one structured array."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..base.errors import UsageError
from ..base.records import dataclass
from ..core import ledger
from ..core.sources import site_of

if TYPE_CHECKING:
    import numpy as np

    from ..model.finding import Site


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Live storages at one moment.

    ``array`` is a NumPy structured array with a row per storage: ``address``
    (u8), ``bytes`` (u8), ``site``, ``stack`` (u8), ``generation`` (u4),
    ``device`` (u2, type << 8 | index), ``allowed`` (u2, 0 or the label of the
    ``allow()`` block).  ``step`` is the generation that was open, ``sites``
    says which line each number of a site is.  ``lost`` storages have no row:
    memory was short when they were born.
    """

    array: np.ndarray[Any, Any]
    step: int
    sites: dict[int, Site] = field(default_factory=dict)
    lost: int = 0

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
        lost = max(self.lost - older.lost, 0)
        return Snapshot(self.array[new], self.step, self.sites, lost)

    def by_site(self) -> list[tuple[str, int, int]]:
        """(site, storages, bytes), the most bytes first."""
        import numpy as np

        sites, where = np.unique(self.array["site"], return_inverse=True)
        counts = np.bincount(where, minlength=len(sites))
        sizes = np.bincount(
            where, weights=self.array["bytes"], minlength=len(sites)
        )
        rows = [
            (str(self.sites[int(site)]), int(count), int(size))
            for site, count, size in zip(sites, counts, sizes, strict=True)
        ]
        return sorted(rows, key=lambda row: -row[2])

    def __str__(self) -> str:
        from ..base.units import format_bytes, plural

        lines = [
            f"{plural(len(self), 'live storage')},"
            f" {format_bytes(self.live_bytes)}, at step {self.step}"
        ]
        if self.lost:
            lines.append(
                f"  {plural(self.lost, 'storage')} could not be recorded:"
                " memory was short"
            )
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
    rows = ledger.rows()
    # Now: the ledger drops sites of which nothing is alive.
    sites = {number: site_of(number) for number in set(rows["site"].tolist())}
    now = ledger.totals()
    return Snapshot(rows, now.generation, sites, now.lost)
