"""What C++ alone holds is a finding: here a list that a script fills."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import heap
from impactarbiter.model.report import Report

STEPS = 30


@torch.jit.script
def keep(kept: list[torch.Tensor], x: torch.Tensor, most: int) -> torch.Tensor:
    y = x * 2
    kept.append(y + 1)
    if len(kept) > most:
        kept.pop(0)
    return y


def hidden(thing: object) -> Callable[[], Any]:
    """What C has: no Python object leads to it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    address = id(thing)
    return lambda: ctypes.cast(address, ctypes.py_object).value


def keeper(most: int) -> Callable[[torch.Tensor], object]:
    """Keeps tensors that are born in a script: Python never has one of them,
    nor what leads to their list."""
    kept = hidden(torch._C.ScriptList([torch.zeros(1)]))  # type: ignore[attr-defined]
    return lambda x: keep(kept(), x, most)


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
            call(torch.ones(300))
            arbiter.step()
        return arbiter.report()


@torch.jit.script
def longer(kept: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """By a scratch that it makes once, as a library has for its kernels."""
    if len(kept) == 1:
        kept.append(torch.ones([30000]))
    return torch.cat([x, torch.ones([300])])


def test_what_was_made_once_is_no_growth_of_its_line() -> None:
    """The line grows, by what Python has."""
    kept = hidden(torch._C.ScriptList([torch.zeros(1)]))  # type: ignore[attr-defined]
    states = [torch.ones(300)]

    def step(_value: torch.Tensor) -> None:
        states[0] = longer(kept(), states[0])

    told: list[impactarbiter.model.finding.Finding] = []
    found = [*run(step, found=told).findings, *told]
    assert found and {finding.verdict for finding in found} <= {
        "leak",
        "growing",
    }


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


def test_tensors_on_arrays_that_something_else_has_are_held() -> None:
    """The array is met first, and is too small for one that is counted."""
    arrays, kept = [], []

    def step(_value: torch.Tensor) -> None:
        array = np.arange(64) * 2
        arrays.append(array)
        kept.append([[torch.from_numpy(array), torch.from_numpy(array)]])

    found = run(step).findings
    assert found and {finding.verdict for finding in found} == {"leak"}
    assert len(arrays) == len(kept)


def test_what_has_died_since_the_step_is_nobody_s() -> None:
    kept = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            kept.append(torch.from_numpy(np.arange(64) * 2))
            arbiter.step()
        sites = [suspect.site for suspect in heap.suspects(8)]
        kept.clear()
        assert sites
        assert not heap.walk(sites).unheld


class OnAnArray:
    def __init__(self) -> None:
        self.array = np.ones(1000)
        self.tensor = torch.from_numpy(self.array)
        self.me = self


def test_a_tensor_on_an_array_is_what_c_holds_that_by() -> None:
    gc.collect()
    gc.disable()
    try:
        found = run(lambda _value: OnAnArray()).findings
    finally:
        gc.enable()
    assert {finding.verdict for finding in found} == {"cycle"}


def test_a_list_of_c_s_is_a_native_finding() -> None:
    told: list[impactarbiter.model.finding.Finding] = []
    shown = run(keeper(1 << 30), found=told)
    (finding,) = shown.findings
    assert (finding.verdict, finding.rule) == ("native", "no-python-root")
    assert (finding.path, finding.holder) == (None, None)
    assert "keep(kept(), x, most)" in finding.allocated_at.source
    assert finding.bytes_per_step == pytest.approx(1200)
    assert finding.tensors_per_step == pytest.approx(1)
    assert finding.retained_bytes == 1200 * finding.retained_tensors
    assert finding.retained_tensors >= STEPS - 4
    assert finding.severity != "info" or finding.steps_to_oom
    assert [f.signature for f in told] == [finding.signature]  # once
    assert "keeps 1.2 KiB in 1 tensor more a step" in str(shown)


def no_memory(_asked: object) -> None:
    raise MemoryError


def test_a_search_without_memory_costs_its_name_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_core, "native_of_site", no_memory)
    shown = run(keeper(1 << 30))
    (finding,) = shown.findings
    assert (finding.rule, finding.held_in) == ("no-python-root", ())
    (said,) = (w for w in shown.warnings if "memory was short" in w)
    assert "none is named" in said


def test_explain_without_memory_says_that_it_names_no_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = hidden(torch._C.ScriptList([torch.ones(3)]))  # type: ignore[attr-defined]
    kept = weakref.ref(rows()[0])  # its object is C++'s from here on
    monkeypatch.setattr(_core, "native_of_object", no_memory)
    shown = impactarbiter.explain(kept())
    assert (shown.verdict, shown.held_in) == ("native", ())
    assert shown.note is not None
    assert shown.note.endswith("none is named")


def not_read(_asked: object) -> None:
    raise OSError


def test_a_search_that_could_not_read_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_core, "native_of_site", not_read)
    monkeypatch.setattr(_core, "native_of_object", not_read)
    (said,) = run(keeper(1 << 30)).warnings
    assert said == (
        "not all of the process's memory was read for the search for variables"
        " of C or C++ that hold tensors: none is named"
    )
    rows = hidden(torch._C.ScriptList([torch.ones(3)]))  # type: ignore[attr-defined]
    kept = weakref.ref(rows()[0])
    note = impactarbiter.explain(kept()).note
    assert note is not None
    assert note.endswith(
        ". not all of the process's memory was read for the search for the"
        " variable that holds it: none is named"
    )


def test_what_it_lets_go_is_none() -> None:
    assert not run(keeper(3)).findings


def test_it_may_be_allowed() -> None:
    assert not run(keeper(1 << 30), allow=("test_unheld.py:*",)).findings


def test_what_python_holds_as_well_is_python_s() -> None:
    """A list, a graph, and garbage: each has a holder of its own."""
    kept: list[torch.Tensor] = []
    weight = torch.ones(300, requires_grad=True)
    (finding,) = run(lambda x: kept.append(x)).findings
    assert finding.verdict == "leak"
    kept.clear()
    for finding in run(lambda x: kept.append((x * weight).sum())).findings:
        assert finding.verdict == "leak"
