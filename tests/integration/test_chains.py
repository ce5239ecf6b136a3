"""Chains, of which each link leads to the one before: which object has one."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

import impactarbiter


def fresh() -> torch.Tensor:
    return torch.ones(64)


class Net:
    """Its loss is wrapped again at each turn of its owner's."""

    last = torch.zeros(0)

    def loss(self) -> int:
        return 0

    def wrap(self) -> None:
        loss, anchor = self.loss, fresh()

        @functools.wraps(loss)
        def wrapped() -> int:
            return loss() + len(anchor)

        self.loss = wrapped  # type: ignore[method-assign]


class Client:
    def __init__(self) -> None:
        self.net = Net()


def take_turns(steps: int) -> tuple[list[Client], Iterator[None]]:
    """A client's turn is two steps: something is made anew in the second."""
    clients = [Client() for _ in range(6)]

    def turns() -> Iterator[None]:
        order = random.Random(0)
        for _ in range(steps // 2):
            one = order.choice(clients)
            one.net.wrap()
            yield
            one.net.last = fresh()
            yield

    return clients, turns()


def test_chains_beside_each_other_are_their_owners() -> None:
    """A list of six is as long as it was, and no link of a chain; nor is what
    has a chain beside something that is made anew."""
    clients, turns = take_turns(240)
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in turns:
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert re.search(
        r"clients\[\d\]\.net\.loss$", finding.holder.expression
    )
    assert finding.holder.alike == len(clients)
    assert finding.bytes_per_step == pytest.approx(128, rel=0.1)
    assert finding.grown_at is not None
    assert finding.grown_at.source.startswith("self.loss = wrapped")


class Span:
    """Each has what it was begun in for its parent."""

    def __init__(self, parent: Span | None) -> None:
        self.parent, self.attributes = parent, {"inputs": fresh()}


class Slots:
    __slots__ = ("attributes", "parent")

    def __init__(self, parent: Slots | None) -> None:
        self.attributes, self.parent = {"inputs": fresh()}, parent


def with_dict(parent: Span | None) -> Span:
    span = Span(parent)
    assert span.__dict__
    return span


@pytest.mark.parametrize("make", [Span, Slots, with_dict])
def test_a_chain_is_told_by_the_link_that_it_goes_by(
    make: Callable[[object], object],
) -> None:
    """Its last link has something of its own nearer to it."""
    last = None
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(60):
            last = make(last)
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert finding.verdict == "leak"
    assert [edge.text for edge in finding.below_holder] == [
        ".parent",
        ".attributes",
        "['inputs']",
    ]
    assert "leads to ever more, such as by `.parent`" in finding.advice


def wrapping(inner: Callable[[], int], kept: torch.Tensor) -> Any:
    def wrapped() -> int:
        return inner() + len(kept)

    return wrapped


class Wrapper:
    def __init__(self, inner: object, kept: torch.Tensor) -> None:
        self.parts = [inner, kept]


@pytest.mark.parametrize("wrap", [wrapping, Wrapper])
def test_what_is_wrapped_again_and_again(wrap: Callable[..., Any]) -> None:
    """Each level wraps what there was before, and trains for a while."""
    with impactarbiter.watch(step="manual") as arbiter:
        policy = wrap(int, torch.ones(256))
        for step in range(600):
            if step % 15 == 14:
                policy = wrap(policy, torch.ones(256))
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert ".policy" in finding.holder.expression
    assert finding.bytes_per_step == pytest.approx(1024 / 15, rel=0.1)


MEANS = """
import torch

class Mean:
    def __init__(self):
        self.value = torch.zeros(())

    def update(self, value):
        self.value = 0.9 * self.value + 0.1 * value

weight = torch.nn.Parameter(torch.randn(32, 32))
optimizer = torch.optim.SGD([weight], lr=0.01)
means = [Mean(), Mean()]
for step in range(160):
    loss = (weight * torch.randn(32, 32)).tanh().sum()
    optimizer.zero_grad()
    for mean, factor in zip(means, (1, 2), strict=True):
        mean.update(loss * factor)
    loss.backward(retain_graph=True)
    optimizer.step()
    if step == 60:
        shown = means[0]
"""


def test_a_value_keeps_the_name_that_it_was_found_by(tmp_path: Path) -> None:
    """One of two means gets another name in the middle of the run."""
    said, report = warm.watched(tmp_path, MEANS)
    (finding,) = report["findings"]
    expression = finding["holder"]["expression"]
    assert re.fullmatch(r"__main__\.means\[[01]\]\.value", expression)
    assert finding["holder"]["alike"] == 2, said
