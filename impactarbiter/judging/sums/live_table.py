"""The live table of a report: the ledger's rows, summed by stack."""

from __future__ import annotations

from ...base.files import own_prefix
from ...core import ledger
from ...core.devices import name_of
from ...core.sources import stack_of
from ...model.finding import Site
from ...model.live import LiveStack, LiveTable

#: Stacks that a report keeps; the page that shows them has no room for more.
MOST_STACKS = 64
#: Bits of a row's device.
_DEVICE_BITS = 16


def live_table(step: int, most: int = MOST_STACKS) -> LiveTable:
    """What is alive now.  Stacks are read at once: the ledger forgets those
    of which nothing is alive."""
    import numpy as np

    rows = ledger.rows()
    keys = rows["stack"] << np.uint64(_DEVICE_BITS) | rows["device"]
    found, which = np.unique(keys, return_inverse=True)
    sizes = np.zeros(len(found), np.int64)
    np.add.at(sizes, which, rows["bytes"].astype(np.int64))
    counts = np.bincount(which, minlength=len(found))
    numbers: dict[Site, int] = {}
    stacks = []
    for at in np.argsort(-sizes, kind="stable")[:most].tolist():
        sites = _called(int(found[at]) >> _DEVICE_BITS)
        stacks.append(
            LiveStack(
                bytes=int(sizes[at]),
                storages=int(counts[at]),
                device=name_of(int(found[at]) & (1 << _DEVICE_BITS) - 1),
                frames=tuple(
                    numbers.setdefault(site, len(numbers)) for site in sites
                ),
                user=_user(sites),
            )
        )
    return LiveTable(
        step=step,
        live_bytes=int(sizes.sum()),
        storages=len(rows),
        frames=tuple(numbers),
        stacks=tuple(stacks),
    )


def _called(stack: int) -> list[Site]:
    """Positions, innermost first; our launcher's are none of the program's."""
    ours = own_prefix()
    return [s for s in stack_of(stack) if not s.file.startswith(ours)]


def _user(sites: list[Site]) -> int:
    """Which of them is the user's line: the first outside of libraries."""
    is_users = (not ledger.is_library(site.file) for site in sites)
    return next((n for n, users in enumerate(is_users) if users), 0)


def fuller(old: LiveTable, new: LiveTable) -> LiveTable:
    """The one of now, unless the program has let most of it go since: at its
    end little is left to see."""
    return old if old.live_bytes > 2 * new.live_bytes else new
