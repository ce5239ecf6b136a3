"""Where nothing would be freed with an object: who else holds what it has."""

from __future__ import annotations

import numpy as np
import torch

from impactarbiter import explain


class Owner:
    pass


def test_an_optimizer_has_the_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(100, 10), torch.nn.ReLU())
    alone = explain(model)
    assert alone.retained_bytes == 4040 and alone.elsewhere is None
    groups = {"params": list(model.parameters())}
    shown = explain(model)
    assert shown.retained_bytes == 0
    held = shown.elsewhere
    assert held is not None
    assert str(held.path).endswith("().groups['params'][0]")
    assert (held.bytes, held.tensors) == (4040, 2)
    assert f"held also  {held.path} and 1 tensor more: 3.9 KiB" in str(shown)
    del groups


def test_a_view_and_its_base() -> None:
    base = torch.ones(1000)
    held = explain(base[:10]).elsewhere
    assert held is not None and str(held.path).endswith("().base")
    array = np.ones(1000)
    held = explain({"rows": array[5:]}).elsewhere
    assert held is not None and str(held.path).endswith("().array")


def test_what_a_class_or_a_function_leads_to_it_has_not() -> None:
    weight = torch.ones(1000)

    class Reads(Owner):
        def read(self) -> torch.Tensor:
            return weight

    reads = Reads()
    assert explain(reads).elsewhere is None
    reads.hook = reads.read  # type: ignore[attr-defined]
    assert explain(reads).elsewhere is None


def test_what_is_asked_about_together_holds_nothing_elsewhere() -> None:
    tensor = torch.ones(1000)
    first, second = [tensor], [tensor]
    del tensor
    one, other = explain(first, second)
    assert (one.retained_bytes, other.retained_bytes) == (0, 0)
    assert one.elsewhere is None and other.elsewhere is None


def test_what_it_holds_itself_is_not_held_elsewhere() -> None:
    """A tensor that a list holds, and its storage, asked about together."""
    kept = [torch.ones(1000)]
    storage = kept[0].untyped_storage()
    for shown in explain(kept[0], storage):
        assert shown.retained_bytes == 0 and shown.elsewhere is None


def test_what_holds_no_tensor() -> None:
    assert explain(Owner()).elsewhere is None
