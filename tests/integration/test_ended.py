"""What the calls had that an exception has ended goes by the names that it had
while they ran: neither the exception nor its traceback is what holds it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

import impactarbiter
from impactarbiter import Finding

STEPS = 60

Step = Callable[[], None]


def fails(step: Step) -> None:
    train(step)


def exits(step: Step) -> None:
    try:
        train(step)
    except RuntimeError:
        sys.exit(4)


def leaves_anew(step: Step) -> None:
    try:
        train(step)
    except RuntimeError as error:
        raise ValueError("in other words") from error


def train(step: Step) -> None:
    weight = torch.ones(4, requires_grad=True)
    kept: list[torch.Tensor] = []
    total = torch.zeros(())
    for _turn in range(STEPS):
        kept.append(torch.ones(64))
        total = total + (weight * 2).sum()
        step()
    raise RuntimeError(len(kept), float(total.detach()))


def has_epochs(step: Step) -> None:
    for _epoch in range(2):
        epoch(step)


def epoch(step: Step) -> None:
    losses: list[torch.Tensor] = []
    for _turn in range(STEPS):
        losses.append(torch.ones(64))
        step()
    raise RuntimeError(len(losses))


def findings_of(program: Callable[[Step], None]) -> dict[str, Finding]:
    """By the names of their holders."""
    arbiter = impactarbiter.watch(step="manual", warmup=1, window=3)
    with pytest.raises((RuntimeError, ValueError, SystemExit)), arbiter:
        program(arbiter.step)
    found = arbiter.report().findings
    assert all(one.holder is not None for one in found)
    return {one.holder.expression: one for one in found if one.holder}


@pytest.mark.parametrize("program", [fails, exits, leaves_anew])
def test_what_an_ended_call_has(program: Callable[[Step], None]) -> None:
    found = findings_of(program)
    assert set(found) == {"train().kept", "train().total"}
    assert {one.verdict for one in found.values()} == {"leak"}
    # All that there was at the end: nothing else holds it.
    assert found["train().kept"].retained_tensors == STEPS
    graph = found["train().total"].graph
    assert graph is not None
    assert graph.nodes >= 2 * STEPS


def test_a_call_that_a_loop_made_ends_with_its_turn() -> None:
    found = findings_of(has_epochs)
    assert {name: one.verdict for name, one in found.items()} == {
        "epoch().losses": "growing"
    }
