"""Keys that come again may end a memo's growth; some cannot come again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import Finding

pytestmark = pytest.mark.usefixtures("no_watch_left")


class Batch:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Memo:
    def __init__(self) -> None:
        self.known: dict[Any, torch.Tensor] = {}

    def get(self, key: Any, x: torch.Tensor) -> torch.Tensor:
        if key not in self.known:
            self.known[key] = x * 2
        return self.known[key]


def by_tensor(memo: Memo, x: torch.Tensor) -> torch.Tensor:
    return memo.get(x, x)


def by_several(memo: Memo, x: torch.Tensor) -> torch.Tensor:
    return memo.get((x, "mask"), x)


def by_object(memo: Memo, x: torch.Tensor) -> torch.Tensor:
    return memo.get(Batch(x), x)


@functools.cache
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def of_functools(_memo: Memo, x: torch.Tensor) -> torch.Tensor:
    return doubled(x)


def by_number(memo: Memo, x: torch.Tensor) -> torch.Tensor:
    return memo.get(int(x[0]), x)


Ask = Callable[[Memo, torch.Tensor], torch.Tensor]


def told_early(ask: Ask, keep: list[torch.Tensor] | None) -> list[Finding]:
    """While it runs, after as many steps as tell an ordinary leak twice."""
    told: list[Finding] = []
    memo = Memo()
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for step in range(40):
            x = torch.full((64,), float(step))
            ask(memo, x)
            if keep is not None:
                keep.append(x)
            del x
            arbiter.step()
        told = [*told]  # the end has a last word
    doubled.cache_clear()
    return told


@pytest.mark.parametrize(
    "ask", [by_tensor, by_several, by_object, of_functools]
)
def test_a_key_that_nothing_else_has_cannot_come_again(ask: Ask) -> None:
    (finding,) = told_early(ask, None)
    assert finding.verdict == "leak"
    assert finding.asked_at is None


@pytest.mark.parametrize("ask", [by_tensor, by_several, of_functools])
def test_a_key_that_something_has_may_come_again(ask: Ask) -> None:
    keep: list[torch.Tensor] = []
    told = told_early(ask, keep)
    assert not any(
        "known" in str(f.holder) or "doubled" in str(f.holder) for f in told
    )


def test_a_key_that_equals_another_may_come_again() -> None:
    assert told_early(by_number, None) == []
