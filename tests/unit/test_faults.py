"""What may go wrong around us, and in us: the program goes on as it would."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter import _torch
from impactarbiter.judging.diagnostician import Diagnostician

# -- names that are longer than our buffers ----------------------------------


def test_names_may_be_long_and_in_any_script() -> None:
    """A buffer's end may lie within a character: 100 of two bytes each."""
    name = "\u00c9" * 100
    function = type(
        name,
        (torch.autograd.Function,),
        {
            "forward": staticmethod(lambda ctx, x: x * 2),
            "backward": staticmethod(lambda ctx, gradient: gradient * 2),
        },
    )
    kept = type(name, (list,), {})()
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(12):
            weight = torch.ones(3, requires_grad=True)
            kept.append(function.apply(weight).sum())
            arbiter.step()
        report = arbiter.report()
    assert report.warnings == ()
    (finding,) = [f for f in report.findings if f.verdict == "leak"]
    assert finding.holder is not None
    assert finding.holder.type.startswith("\u00c9" * 60)
    assert finding.graph is not None
    names = [name for name, _count, _bytes in finding.graph.biggest]
    assert any(name.startswith("\u00c9" * 30) for name in names)


def test_so_may_those_of_items_and_of_an_array_s_type() -> None:
    """An item's is cut at 127 bytes, an array's at 31."""
    name = "x" + "\u00c9" * 100
    item = type(name, (), {})
    record = np.dtype((type("\u00c9" * 40, (np.void,), {}), [("a", "f4")]))
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(40):  # until the statement has been watched
            one = item()
            one.data = torch.ones(9)
            kept.append((one, np.ones(300, dtype=record)))
            arbiter.step()
        report = arbiter.report()
    assert report.warnings == ()
    assert {f.verdict for f in report.findings} == {"leak"}
    shown = impactarbiter.explain(kept[0][1])
    assert "\u00c9" * 10 in shown.target


def test_a_long_message_of_a_failure_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(self: Diagnostician, step: int) -> None:
        raise ValueError("\u00c9" * 300)

    monkeypatch.setattr(Diagnostician, "look", look)
    kept = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with impactarbiter.watch(step="manual") as arbiter:
            for _ in range(20):
                kept.append(torch.ones(3))
                arbiter.step()
    (said,) = caught
    assert "ValueError: \u00c9" in str(said.message)
    assert any("\u00c9" * 50 in text for text in arbiter.report().warnings)


# -- looks at torch's objects that throw --------------------------------------


def test_looks_that_were_given_up_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_up = 2
    monkeypatch.setattr(_torch, "walk_failures", lambda: given_up)
    with impactarbiter.watch(step="manual") as arbiter:
        assert arbiter.report().warnings == ()
        given_up += 3
        (said,) = arbiter.report().warnings
        assert said.startswith("3 looks at objects of torch's")
    with impactarbiter.watch(step="manual") as arbiter:
        assert arbiter.report().warnings == ()


def test_nodes_whose_buffers_are_freed_are_no_failures() -> None:
    linear = torch.nn.Linear(4, 3)
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(12):
            loss = linear(torch.ones(2, 4)).square().mean()
            loss.backward()
            kept.append(loss)
            arbiter.step()
        assert arbiter.report().warnings == ()
