"""Tensors that have others besides their memory, or in place of it: what they
retain is what goes with them."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch

import impactarbiter
from impactarbiter import retained_bytes

SIZE = 600

Make = Callable[[], object]


def pullback() -> object:
    weight = torch.randn(SIZE)
    return torch.func.vjp(lambda x: (x * weight).tanh().sum(), weight)[1]


def nested_pullback() -> object:
    """Each level has a graph of its own."""

    def slope(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda y: y.pow(3).sum())(x)

    return torch.func.vjp(slope, torch.randn(SIZE))[1]


def escaped() -> object:
    """A value of a transform that has ended."""
    seen: list[torch.Tensor] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        seen.append(x * 2)
        return x

    torch.func.vmap(note)(torch.randn(4, SIZE))
    return seen


def by_channel() -> object:
    return torch.quantize_per_channel(
        torch.randn(SIZE, 4),
        torch.ones(SIZE, dtype=torch.float64),
        torch.zeros(SIZE, dtype=torch.long),
        0,
        torch.qint8,
    )


def nested() -> object:
    return torch.nested.nested_tensor([torch.randn(3)] * SIZE)


MAKES: dict[str, Make] = {
    "what torch.func.vjp gives": pullback,
    "what it gives of a gradient": nested_pullback,
    "what vmap had": escaped,
    "scales and zero points by channel": by_channel,
    "sizes of a nested tensor": nested,
    "a sparse tensor": lambda: torch.eye(SIZE).to_sparse(),
    "compressed rows": lambda: torch.eye(SIZE).to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MAKES)
def test_what_it_retains_goes_with_it(kind: str) -> None:
    MAKES[kind]()  # what torch makes once
    with impactarbiter.watch():
        kept = [MAKES[kind]() for _ in range(5)]
        gc.collect()
        held = retained_bytes(kept)
        before = impactarbiter.snapshot().live_bytes
        del kept
        gc.collect()
        freed = before - impactarbiter.snapshot().live_bytes
    assert freed > 5 * SIZE
    assert 0 <= held - freed < 5 * 8192  # nodes of autograd
