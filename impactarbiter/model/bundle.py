"""A flight recorder's bundle, as it was read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.records import dataclass
from .door import renderer, text_of
from .finding import Site
from .report import Report


@dataclass(frozen=True)
class Header:
    """What happened, and the totals at that moment.

    ``asked_bytes``: so many more were wanted, 0 where that is not known.
    ``all_events``: births and deaths since the recorder was armed.
    ``sites_left_out``: live sites that there was no room for.
    """

    reason: str
    device: str
    asked_bytes: int
    pid: int
    step: int
    live_bytes: int
    peak_bytes: int
    live_count: int
    resident_bytes: int
    all_events: int
    sites_left_out: int


@dataclass(frozen=True)
class HeldBytes:
    """What the storages of one site hang on.

    ``path`` is printed without indices, so that siblings are one; ``type``
    is the holder's.
    """

    site: str
    path: str
    type: str
    bytes: int
    storages: int


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle as it was read.

    ``events`` and ``sites`` are rows as ``core.bundle`` has them, ``sources``
    maps a site to where it is.  ``report`` and ``holders`` are of the second
    stage: None and empty where there was no memory left for it.
    """

    path: str
    header: Header
    events: np.ndarray[Any, Any]
    sites: np.ndarray[Any, Any]
    sources: Mapping[int, Site]
    report: Report | None = None
    holders: tuple[HeldBytes, ...] = ()

    def __str__(self) -> str:
        return text_of("bundle text", self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page (needs jinja2)."""
        renderer("bundle html")(self, path)

    def by_site(self) -> list[tuple[str, int, int]]:
        """(site, storages, bytes), the most bytes first."""
        order = np.argsort(-self.sites["live_bytes"].astype("i8"))
        nowhere = Site("", 0, "")
        return [
            (
                str(self.sources.get(int(row["site"]), nowhere)),
                int(row["live_count"]),
                int(row["live_bytes"]),
            )
            for row in self.sites[order]
        ]
