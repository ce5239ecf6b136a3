"""Which operations of live graphs will still read a tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import explain
from impactarbiter.model.finding import Reader, Site

WEIGHT = torch.ones(4, 4, requires_grad=True)


def needed(tensor: torch.Tensor) -> list[str]:
    found = explain(tensor).needed_by
    assert found is not None
    return sorted(str(reader) for reader in found)


def test_operations_that_will_read_it() -> None:
    x = torch.ones(4, 4)
    assert needed(x) == []
    first = x @ WEIGHT
    second = (x[:2] * WEIGHT[:2]).exp()
    assert needed(x) == ["MmBackward0.saved[self]", "MulBackward0.saved[self]"]
    # Its own result, which exp() saved.
    assert needed(second) == ["ExpBackward0.saved[result]"]
    first.sum().backward()
    assert needed(x) == ["MulBackward0.saved[self]"]
    del first, second
    assert needed(x) == []
    assert "needed by" not in str(explain(x))


def test_said_in_words() -> None:
    x = torch.ones(4, 4)
    kept = [x @ WEIGHT for _ in range(5)]
    shown = explain(x)
    assert shown.needed_by is not None
    assert shown.readers == len(shown.needed_by) == 5
    assert shown.needed_by[0] == Reader("MmBackward0", "saved[self]")
    text = ", ".join(["MmBackward0.saved[self]"] * 3)
    assert f"needed by  {text} and 2 more" in str(shown)
    assert "MmBackward0.saved[self]" in shown._repr_html_()
    assert len(kept) == 5


def test_many_are_counted_and_the_first_listed() -> None:
    x = torch.ones(4, 4)
    kept = [x @ WEIGHT for _ in range(100)]
    shown = explain(x)
    assert (shown.readers, len(shown.needed_by or ())) == (100, 64)
    assert len(kept) == 100


def called_at(tensor: torch.Tensor) -> dict[str, Site | None]:
    found = explain(tensor).needed_by
    assert found is not None
    return {f"{one.node}.{one.saved}": one.called_at for one in found}


def test_the_lines_that_called_them() -> None:
    x = torch.ones(4, 4)
    with impactarbiter.watch():
        product = x @ WEIGHT
        positive = product.relu()
        rows = (x * WEIGHT)[1:]
        normed = torch.nn.functional.layer_norm(positive, (4,))
        lines = [
            (x, "MmBackward0.saved[self]", "product = x @ WEIGHT"),
            # A view's memory is what the product gave back.
            (x, "MulBackward0.saved[self]", "rows = (x * WEIGHT)[1:]"),
            # What it gave back lies in the node itself.
            (
                positive,
                "ReluBackward0.saved[result]",
                "positive = product.relu()",
            ),
        ]
        for tensor, reader, source in lines:
            site = called_at(tensor)[reader]
            assert site is not None and site.source == source, reader
            assert str(site.line) in str(explain(tensor))
        at = called_at(positive)["NativeLayerNormBackward0.saved[input]"]
        assert at is not None and "layer_norm" in at.source
        # It alone knows the memory, which no Python object has any more.
        del positive
        assert called_at(x)["MmBackward0.saved[self]"] is not None
    assert rows is not None and normed is not None


def test_a_line_that_has_the_place_of_one_that_is_gone() -> None:
    x = torch.ones(4, 4)
    with impactarbiter.watch(step="manual") as arbiter:
        for i in range(20000):
            exec(compile("torch.ones(300)", f"gone_{i}.py", "exec"))
            if i % 100 == 0:
                arbiter.step()
        product = x @ WEIGHT
        at = called_at(x)["MmBackward0.saved[self]"]
        assert at is not None and at.source == "product = x @ WEIGHT"
    assert product is not None


def test_lines_that_nothing_shows() -> None:
    x = torch.ones(4, 4)
    before = x @ WEIGHT
    with impactarbiter.watch():
        gone = (x * WEIGHT).sum()
        written = torch.atan2(x, WEIGHT)
        written.add_(1)
        inside = torch.sigmoid_(x + WEIGHT)
        y = torch.ones(4, 4, requires_grad=True)
        given = Double.apply(y)
        assert called_at(x) == {
            "MmBackward0.saved[self]": None,
            "MulBackward0.saved[self]": None,
            "Atan2Backward0.saved[self]": None,
        }
        assert called_at(inside) == {"SigmoidBackward0.saved[result]": None}
        # A custom Function may give back what was there before.
        assert called_at(y) == {"DoubleBackward.saved[0]": None}
        # One of its results was given another call's memory.
        spread, mean = torch.var_mean(y)
        name = "VarMeanBackward0.saved[self]"
        assert called_at(y)[name] is not None
        spread.data = torch.ones(())
        assert called_at(y)[name] is None
    for kept in (before, gone, written, given, mean):
        assert kept is not None


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * 2


def test_of_functions_hooks_and_targets_together() -> None:
    x = (torch.ones(4, 4) + WEIGHT).detach().requires_grad_()
    y = Double.apply(x)
    assert needed(x) == ["DoubleBackward.saved[0]"]
    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.detach(), unpacked.append
    ):
        z = x * WEIGHT
    both = needed(x)
    assert "MulBackward0.packed[self]" in both
    assert not unpacked  # nothing was unpacked
    # Two targets of one block, and one without any.
    views = explain(x, x[:1], [1])
    assert views[0].needed_by == views[1].needed_by
    assert views[2].needed_by is None
    assert y is not None and z is not None


@pytest.mark.parametrize("detached", [True, False])
def test_a_finding_says_who_needs_it(detached: bool) -> None:
    kept = []
    with impactarbiter.watch() as arbiter:
        for _ in range(20):
            x = torch.ones(300) * 2
            loss = (x * WEIGHT.sum()).sum()
            (loss if detached else loss * 1).backward(
                retain_graph=not detached
            )
            kept.append((x, None if detached else loss))
        found = arbiter.report().findings
    (finding,) = (f for f in found if f.tensors[0].shape == (300,))
    if detached:
        assert finding.needed_by == ()
        said = "needed by   nothing: no live graph will read it"
    else:
        assert finding.needed_by == (Reader("MulBackward0", "saved[self]"),)
        said = "needed by   MulBackward0.saved[self]"
    assert said in str(finding)
    assert len(kept) == 20


def test_nodes_have_bytes_of_their_own() -> None:
    """A loss after its backward: four bytes of tensor, and its nodes."""
    loss = (WEIGHT @ WEIGHT).sum()
    loss.backward()
    shown = explain(loss)
    assert shown.graph is not None and shown.graph.node_bytes > 200
    assert shown.retained_bytes == 4
    both = impactarbiter.retained_bytes(loss)
    assert both == 4 + shown.graph.node_bytes
    assert "4 B in 1 tensor and " in str(shown)
    assert "of autograd nodes would be freed with it" in str(shown)
    plain = torch.ones(5)
    assert impactarbiter.retained_bytes(plain) == 20
