"""A flight recorder's bundle, as it was read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .door import text_of
from .finding import Site
from .report import Report

SCHEMA = "impactarbiter-bundle/1"
#: A bundle's folder: time, process, number.
NAME = re.compile(r"oom-\d+-(\d+)-\d+")
#: Rows of events.npy, as src/core/ledger/ring.h has them.
EVENTS = np.dtype(
    [
        ("nanoseconds", "<u8"),
        ("address", "<u8"),
        ("bytes", "<u8"),
        ("site", "<u4"),
        ("step", "<u4"),
        ("device", "<u2"),
        ("phase", "<u2"),
        ("kind", "<u4"),
    ]
)
#: ``kind`` of an event; "mark" is the moment of a bundle.
KINDS = ("", "birth", "death", "mark")
#: Rows of sites.npy, as src/core/recorder/bundle.h has them.
SITE_ROWS = np.dtype(
    [
        ("live_bytes", "<u8"),
        ("born_bytes", "<u8"),
        ("site", "<u4"),
        ("live_count", "<u4"),
        ("born_count", "<u4"),
        ("generations", "<u4"),
        ("first_step", "<u4"),
        ("last_step", "<u4"),
    ]
)


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
