"""What was there before the watch: its bytes, and its part of a holder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter import Report
from impactarbiter.reports.wording import facts
from impactarbiter.watching.arbiter import current

history: list[torch.Tensor] = []
rows: list[np.ndarray] = []


@pytest.fixture(autouse=True)
def empty(no_watch_left: None) -> Iterator[None]:
    yield
    history.clear()
    rows.clear()


def turns(count: int) -> None:
    arbiter = current()
    assert arbiter is not None
    for _ in range(count):
        history.append(torch.ones(256))
        arbiter.step()


def older_now() -> dict[str, int]:
    with impactarbiter.watch(step="manual") as arbiter:
        return dict(arbiter.report().older)


@pytest.mark.parametrize("seen", [False, True])
def test_it_counts_by_what_it_is_for(seen: bool) -> None:
    """An optimizer reads each parameter's `grad`: Python has seen it then."""
    before = older_now()
    model = torch.nn.Linear(64, 64, bias=False)
    model(torch.ones(64)).sum().backward()
    assert not seen or model.weight.grad is not None
    history.extend(torch.ones(1000) for _ in range(10))
    rows.extend(np.ones(1000) for _ in range(10))
    now = older_now()

    def grown(purpose: str) -> int:
        return now.get(purpose, 0) - before.get(purpose, 0)

    size = 64 * 64 * 4
    assert grown("parameters") == size
    assert grown("gradients") == size
    assert grown("other") == 10 * 4000
    assert grown("numpy") == 10 * 8000
    history.clear()
    assert older_now().get("other", 0) == before.get("other", 0)


def test_what_is_born_under_the_watch_is_not_older() -> None:
    before = older_now()
    with impactarbiter.watch(step="manual") as arbiter:
        turns(4)
        assert arbiter.report().older == before


def test_arrays_that_nobody_counts_are_not_older() -> None:
    rows.extend(np.ones(1000) for _ in range(10))
    with impactarbiter.watch(step="manual", numpy=False) as arbiter:
        assert "numpy" not in arbiter.report().older


@pytest.mark.parametrize(("was", "said"), [(300, True), (0, False)])
def test_a_holder_has_its_older_part(was: int, said: bool) -> None:
    history.extend(torch.ones(256) for _ in range(was))
    with impactarbiter.watch(step="manual") as arbiter:
        turns(40)
        report = arbiter.report()
        turns(10)
        later = arbiter.report()
    for made, count in ((report, 40), (later, 50)):
        (finding,) = made.findings
        assert finding.holder is not None
        assert finding.holder.older == was
        assert finding.holder.length == was + count
        assert finding.retained_bytes == (was + count) * 1024
        (text,) = (f.text for f in facts(finding) if f.label == "holder")
        since = f"list of {was + count}, {count} of them since the watch"
        assert (since in text) is said
    assert Report.from_dict(later.to_dict()).older == later.older


class Shard(torch.Tensor):
    """As a DTensor: it says the size of the whole, and has a part."""

    __slots__ = ("part",)

    @staticmethod
    def __new__(cls, part: torch.Tensor) -> Shard:
        return torch.Tensor._make_wrapper_subclass(cls, (10**6,))

    def __init__(self, part: torch.Tensor) -> None:
        self.part = part

    @classmethod
    def __torch_dispatch__(cls, *call: object) -> None:
        raise AssertionError("no code of the program's is run")


class Quantized(Shard):
    """A wrapper that has what it wraps in its ``__dict__``."""

    def __init__(self, part: torch.Tensor) -> None:
        self.values = part


def test_a_wrapper_is_as_large_as_what_it_wraps() -> None:
    before = older_now()
    model = torch.nn.Module()
    with impactarbiter.watch(step="manual") as arbiter:
        model._parameters["weight"] = Shard(torch.ones(1000))
        model._buffers["scales"] = Shard(Quantized(torch.ones(500)))
        arbiter.step()
        assert arbiter.report().live_bytes == 4000 + 2000
    now = older_now()
    for purpose, size in (("parameters", 4000), ("buffers", 2000)):
        assert now[purpose] - before.get(purpose, 0) == size
