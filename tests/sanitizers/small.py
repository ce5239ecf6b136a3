"""Start, births and deaths, looks, stop: each part of ours once or twice."""

from __future__ import annotations

import gc
import tempfile

import torch

import impactarbiter
from impactarbiter import _core

torch.set_num_threads(1)
kept = []
with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
    with tempfile.TemporaryDirectory() as folder:
        recorder = impactarbiter.FlightRecorder(folder, events=64, interval=0)
        with recorder:
            for _ in range(12):
                weight = torch.ones(4, requires_grad=True)
                loss = (weight * 2).exp().sum()
                loss.backward()
                kept.append(loss)
                arbiter.step()
            recorder.capture("test")
    impactarbiter.explain(kept[0])
    impactarbiter.snapshot()
    assert _core.consistent()
assert any(f.verdict == "leak" for f in arbiter.report().findings)
kept.clear()
gc.collect()
print("small: ok")
