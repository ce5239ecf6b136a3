"""What all tests share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """What was imported takes no time in the collections that tests make.

    It is walked as ever: only the collector leaves it out.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
