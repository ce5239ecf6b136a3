"""A run's points, made up."""

from __future__ import annotations

from typing import Any

import numpy as np

from impactarbiter import _core
from impactarbiter.core.wire import Column


def points(steps: int, **columns: Any) -> Column:
    """So many steps, each a point; the columns are sequences, a value each."""
    made = np.zeros(steps, _core.history()[0].dtype)
    for kind in ("tick", "optimizer", "backward", "module", "manual"):
        made[kind] = range(steps)
    for name, values in columns.items():
        made[name] = values
    return made
