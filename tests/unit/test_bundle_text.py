"""What a bundle says first: which finding took the memory, since when."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import impactarbiter
from impactarbiter.reports.read_bundle import read_bundle


def test_the_finding_that_took_the_memory(tmp_path: Path) -> None:
    kept, small = [], []
    with (
        impactarbiter.watch(step="manual") as arbiter,
        impactarbiter.FlightRecorder(tmp_path) as recorder,
    ):
        for _ in range(30):
            kept.append(torch.ones(4096))
            small.append(torch.ones(1))
            arbiter.step()
        folder = recorder.capture("memory ran out")
    assert folder is not None
    text = str(read_bundle(folder))
    found = re.search(
        r"taken by \S+\(\)\.kept \(leak\): (\S+ KiB);"
        r" known since step (\d+), (\d+) steps before",
        text,
    )
    assert found is not None, text
    assert float(found[1].split()[0]) >= 16 * 25
    assert int(found[2]) + int(found[3]) == 30
    assert int(found[2]) <= 18


def test_a_bundle_without_a_leak_blames_nobody(tmp_path: Path) -> None:
    with (
        impactarbiter.watch(step="manual") as arbiter,
        impactarbiter.FlightRecorder(tmp_path) as recorder,
    ):
        for _ in range(20):
            torch.ones(64)
            arbiter.step()
        folder = recorder.capture("memory ran out")
    assert folder is not None
    assert "taken by" not in str(read_bundle(folder))
