"""What a flight recorder's bundle is made of, as C writes it."""

from __future__ import annotations

import re

import numpy as np

from .. import _core

SCHEMA = _core.BUNDLE_SCHEMA
#: A bundle's folder: time, process, number.
NAME = re.compile(r"oom-\d+-(\d+)-\d+")
#: Rows of events.npy.
EVENTS = np.dtype(_core.EVENT_COLUMNS)
#: ``kind`` of an event; "mark" is the moment of a bundle.
KINDS = _core.EVENT_KINDS
#: Rows of sites.npy.
SITE_ROWS = np.dtype(_core.SITE_COLUMNS)
#: How many bundles can be told apart to remove the oldest.
MOST_KEPT = _core.MOST_BUNDLES
