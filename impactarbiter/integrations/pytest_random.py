"""Random numbers of a test that is run again go on where its first run left
them: the next test draws what it would have drawn."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def generators_kept() -> Iterator[None]:
    """Those that everybody shares: Python's, NumPy's, torch's."""
    put_back = [*_states()]
    try:
        yield
    finally:
        for each in put_back:
            each()


def _states() -> Iterator[Callable[[], object]]:
    of_python = random.getstate()
    yield lambda: random.setstate(of_python)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        of_numpy = numpy.get_state(legacy=False)
        yield lambda: numpy.set_state(of_numpy)
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return  # or a stand-in for it
    of_torch = torch.get_rng_state()
    yield lambda: torch.set_rng_state(of_torch)
    if torch.cuda.is_initialized():
        of_devices = torch.cuda.get_rng_state_all()
        yield lambda: torch.cuda.set_rng_state_all(of_devices)
