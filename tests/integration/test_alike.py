"""What holders that differ by an index keep together, and nothing else."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter import Finding

pytestmark = pytest.mark.usefixtures("no_watch_left")


def leak_of(turn: Callable[[int], object], steps: int) -> Finding:
    findings = findings_of(turn, steps)
    return next(f for f in findings if f.verdict == "leak")


def findings_of(turn: Callable[[int], object], steps: int) -> list[Finding]:
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(steps):
            turn(step)
            arbiter.step()
        return list(arbiter.report().findings)


def statement(finding: Finding) -> str:
    assert finding.grown_at is not None
    return finding.grown_at.source


@pytest.mark.parametrize("classes", [5, 20, 100])
def test_values_of_one_batch_in_many_lists_keep_its_graph(
    classes: int,
) -> None:
    """Views of one memory: the first list that is met has it, and no list
    alone keeps the graph."""
    weight = torch.ones(8, 64, requires_grad=True)
    chance = random.Random(0)
    values: dict[int, list[torch.Tensor]] = {}

    def turn(step: int) -> None:
        each = (weight * 2).sum(1)
        for value in each:
            values.setdefault(chance.randrange(classes), []).append(value)

    finding = leak_of(turn, 200)
    assert statement(finding).endswith(".append(value)")
    # A product, a sum and what made views of it.
    assert finding.graph is not None
    assert finding.graph.nodes == pytest.approx(200 * 3, rel=0.1)
    assert finding.graph_bytes_per_step == pytest.approx(
        finding.graph.node_bytes / 200, rel=0.1
    )


@pytest.mark.parametrize("make", [torch.ones, np.ones])
def test_views_in_many_lists_are_freed_with_all_of_them(
    make: Callable[..., Any],
) -> None:
    """Without a graph: emptying one list frees no batch."""
    chance = random.Random(0)
    rows: dict[int, list[Any]] = {}

    def turn(step: int) -> None:
        for row in make((8, 64), dtype=dtype):
            rows.setdefault(chance.randrange(5), []).append(row)

    dtype = torch.float32 if make is torch.ones else np.float32

    finding = leak_of(turn, 100)
    assert finding.retained_bytes == pytest.approx(100 * 8 * 64 * 4, rel=0.05)


class Head:
    def __init__(self) -> None:
        self.weight = torch.ones(64, requires_grad=True)
        self.losses: list[torch.Tensor] = []

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        loss = (hidden * self.weight).sum()
        self.losses.append(loss)
        return loss


def test_heads_that_keep_their_losses_keep_the_trunk_s_graph() -> None:
    """Each has values of its own, and nodes in common with the others."""
    trunk = torch.ones(64, requires_grad=True)
    heads = [Head() for _ in range(4)]

    def turn(step: int) -> None:
        hidden = (trunk * 2).relu().sin().cos()
        for head in heads:
            head(hidden)

    finding = leak_of(turn, 100)
    assert statement(finding) == "self.losses.append(loss)"
    # Two nodes of each head, four of the trunk.
    assert finding.graph is not None
    assert finding.graph.nodes == pytest.approx(100 * 12, rel=0.1)


@pytest.mark.parametrize("beside", ["deque", "object", "dict", "tuple"])
def test_what_else_is_in_their_container_is_not_charged_to_them(
    beside: str,
) -> None:
    """It has the newest value, and much that is nobody's leak."""
    weight = torch.ones(8, 64, requires_grad=True)
    chance = random.Random(0)
    large = torch.ones(1 << 20)
    recent: deque[torch.Tensor] = deque(maxlen=30)
    state: dict[Any, Any] = {0: [], 1: []}
    if beside == "deque":
        state["recent"] = recent

    def turn(step: int) -> None:
        each = (weight * 2).sum(1)
        for value in each:
            state[chance.randrange(2)].append(value)
        if beside == "deque":
            recent.append(each[0])
        elif beside == "object":
            state["last"] = SimpleNamespace(large=large, value=each[0])
        elif beside == "dict":
            state["last"] = {"large": large, "value": each[0]}
        else:
            state["last"] = (large, each[0])

    leak = leak_of(turn, 200)
    assert leak.graph is not None
    # Its product and its sum; what made views of it is another node.
    has = 2 * (30 if beside == "deque" else 1)
    assert leak.graph.nodes == pytest.approx(200 * 3 - has, abs=3)
    assert leak.retained_bytes < 20_000


def test_what_a_bounded_deque_keeps_is_not_charged_to_lists_that_leak() -> (
    None
):
    """They keep the graphs that it has let go, and it what it has left."""
    weight = torch.ones(8, 64, requires_grad=True)
    chance = random.Random(0)
    values: dict[int, list[torch.Tensor]] = {}
    recent: deque[torch.Tensor] = deque(maxlen=100)

    def turn(step: int) -> None:
        each = (weight * 2).sum(1).unbind()
        recent.append(each[0])
        for value in each[1:]:
            values.setdefault(chance.randrange(5), []).append(value)

    leak, *others = findings_of(turn, 200)
    assert leak.verdict == "leak"
    assert statement(leak).endswith(".append(value)")
    assert [f.graph for f in others] == [None] * len(others)
    assert leak.graph is not None
    assert leak.graph.nodes == pytest.approx(100 * 3, rel=0.1)


def test_lists_of_two_lines_are_alike() -> None:
    """What each has most of may be the one line's or the other's."""
    weight = torch.ones(8, 64, requires_grad=True)
    chance = random.Random(1)
    values: dict[int, list[torch.Tensor]] = {}

    def turn(step: int) -> None:
        losses = (weight * 2).sum(1)
        scores = (weight * 3).exp().sum(1)
        for loss, score in zip(losses, scores, strict=True):
            kept = values.setdefault(chance.randrange(3), [])
            kept.append(loss)
            kept.append(score)

    finding = leak_of(turn, 200)
    assert finding.graph is not None
    assert finding.graph.nodes == pytest.approx(200 * 7, rel=0.05)


def test_lists_by_names_are_each_for_itself() -> None:
    """They are findings of their own: none is charged with the others'."""
    weight = torch.ones(2, 64, requires_grad=True)
    state: dict[str, list[torch.Tensor]] = {"losses": [], "recent": []}

    def turn(step: int) -> None:
        loss = (weight * 2).sum(1).unbind()
        state["losses"].append(loss[0])
        state["recent"].append(loss[1])
        del state["recent"][:-50]

    leak = leak_of(turn, 200)
    assert leak.graph is not None
    assert leak.graph.nodes == pytest.approx(150 * 3, rel=0.1)


class Client:
    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.recent: list[torch.Tensor] = []


@pytest.mark.parametrize("kind", ["attribute", "key", "negative"])
def test_a_window_by_another_name_is_not_like_what_leaks(kind: str) -> None:
    """Of the same types, filled in the same function, with views of the same
    memory."""
    weight = torch.ones(8, 64, requires_grad=True)
    clients = [Client() for _ in range(3)]
    dicts = [vars(one) for one in clients]
    if kind == "key":
        dicts = [{"losses": [], "recent": []} for _ in clients]
    rows: dict[int, list[torch.Tensor]] = {0: [], 1: [], -1: []}

    def turn(step: int) -> None:
        each = (weight * 2).sum(1).unbind()
        if kind == "negative":
            rows[step % 2].append(each[0])
            rows[-1].append(each[1])
            del rows[-1][:-50]
            return
        for at, one in enumerate(clients if kind == "attribute" else dicts):
            both = vars(one) if kind == "attribute" else one
            both["losses"].append(each[at])
            both["recent"].append(each[at + 3])
            del both["recent"][:-50]

    leak = leak_of(turn, 200)
    assert leak.graph is not None
    assert leak.graph.nodes == pytest.approx((200 - 50) * 3, abs=3)


def test_another_s_values_of_the_same_line_stay_its_own() -> None:
    """Two lists have a value of each batch, other lists the rest."""
    lists: list[list[torch.Tensor]] = [[] for _ in range(4)]
    first, second = Client(), Client()

    def turn(step: int) -> None:
        values = [torch.ones(64, requires_grad=True) * 2 for _ in range(5)]
        for rows, value in zip(lists, values, strict=False):
            rows.append(value)
        first.losses.append(values[4])
        second.recent.append(values[4])

    found = findings_of(turn, 100)
    (other,) = [f for f in found if "lists" not in str(f.holder)]
    # And the leaf that each was made of.
    assert other.retained_bytes == pytest.approx(2 * 100 * 64 * 4, rel=0.1)


class Block:
    def __init__(self) -> None:
        self.penalty: torch.Tensor | float = 0.0

    def __call__(self, x: torch.Tensor) -> None:
        self.penalty = self.penalty + (x * 2).sum()


def test_sums_that_hang_on_one_graph_are_charged_once() -> None:
    """A sum of them keeps the graph of each, too."""
    weight = torch.ones(64, requires_grad=True)
    blocks = [Block() for _ in range(3)]
    state = SimpleNamespace(total=None)

    def turn(step: int) -> None:
        for block in blocks:
            block(weight)
        state.total = sum(block.penalty for block in blocks)

    leak = leak_of(turn, 100)
    # A product, a sum and what adds it, of each block.
    assert leak.graph is not None
    assert leak.graph.nodes == pytest.approx(100 * 9, rel=0.05)
    assert leak.graph_bytes_per_step == pytest.approx(
        leak.graph.node_bytes / 100, rel=0.15
    )
