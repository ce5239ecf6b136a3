"""Small loops in this process: what is a leak, where, and what is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import Finding, Report
from impactarbiter.watching.arbiter import Arbiter

STEPS = 24

pytestmark = pytest.mark.usefixtures("quiet")


def line_of(code: CodeType, text: str) -> int:
    lines = Path(code.co_filename).read_text().splitlines()
    start = code.co_firstlineno - 1
    return next(
        i for i, line in enumerate(lines[start:], start + 1) if text in line
    )


def only(report: Report) -> Finding:
    """The one finding, about this file; figures that must hold anyway."""
    (finding,) = report.findings
    assert finding.allocated_at.file == __file__
    assert finding.path is not None and finding.holder is not None
    assert finding.advice
    assert finding.generations >= 1
    assert 0 <= finding.first_step <= finding.last_step
    # What was born since the last boundary is of a step that has not ended.
    assert finding.last_step <= report.steps + 1
    assert sum(report.accounted.values()) == report.live_bytes
    assert report.warnings == ()
    return finding


def is_leak(
    finding: Finding, path: str, holder: str, kind: str, line: int
) -> None:
    assert str(finding.path) == path
    assert finding.verdict == "leak"
    assert finding.generations >= 5
    assert finding.holder is not None
    assert finding.holder.expression == holder
    assert finding.holder.type == kind
    assert finding.allocated_at.line == line
    assert finding.allocated_at.source in Path(__file__).read_text()


# -- one more tensor each step, by the program's own steps -------------------

kept_list: list[torch.Tensor] = []
kept_dict: dict[str, torch.Tensor] = {}


@pytest.mark.parametrize("steps", ["manual", "auto"])
def test_a_list(steps: str) -> None:
    weight = torch.ones(4, requires_grad=True)
    outputs = []
    with impactarbiter.watch(step=steps) as arbiter:
        for _ in range(STEPS):
            outputs.append(torch.ones(1000))  # kept
            (weight * 2).sum().backward()
            if steps == "manual":
                arbiter.step()
    finding = only(arbiter.report())
    is_leak(
        finding,
        f"test_a_list().outputs[{STEPS - 1}]",
        "test_a_list().outputs",
        "list",
        line_of(sys._getframe().f_code, "# kept"),
    )
    assert finding.holder is not None
    assert finding.holder.length == STEPS
    assert finding.holder.growth_per_step == 1
    assert finding.bytes_per_step == pytest.approx(4000)
    assert finding.tensors_per_step == pytest.approx(1)
    assert finding.retained_bytes >= 4000 * (STEPS - 4)
    assert finding.graph is None
    assert finding.last_step == STEPS
    assert arbiter.report().steps == STEPS


def test_a_list_of_a_module() -> None:
    kept_list.clear()
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            kept_list.append(torch.ones(1000))  # kept
            arbiter.step()
    finding = only(arbiter.report())
    kept_list.clear()
    is_leak(
        finding,
        f"{__name__}.kept_list[{STEPS - 1}]",
        f"{__name__}.kept_list",
        "list",
        line_of(sys._getframe().f_code, "# kept"),
    )
    assert finding.path is not None and finding.path.python


def test_a_dict() -> None:
    cache = {}
    with impactarbiter.watch(step="manual") as arbiter:
        for i in range(STEPS):
            cache[f"batch {i}"] = torch.ones(1000)  # kept
            arbiter.step()
    is_leak(
        only(arbiter.report()),
        f"test_a_dict().cache['batch {STEPS - 1}']",
        "test_a_dict().cache",
        "dict",
        line_of(sys._getframe().f_code, "# kept"),
    )


def test_a_dict_of_lists_of_an_attribute() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.history: dict[str, list[torch.Tensor]] = {"loss": []}

        def train(self) -> None:
            self.history["loss"].append(torch.ones(1000))  # kept

    trainer = Trainer()
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            trainer.train()
            arbiter.step()
    holder = "test_a_dict_of_lists_of_an_attribute().trainer.history['loss']"
    is_leak(
        only(arbiter.report()),
        f"{holder}[{STEPS - 1}]",
        holder,
        "list",
        line_of(Trainer.train.__code__, "# kept"),
    )


def test_a_chain_of_nodes() -> None:
    class Node:
        def __init__(self, before: Node | None) -> None:
            self.before = before
            self.state = torch.ones(1000)  # kept

    node: Node | None = None
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            node = Node(node)
            arbiter.step()
    finding = only(arbiter.report())
    is_leak(
        finding,
        "test_a_chain_of_nodes().node.before.state",
        "test_a_chain_of_nodes().node",
        "Node",
        line_of(Node.__init__.__code__, "# kept"),
    )
    assert finding.retained_bytes >= 4000 * (STEPS - 4)


def make_hook() -> Callable[[torch.Tensor], None]:
    store: list[torch.Tensor] = []

    def hook(x: torch.Tensor) -> None:
        store.append(x)

    return hook


def test_a_closure() -> None:
    hook = make_hook()
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            hook(torch.ones(1000))  # kept
            arbiter.step()
    is_leak(
        only(arbiter.report()),
        f"test_a_closure().hook.<closure>.store[{STEPS - 1}]",
        "test_a_closure().hook.<closure>.store",
        "list",
        line_of(sys._getframe().f_code, "# kept"),
    )


@pytest.mark.parametrize("layers", [5, 60])
def test_holders_of_one_sort_are_one_finding(layers: int) -> None:
    """Few are told by their paths, many are too many to be told singly."""
    seen: dict[str, list[torch.Tensor]] = {f"l{i}": [] for i in range(layers)}
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            for kept in seen.values():
                kept.append(torch.ones(1000))
            arbiter.step()
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.alike == layers
    assert finding.holder.length == STEPS
    assert finding.holder.growth_per_step in (None, pytest.approx(1))
    assert finding.bytes_per_step == pytest.approx(4000 * layers, rel=0.1)
    assert finding.retained_bytes >= 4000 * layers * (STEPS - 4)
    words = str(finding).split()
    said = f"a step on the average; and {layers - 1} alike"
    assert said in " ".join(words)
    freed = f"freed if the paths to all {layers} of them are cut"
    assert freed in " ".join(words)


def test_an_attribute_of_a_model_by_a_forward_hook() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    features: list[torch.Tensor] = []
    model[1].register_forward_hook(lambda m, i, o: features.append(o))
    with impactarbiter.watch() as arbiter:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.rand(16, 8)).sum().backward()  # kept
            optimizer.step()
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert finding.holder is not None
    name = "test_an_attribute_of_a_model_by_a_forward_hook()"
    assert finding.holder.expression == f"{name}.features"
    code = sys._getframe().f_code
    assert finding.allocated_at.line == line_of(code, "# kept")


# -- 4 bytes, and what hangs on them -----------------------------------------


def test_losses_with_their_graph() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
    )
    losses = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            loss = model(torch.rand(16, 32)).square().mean()  # kept
            losses.append(loss)
            arbiter.step()
    finding = only(arbiter.report())
    is_leak(
        finding,
        f"test_losses_with_their_graph().losses[{STEPS - 1}]",
        "test_losses_with_their_graph().losses",
        "list",
        line_of(sys._getframe().f_code, "# kept"),
    )
    assert finding.graph is not None
    # MeanBackward, PowBackward, two AddmmBackward, TanhBackward, two
    # TBackward; leaves stand once for all.
    assert finding.graph.nodes >= 7 * (STEPS - 4)
    # The input, what tanh() made and what was squared, of each step.
    saved = 4 * (16 * 32 + 16 * 64 + 16)
    assert finding.graph.bytes >= saved * (STEPS - 4)
    assert finding.retained_bytes >= saved * (STEPS - 4)
    assert finding.bytes_per_step >= saved
    names = {name for name, _, _ in finding.graph.biggest}
    assert "AddmmBackward0" in names
    assert "torch.no_grad()" in finding.advice  # there is no backward


def test_losses_whose_buffers_are_freed() -> None:
    """After the backward the nodes are left, and 4 bytes."""
    weight = torch.ones(50, requires_grad=True)
    losses = []
    with impactarbiter.watch() as arbiter:
        for _ in range(STEPS):
            loss = weight.exp().sum()
            loss.backward()
            losses.append(loss)
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    name = "test_losses_whose_buffers_are_freed()"
    assert str(finding.path) == f"{name}.losses[{STEPS - 1}]"
    assert finding.graph is not None
    assert 2 * (STEPS - 4) <= finding.graph.nodes <= 3 * STEPS
    assert finding.retained_bytes < 10 * STEPS


def test_a_sum_of_losses() -> None:
    """No tensor more; a chain of nodes that never ends."""
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total: Any = 0
    with impactarbiter.watch() as arbiter:
        for _ in range(2 * STEPS):
            optimizer.zero_grad()
            loss = model(torch.rand(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            total = total + loss
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression == "test_a_sum_of_losses().total"
    assert finding.graph is not None
    assert finding.graph.nodes >= STEPS
    assert total.item() > 0


def test_a_sum_of_losses_in_place() -> None:
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with impactarbiter.watch() as arbiter:
        total = torch.zeros(())
        for _ in range(2 * STEPS):
            optimizer.zero_grad()
            loss = model(torch.rand(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            total += loss
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression == "test_a_sum_of_losses_in_place().total"
    assert finding.graph is not None
    assert finding.graph.nodes >= STEPS


# -- what is none -------------------------------------------------------------


def train(
    arbiter: Arbiter,
    steps: int,
    optimizer_class: Any,
    micro_batches: int = 1,
    **options: Any,
) -> list[float]:
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16),
        torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 1),
    )
    optimizer = optimizer_class(model.parameters(), lr=0.01, **options)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            loss = model(torch.rand(16, 8)).square().mean()
            (loss / micro_batches).backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 9:
            assert arbiter.report().findings == ()
    return losses


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {"amsgrad": True}),
    ],
)
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_healthy_training_is_silent(
    optimizer: Any, options: dict[str, Any], micro_batches: int
) -> None:
    told: list[Finding] = []
    with impactarbiter.watch(on_finding=told.append) as arbiter:
        losses = train(arbiter, 50, optimizer, micro_batches, **options)
    assert len(losses) == 50
    assert arbiter.report().findings == () and told == []
    assert arbiter.report().steps == 50
    assert arbiter.report().warnings == ()


def test_gradient_accumulation_without_an_optimizer_is_silent() -> None:
    weight = torch.ones(10, requires_grad=True)
    with impactarbiter.watch() as arbiter:
        for i in range(60):
            (weight * i).sum().backward()
            if i % 4 == 3:
                with torch.no_grad():
                    weight -= 0.01 * weight.grad
                weight.grad = None
    assert arbiter.report().findings == ()
    assert arbiter.report().steps == 60


def test_a_table_that_is_renewed_is_no_leak() -> None:
    """Ever more of it is young, and there is no more of it."""
    told: list[Finding] = []
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        table = [torch.ones(100) for _ in range(200)]
        for i in range(2 * STEPS):
            table[i] = torch.ones(100)
            arbiter.step()
    assert all(f.verdict != "leak" for f in arbiter.report().findings)
    assert all(f.verdict != "leak" for f in told)


def test_numbers_and_detached_results_are_silent() -> None:
    weight = torch.ones(10, requires_grad=True)
    numbers, running = [], torch.zeros(())
    with impactarbiter.watch() as arbiter:
        for _ in range(40):
            loss = weight.exp().sum()
            loss.backward()
            numbers.append(loss.item())
            running += loss.detach()
    assert arbiter.report().findings == ()
    assert running.item() == pytest.approx(sum(numbers))


def test_an_allowed_list_is_silent() -> None:
    kept = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            with impactarbiter.allow("replay buffer"):
                kept.append(torch.ones(100))
            arbiter.step()
    report = arbiter.report()
    assert report.findings == ()
    assert report.accounted["allowed"] == 400 * STEPS


# -- steps --------------------------------------------------------------------


def forward_backward(model: torch.nn.Module) -> None:
    model(torch.rand(2, 4)).sum().backward()


def test_optimizer_steps_are_counted() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with impactarbiter.watch() as arbiter:
        for _ in range(7):
            for _ in range(3):
                forward_backward(model)
            optimizer.step()
        assert arbiter.report().steps == 7
    assert arbiter.report().steps == 7


def test_each_trial_s_optimizer_is_counted_from_its_first_step() -> None:
    """The address of one that is gone goes to one that comes later."""
    models = [torch.nn.Linear(4, 1) for _ in range(2)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    with impactarbiter.watch() as arbiter:
        for trial in range(6):
            for _ in range(10):
                forward_backward(models[trial % 2])
                optimizers[trial % 2].step()
        assert arbiter.report().steps == 60


def test_two_optimizers_of_one_step_are_counted_once() -> None:
    """One of them steps at every fifth step of the other."""
    critic, generator = (torch.nn.Linear(4, 1) for _ in range(2))
    often = torch.optim.SGD(critic.parameters(), lr=0.1)
    seldom = torch.optim.SGD(generator.parameters(), lr=0.1)
    with impactarbiter.watch() as arbiter:
        for step in range(60):
            forward_backward(critic)
            often.step()
            if step % 5 == 4:
                forward_backward(generator)
                seldom.step()
        assert arbiter.report().steps == 60


def test_an_optimizer_takes_over_from_backward() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with impactarbiter.watch() as arbiter:
        for _ in range(5):
            forward_backward(model)
        assert arbiter.report().steps == 5
        for _ in range(6):
            forward_backward(model)
            optimizer.step()
        assert arbiter.report().steps == 6


def test_backwards_are_counted() -> None:
    model = torch.nn.Linear(4, 1)
    with impactarbiter.watch() as arbiter:
        for _ in range(9):
            forward_backward(model)
        loss = model(torch.rand(2, 4)).sum()
        torch.autograd.grad(loss, list(model.parameters()))
    assert arbiter.report().steps == 10


def test_a_backward_inside_a_backward_is_one() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(4, 4)
    with impactarbiter.watch() as arbiter:
        for _ in range(6):
            x = torch.rand(2, 4, requires_grad=True)
            out = checkpoint(layer, x, use_reentrant=True)
            out.sum().backward()
    assert arbiter.report().steps == 6


def test_calls_of_the_top_module_are_counted() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with impactarbiter.watch() as arbiter, torch.no_grad():
        for _ in range(8):
            model(torch.rand(2, 4))
    assert arbiter.report().steps == 8


def test_manual_steps_are_counted_alone() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with impactarbiter.watch(step="manual") as arbiter:
        for i in range(20):
            forward_backward(model)
            optimizer.step()
            if i % 5 == 4:
                arbiter.step()
    assert arbiter.report().steps == 4


def test_watching_without_a_step() -> None:
    with impactarbiter.watch() as arbiter:
        kept = [torch.ones(10), torch.ones(20), torch.ones(30)]
    report = arbiter.report()
    assert (report.steps, report.findings) == (0, ())
    assert report.live_bytes == sum(4 * len(one) for one in kept)


def test_every_other_step_finds_it_too() -> None:
    kept = []
    with impactarbiter.watch(step="manual", every=3) as arbiter:
        for _ in range(3 * STEPS):
            kept.append(torch.ones(1000))
            arbiter.step()
    finding = only(arbiter.report())
    assert finding.verdict == "leak"
    assert arbiter.report().steps == 3 * STEPS
    assert arbiter.report().live_bytes == 4000 * 3 * STEPS


# -- findings as they come ----------------------------------------------------


def test_a_finding_is_told_once_and_in_time() -> None:
    told: list[tuple[int, Finding]] = []
    kept = []
    with impactarbiter.watch(
        step="manual", on_finding=lambda f: told.append((len(kept), f))
    ) as arbiter:
        for _ in range(40):
            kept.append(torch.ones(1000))
            arbiter.step()
        ((at, finding),) = told
        assert finding.verdict == "leak"
        assert at <= 3 + 5 + 10
        arbiter.report()
    assert len(told) == 1
    (last,) = arbiter.report().findings
    assert last.signature == finding.signature


def test_two_leaks_are_two_findings_the_greater_first() -> None:
    small, large = [], {}
    with impactarbiter.watch(step="manual") as arbiter:
        for i in range(STEPS):
            small.append(torch.ones(10))
            large[i] = torch.ones(1000)
            arbiter.step()
    first, second = arbiter.report().findings
    name = "test_two_leaks_are_two_findings_the_greater_first()"
    assert str(first.path) == f"{name}.large[{STEPS - 1}]"
    assert str(second.path) == f"{name}.small[{STEPS - 1}]"
    assert first.verdict == second.verdict == "leak"


def test_one_line_that_feeds_two_holders() -> None:
    def make() -> torch.Tensor:
        return torch.ones(1000)

    left, right = [], []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            left.append(make())
            right.append(make())
            arbiter.step()
    name = "test_one_line_that_feeds_two_holders()"
    holders = {
        f.holder.expression: f.bytes_per_step
        for f in arbiter.report().findings
        if f.holder is not None
    }
    assert holders == {
        f"{name}.left": pytest.approx(4000),
        f"{name}.right": pytest.approx(4000),
    }


def test_too_few_steps_give_no_verdict() -> None:
    kept = []
    with impactarbiter.watch(step="manual", warmup=3, window=5) as arbiter:
        for _ in range(7):
            kept.append(torch.ones(1000))
            arbiter.step()
    report = arbiter.report()
    assert report.findings == ()
    assert report.needed_steps == 11 > report.steps


@pytest.mark.parametrize("grows", ["items", "bytes"])
def test_a_wide_window_is_waited_for(grows: str) -> None:
    told: list[impactarbiter.Finding] = []
    kept: list[torch.Tensor] = [torch.ones(8)]
    with impactarbiter.watch(
        step="manual", window=100, on_finding=told.append
    ) as arbiter:
        for step in range(400):
            if grows == "items":
                kept.append(torch.ones(64))
            else:
                kept[0] = torch.cat([kept[0], torch.ones(64)])
            arbiter.step()
            if step == 90:
                assert not arbiter.report().findings
                assert not told
        (found,) = arbiter.report().findings
    assert found.verdict == "leak"
    assert [f.verdict for f in told] == ["leak"]


def test_a_window_may_be_wider_than_any_run() -> None:
    kept = []
    with impactarbiter.watch(step="manual", window=10**23) as arbiter:
        for _ in range(60):
            kept.append(torch.ones(64))
            arbiter.step()
        assert not arbiter.report().findings
