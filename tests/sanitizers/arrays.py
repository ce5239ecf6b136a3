"""Start, births and deaths, looks, questions, stop: NumPy's arrays alone."""

from __future__ import annotations

import gc
import tempfile

import numpy as np

import impactarbiter
from impactarbiter import _core

STEPS = 40  # until the statement has been watched


class Store:
    def __init__(self) -> None:
        self.me = self
        self.rows: list[np.ndarray] = []


kept: list[np.ndarray] = []
allowed: list[np.ndarray] = []
impactarbiter.allow_object(allowed)
with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
    with tempfile.TemporaryDirectory() as folder:
        recorder = impactarbiter.FlightRecorder(folder, events=64, interval=0)
        with recorder:
            for _ in range(STEPS):
                kept.append(np.ones(1000))
                allowed.append(np.ones(10))
                Store().rows.append(np.ones(100))
                arbiter.step()
            recorder.capture("test")
    impactarbiter.explain(kept[0], paths=3)
    impactarbiter.explain(Store)
    impactarbiter.retained_bytes(kept)
    impactarbiter.snapshot()
    gc.collect()
    assert _core.consistent()
    report = arbiter.report()
found = [f for f in report.findings if f.verdict == "leak"]
assert [str(f.path) for f in found] == ["__main__.kept[39]"], report
assert found[0].grown_at is not None
assert not [said for said in report.warnings if "torch" in said], report
print("arrays: ok")
