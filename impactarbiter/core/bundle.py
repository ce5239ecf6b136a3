"""What a flight recorder's bundle is made of, as C writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .. import _core

SCHEMA = _core.BUNDLE_SCHEMA
_NAME = re.compile(r"oom-(\d+)-(\d+)-(\d+)")
#: Rows of events.npy.
EVENTS = np.dtype(_core.EVENT_COLUMNS)
#: ``kind`` of an event; "mark" is the moment of a bundle.
KINDS = _core.EVENT_KINDS
#: Rows of sites.npy.
SITE_ROWS = np.dtype(_core.SITE_COLUMNS)
#: How many bundles can be told apart to remove the oldest.
MOST_KEPT = _core.MOST_BUNDLES


class Name(NamedTuple):
    """A bundle's folder; by numbers, as ``-10`` comes after ``-9``."""

    #: Milliseconds since 1970.
    ms: int
    pid: int
    #: The how many-eth of its process.
    number: int
    text: str


def in_order(entries: Iterable[str]) -> list[Name]:
    """The bundles among a folder's entries, oldest first."""
    found = filter(None, map(_NAME.fullmatch, entries))
    return sorted(
        Name(int(one[1]), int(one[2]), int(one[3]), one[0]) for one in found
    )
