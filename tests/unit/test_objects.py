"""What a kept tensor takes besides its numbers, and what is told of it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter.core import built, frameworks

STEPS = 60


@pytest.fixture(autouse=True)
def known() -> None:
    frameworks.know_objects(built.torch_module())


#: What one more of each takes of the process's memory, in steady state.
GREW = """
import torch
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
value = torch.ones(1)
kept = [None] * 60_000
for _ in range(1000):
    value * 2
before = resident()
for i in range(len(kept)):
    kept[i] = value * 2
print((resident() - before) / len(kept))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_it_is_a_good_part_of_what_the_process_grows_by_and_no_more() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", GREW], capture_output=True, text=True
    )
    grew = float(done.stdout)
    assert grew / 2 < frameworks.object_bytes("cpu", True) < grew


def watched(keep: object) -> impactarbiter.Finding:
    kept: list[object] = []
    weight = torch.ones(3, requires_grad=True)
    with impactarbiter.watch(step="manual", memory_limit=1 << 50) as arbiter:
        for _ in range(STEPS):
            kept.append(keep(weight))  # type: ignore[operator]
            arbiter.step()
        (found,) = arbiter.report().findings
    return found


def test_a_detached_number_costs_its_objects() -> None:
    found = watched(lambda weight: weight.detach().sum())
    each = frameworks.object_bytes("cpu", True)
    assert (found.bytes_per_step, found.object_bytes_per_step) == (4, each)
    assert found.cost_per_step == 4 + each
    room = found.cost_per_step * found.steps_to_oom
    assert 0.9 * (1 << 50) < room < 1 << 50
    assert f"at least {each} B of tensor objects" in str(found)


def test_each_view_of_one_storage_costs_its_object() -> None:
    found = watched(lambda _weight: list(torch.ones(8, 2)))
    each = frameworks.object_bytes("cpu", True)
    assert found.bytes_per_step == 64
    # The views keep what they are views of, too.
    assert found.object_bytes_per_step == 9 * each


def test_views_that_others_hold_cost_others() -> None:
    beside: list[torch.Tensor] = []

    def keep(_weight: torch.Tensor) -> torch.Tensor:
        made = torch.ones(8, 2)
        beside[:] = list(made)
        return made

    found = watched(keep)
    each = frameworks.object_bytes("cpu", True)
    assert each <= found.object_bytes_per_step < 1.5 * each


def test_items_are_counted_where_many_show_one_storage() -> None:
    kept: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            kept.extend(torch.ones(8, 2))
            arbiter.step()
        (found,) = arbiter.report().findings
    assert found.holder is not None
    assert found.holder.growth_per_step == 8


def test_what_a_graph_saves_has_no_objects_in_python() -> None:
    found = watched(lambda weight: (weight * 2).exp())
    each = frameworks.object_bytes("cpu", False)
    assert found.graph_bytes_per_step > 0
    assert found.object_bytes_per_step == found.tensors_per_step * each


def test_large_tensors_are_told_without() -> None:
    found = watched(lambda weight: weight.detach().new_ones(1 << 16))
    assert found.object_bytes_per_step > 0
    assert "tensor objects" not in str(found)


def test_who_is_not_known_has_none() -> None:
    assert frameworks.object_bytes("jax:cpu:0", True) == 0
    assert frameworks.object_bytes("tensorflow:cpu:0", True) == 0
    assert frameworks.object_bytes("numpy", True) == np.ndarray.__basicsize__


def test_tensors_of_two_devices_are_told_apart() -> None:
    found = watched(
        lambda _weight: (torch.ones(100, device="meta"), torch.ones(300))
    )
    shares = dict(found.shares)
    assert shares == {"cpu": pytest.approx(0.75), "meta": pytest.approx(0.25)}
    assert found.device == "cpu"
    assert found.rates == {
        "cpu": pytest.approx(1200),
        "meta": pytest.approx(400),
    }
    room = found.host_bytes_per_step * (found.steps_to_oom or 0)
    assert 0.9 * (1 << 50) < room < 1 << 50


def test_a_list_of_each_layer_may_be_on_a_device_of_its_own() -> None:
    """They are one finding."""
    layers: list[list[torch.Tensor]] = [[], []]
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(STEPS):
            for kept, device in zip(layers, ("cpu", "meta"), strict=True):
                kept.append(torch.ones(1000, device=device))
            arbiter.step()
        (found,) = arbiter.report().findings
    assert dict(found.shares) == {
        "cpu": pytest.approx(0.5),
        "meta": pytest.approx(0.5),
    }
