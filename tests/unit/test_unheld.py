"""What C++ alone holds is a finding: here the list of a script."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch

import impactarbiter
from impactarbiter import _core
from impactarbiter.model.report import Report

STEPS = 30


class Keeper(torch.nn.Module):
    """Tensors that are born in a script and kept by it: Python never has
    one of them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.kept = torch.jit.Attribute([], list[torch.Tensor])
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        self.kept.append(y + 1)
        if len(self.kept) > self.most:
            self.kept.pop(0)
        return y


def run(
    call: Callable[[torch.Tensor], object],
    allow: tuple[str, ...] = (),
    found: list[impactarbiter.model.finding.Finding] | None = None,
) -> Report:
    told = [] if found is None else found
    with impactarbiter.watch(
        step="manual", allow=allow, on_finding=told.append
    ) as arbiter:
        for _ in range(STEPS):
            call(torch.ones(300))  # the line that allocates
            arbiter.step()
        return arbiter.report()


class KeepsItsOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.out = x * 2
        return ctx.out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * ctx.out


def test_cycles_one_behind_another_are_freed_in_turn() -> None:
    """The graph of the second holds the node of the first; the collector's
    next run frees that one as well."""
    weight = torch.ones(300, requires_grad=True)

    outputs = []

    def step(_value: torch.Tensor) -> None:
        inner = KeepsItsOutput.apply(weight * 2)
        outputs.append(weakref.ref(inner))
        KeepsItsOutput.apply(inner * 2).sum().backward()

    gc.collect()
    gc.disable()
    try:
        (finding,) = run(step).findings
    finally:
        gc.enable()
    assert finding.verdict == "cycle"
    assert finding.cycle is not None and finding.cycle.collectable
    assert finding.tensors_per_step == pytest.approx(2)
    gc.collect()
    gc.collect()
    assert all(output() is None for output in outputs)


def test_a_script_s_list_is_a_native_finding() -> None:
    keeper = torch.jit.script(Keeper(1 << 30))
    told: list[impactarbiter.model.finding.Finding] = []
    shown = run(keeper, found=told)
    (finding,) = shown.findings
    assert (finding.verdict, finding.rule) == ("native", "no-python-root")
    assert (finding.path, finding.holder) == (None, None)
    assert "the line that allocates" in finding.allocated_at.source
    assert finding.bytes_per_step == pytest.approx(1200)
    assert finding.tensors_per_step == pytest.approx(1)
    assert finding.retained_bytes == 1200 * finding.retained_tensors
    assert finding.retained_tensors >= STEPS - 4
    assert finding.severity != "info" or finding.steps_to_oom
    assert [f.signature for f in told] == [finding.signature]  # once
    assert "keeps 1.2 KiB in 1 tensor more a step" in str(shown)
    # Nothing may be found where many tests have used the memory before.
    for behind in finding.held_in:
        assert (behind.library, behind.symbol) == ("", "ScriptModule")
        assert str(behind.path).endswith("keeper._c")


def no_memory(_asked: object) -> None:
    raise MemoryError


def test_a_search_without_memory_costs_its_name_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = torch.jit.script(Keeper(1 << 30))
    monkeypatch.setattr(_core, "native_of_site", no_memory)
    shown = run(keeper)
    (finding,) = shown.findings
    assert (finding.rule, finding.held_in) == ("no-python-root", ())
    (said,) = (w for w in shown.warnings if "memory was short" in w)
    assert "none is named" in said


def test_explain_without_memory_says_that_it_names_no_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = torch.jit.script(Keeper(1 << 30))
    keeper(torch.ones(3))
    kept = weakref.ref(keeper.kept[0])  # its object is C++'s from here on
    monkeypatch.setattr(_core, "native_of_object", no_memory)
    shown = impactarbiter.explain(kept())
    assert (shown.verdict, shown.held_in) == ("native", ())
    assert shown.note is not None
    assert shown.note.endswith("none is named")


def test_what_it_lets_go_is_none() -> None:
    keeper = torch.jit.script(Keeper(3))
    assert not run(keeper).findings


def test_it_may_be_allowed() -> None:
    keeper = torch.jit.script(Keeper(1 << 30))
    assert not run(keeper, allow=("test_unheld.py:*",)).findings


def test_what_python_holds_as_well_is_python_s() -> None:
    """A list, a graph, and garbage: each has a holder of its own."""
    kept: list[torch.Tensor] = []
    weight = torch.ones(300, requires_grad=True)
    (finding,) = run(lambda x: kept.append(x)).findings
    assert finding.verdict == "leak"
    kept.clear()
    for finding in run(lambda x: kept.append((x * weight).sum())).findings:
        assert finding.verdict == "leak"
