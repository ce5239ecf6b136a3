"""A flight recorder's bundle, as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .door import text_of
from .finding import Site
from .report import Report


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle as it was read.

    ``header`` is recorder.json but for its sites, ``events`` and ``sites``
    are rows of ``EVENTS`` and ``SITE_ROWS``, ``sources`` maps a site to
    (file, line, function).  ``report`` and ``holders`` are of the second
    stage: None and empty where there was no memory left for it.
    """

    path: str
    header: Mapping[str, Any]
    events: np.ndarray[Any, Any]
    sites: np.ndarray[Any, Any]
    sources: Mapping[int, tuple[str, int, str]]
    report: Report | None = None
    holders: tuple[Mapping[str, Any], ...] = field(default=())

    def __str__(self) -> str:
        return text_of("bundle text", self)

    def by_site(self) -> list[tuple[str, int, int]]:
        """(site, storages, bytes), the most bytes first."""
        order = np.argsort(-self.sites["live_bytes"].astype("i8"))
        return [
            (
                self._place(int(row["site"])),
                int(row["live_count"]),
                int(row["live_bytes"]),
            )
            for row in self.sites[order]
        ]

    def _place(self, site: int) -> str:
        file, line, function = self.sources.get(site, ("", 0, ""))
        return str(Site(file, line, function))
