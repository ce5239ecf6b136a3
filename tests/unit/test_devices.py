"""What a report says of devices, and forecasts on them; no GPU needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import cuda_events, devices
from impactarbiter.judging.verdicts.forecast import Forecast
from impactarbiter.model.devices import DeviceMemory
from impactarbiter.model.finding import Finding, Site, TensorExample
from impactarbiter.model.report import Report

MIB = 1 << 20
CUDA = 1 << 8
BASE = 0x7F0000000000


def segment(blocks: list[tuple[int, int, str]], **more: Any) -> dict[str, Any]:
    """As torch.cuda.memory_snapshot() shows it; (size, asked, state)."""
    at, shown = BASE, []
    for size, asked, state in blocks:
        shown.append(
            {
                "address": at,
                "size": size,
                "requested_size": asked,
                "state": state,
            }
        )
        at += size
    return {
        "device": 0,
        "address": BASE,
        "total_size": at - BASE,
        "stream": 0,
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": shown,
        **more,
    }


@pytest.fixture
def watched() -> Iterator[None]:
    with impactarbiter.watch(step="manual"):
        yield


def follow(*segments: dict[str, Any]) -> dict[str, Any]:
    lines = cuda_events.snapshot_lines(list(segments))
    assert _core.device_follow(CUDA, lines, 0)
    (known,) = _core.devices()
    return known


MIXED = segment(
    [
        (1 * MIB, 1000, "active_allocated"),
        (1 * MIB, 9, "active_pending_free"),
        (2 * MIB, 0, "inactive"),
        (4 * MIB, 4 * MIB, "active_allocated"),
        (12 * MIB, 0, "inactive"),
    ]
)


@pytest.mark.parametrize("expandable", [False, True])
def test_a_snapshot_of_torchs(watched: None, expandable: bool) -> None:
    known = follow({**MIXED, "is_expandable": expandable})
    assert known["allocated_bytes"] == 5 * MIB
    assert known["pending_bytes"] == 1 * MIB
    assert known["requested_bytes"] == 1000 + 9 + 4 * MIB
    assert known["reserved_bytes"] == 20 * MIB
    assert known["largest_free_bytes"] == 12 * MIB
    assert known["inactive_split_bytes"] == (0 if expandable else 14 * MIB)
    assert known["drift"] == 0


def test_a_graphs_pool(watched: None) -> None:
    known = follow(segment([(MIB, 3, "inactive")], segment_pool_id=(0, 7)))
    assert known["private_bytes"] == MIB


def test_memory_of_devices(watched: None) -> None:
    follow(MIXED)
    kept = torch.empty(100)
    on_meta = torch.empty(50, device="meta")
    _core.refresh()
    found = {d.device: d for d in devices.memory()}
    assert found["cpu"].live_bytes == kept.nbytes
    assert found["cpu"].allocated_bytes is None
    assert found["meta"].live_bytes == on_meta.nbytes
    cuda = found["cuda:0"]
    assert (cuda.live_bytes, cuda.allocated_bytes) == (0, 5 * MIB)
    assert cuda.fragmentation == 0.7
    # Without CUDA nobody asks a driver.
    assert cuda.free_bytes is None and cuda.total_bytes is None
    assert str(cuda) == (
        "cuda:0: 0 B live, 5.0 MiB allocated, 1.0 MiB freed but in use,"
        " 20.0 MiB reserved, 14.0 MiB of it free between used blocks"
    )


def test_the_gap_to_the_driver_is_named() -> None:
    shown = DeviceMemory(
        device="cuda:1",
        live_bytes=1,
        peak_bytes=2,
        allocated_bytes=3 * MIB,
        reserved_bytes=20 * MIB,
        other_bytes=480 * MIB,
        free_bytes=500 * MIB,
        total_bytes=1000 * MIB,
    )
    assert "480 MiB beside torch's allocator" in str(shown)
    assert "500 MiB free of 1000 MiB" in str(shown)


def test_what_has_no_data_is_said_to_take_no_memory() -> None:
    shown = DeviceMemory(device="meta", live_bytes=1 << 20, peak_bytes=3 << 20)
    assert str(shown).startswith(
        "meta: 1.0 MiB of what is live, 3.0 MiB at its peak"
    )
    assert str(shown).endswith("which take no memory")


def test_devices_go_into_the_report_and_its_json(watched: None) -> None:
    follow(MIXED)
    arbiter = impactarbiter.watching.arbiter.current()
    assert arbiter is not None
    report = arbiter.report()
    assert "cuda:0" in [d.device for d in report.devices]
    again = Report.from_dict(report.to_dict())
    assert again.devices == report.devices
    assert "cuda:0: 0 B live" in str(report)
    assert "cuda" not in str(Report())


# -- forecasts ----------------------------------------------------------------


def finding(device: str) -> Finding:
    example = TensorExample(
        shape=(1,), dtype="float32", device=device, generation=1, bytes=4
    )
    return Finding(
        verdict="leak",
        allocated_at=Site("a.py", 1, "f"),
        bytes_per_step=1000.0,
        graph_bytes_per_step=9000.0,
        tensors=(example,),
    )


def test_room_on_a_device(
    watched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver has left, and what the allocator does not use of its
    own; the nodes of the graph lie elsewhere."""
    follow(MIXED)
    monkeypatch.setattr(devices, "_index", lambda name: 0)
    monkeypatch.setattr(devices, "_driver", lambda i: (10 * MIB, 64 * MIB))
    monkeypatch.setattr(devices, "_fraction", lambda i, total: total)
    assert devices.room("cuda:0") == 10 * MIB + 20 * MIB - 5 * MIB
    told = Forecast().apply(finding("cuda:0"), 0.5)
    assert told.steps_to_oom == 25 * MIB // 1000
    monkeypatch.setattr(devices, "_fraction", lambda i, total: total // 8)
    assert devices.room("cuda:0") == 3 * MIB


def test_a_limit_of_the_users(watched: None) -> None:
    follow(MIXED)
    assert devices.room("cuda:0", 7 * MIB) == 2 * MIB
    assert devices.room("cuda:0", 1 * MIB) == 0
    told = Forecast(7 * MIB).apply(finding("cuda:0"), 0.5)
    assert told.steps_to_oom == 2 * MIB // 1000


def test_no_forecast_where_nobody_knows_the_room(watched: None) -> None:
    for device in ("cuda:0", "mps:0"):
        assert devices.room(device) is None
        told = Forecast().apply(finding(device), 0.5)
        assert told.steps_to_oom is None
    assert devices.room("meta", 1000) is None
    assert Forecast().room_of(finding("cpu")) == pytest.approx(
        Forecast().room, rel=0.2
    )


def test_what_runs_out_first_is_told(
    watched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = {"cuda:0": 6_000_000}
    monkeypatch.setattr(devices, "room", lambda name, _given: rooms.get(name))

    def told(other: str) -> int | None:
        forecast = Forecast()
        forecast.room = 98_000_000
        shares = (("cpu", 0.8), (other, 0.2))
        found = replace(finding(other), shares=shares)
        assert found.device == "cpu"
        return forecast.apply(found, 0.5).steps_to_oom

    assert told("cuda:0") == 98_000_000 // 9800
    rooms["cuda:0"] = 1_000_000
    assert told("cuda:0") == 1_000_000 // 200
    assert told("mps:0") is None


def test_what_has_no_memory_takes_that_of_its_nodes(watched: None) -> None:
    forecast = Forecast()
    forecast.room = 90_000
    assert devices.room("meta") is None
    assert forecast.apply(finding("meta"), 0.5).steps_to_oom == 10


# -- what is said -------------------------------------------------------------


def test_events_that_do_not_fit_are_said(watched: None) -> None:
    follow(MIXED)
    free = np.array([(BASE + 512, 1, 0, 0, 0, CUDA, 1)], _core.DEVICE_COLUMNS)
    _core.device_events(free)
    (said,) = devices.said()
    assert said.startswith("1 events of cuda:0 did not fit")


def test_a_hidden_allocator_is_said(
    watched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert devices.said() == []
    monkeypatch.setattr(devices.cuda, "hidden", "torch uses the x allocator")
    (said,) = devices.said()
    assert "torch uses the x allocator" in said


def test_nothing_is_asked_of_a_torch_without_cuda() -> None:
    if torch.version.cuda is not None:
        pytest.skip("torch is a CUDA build")
    queued = list(torch.cuda._queued_calls)
    with impactarbiter.watch():
        assert torch.cuda._queued_calls == queued
    assert devices.cuda.hidden is None


def test_a_torch_for_cuda_that_we_were_not_built_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hook is queued for CUDA's start, and says what it lacks."""
    if torch.version.cuda is not None:
        pytest.skip("torch is a CUDA build")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    queued = len(torch.cuda._queued_calls)
    with impactarbiter.watch() as arbiter:
        assert len(torch.cuda._queued_calls) == queued + 1
        start, _ = torch.cuda._queued_calls[-1]
        start()
        (said,) = arbiter.report().warnings
        assert "built without CUDA events" in said
    assert len(torch.cuda._queued_calls) == queued
    start()  # too late: must do nothing
    assert not torch.cuda.is_initialized()
