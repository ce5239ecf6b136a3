"""Retained bytes against the allocator's own account of what comes back."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
import torch
import warm
from torch import nn

import impactarbiter
from impactarbiter import _core
from impactarbiter.watching.arbiter import current


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """The ledger counts what the allocator gives out and gets back.

    The collector is off: what it frees between two looks is no part of it.
    """
    torch.manual_seed(0)
    gc.collect()
    gc.disable()
    with impactarbiter.watch(step="manual"):
        yield
    gc.enable()


def live() -> int:
    _core.refresh()
    total: int = _core.totals()["live_bytes"]
    return total


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


def lstm() -> nn.Module:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(32, 24, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.lstm(x)[0]
            return out

    return Tagger()


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 10)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


MODELS = {
    "transformer": transformer,
    "lstm": lstm,
    "convolutions": convolutions,
}


def measure(name: str, after_backward: bool) -> tuple[int, int]:
    """Bytes promised for one kept loss, and bytes that come back."""
    model = MODELS[name]()
    batch = torch.randn(4, 10, 32)
    loss = model(batch).square().mean()
    if after_backward:
        loss.backward()
    promised = impactarbiter.explain(loss).retained_bytes
    before = live()
    del loss
    return promised, before - live()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("after_backward", [False, True])
def test_one_kept_loss(name: str, after_backward: bool) -> None:
    """In a process of its own: nothing else holds or lets go meanwhile."""
    code = f"""
import gc, runpy, sys, torch, impactarbiter
sys.path.append({os.path.dirname(warm.__file__)!r})
here = runpy.run_path({__file__!r})
gc.disable()
torch.manual_seed(0)
with impactarbiter.watch(step="manual"):
    print(*here["measure"]({name!r}, {after_backward}))
"""
    said = warm.run(["-c", code])
    assert said.returncode == 0, said.stderr
    promised, freed = map(int, said.stdout.split())
    assert freed > 0
    assert promised == pytest.approx(freed, rel=0.02)


def test_a_finding_of_kept_losses() -> None:
    model, kept = transformer(), []
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        kept.append(model(torch.randn(2, 5, 32)).square().mean())
        arbiter.step()
    (finding,) = arbiter.report().findings
    assert finding.verdict == "leak"
    before = live()
    kept.clear()
    freed = before - live()
    assert freed > 1 << 20
    assert finding.retained_bytes == pytest.approx(freed, rel=0.02)


FREED_FIRST = """
import torch, impactarbiter
from impactarbiter import _core
def live():
    _core.refresh()
    return _core.totals()["live_bytes"]
impactarbiter.watch(step="manual")
w = torch.ones(1000, requires_grad=True)
losses = []
for _ in range(300):
    losses.append((w * 2).sinh().sum())
    losses[-1].backward()
impactarbiter.retained_bytes(w)
y = w * 1
for _ in range(20):
    y = y.sinh()
y = y.sum()
promised, before = impactarbiter.explain(y).retained_bytes, live()
del y
print(promised, before - live())
"""


def test_nodes_of_a_class_that_was_only_seen_freed() -> None:
    said = warm.run(["-c", FREED_FIRST])
    assert said.returncode == 0, said.stderr
    promised, freed = map(int, said.stdout.split())
    assert promised == freed > 0


def test_two_holders_of_one_graph_claim_it_once_at_most() -> None:
    weight = torch.ones(1000, requires_grad=True)
    first, second = [], []
    arbiter = current()
    assert arbiter is not None
    for _ in range(20):
        middle = (weight * 2).exp()
        first.append(middle.sum())
        second.append(middle.mean())
        arbiter.step()
    report = arbiter.report()
    claimed = sum(finding.retained_bytes for finding in report.findings)
    assert claimed <= report.live_bytes
    assert report.accounted["findings"] == claimed
