"""Ray Train: two workers on a Ray of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import sys
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from impactarbiter.integrations.ray import WatchedTorchConfig

def train():
    import torch
    rank = ray.train.get_context().get_world_rank()
    kept = []
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if rank == 1 and "leak" in arguments:
            kept.append(torch.zeros(1000))

arguments = sys.argv[1:]
ray.init(num_cpus=2, include_dashboard=False)
TorchTrainer(
    train,
    torch_config=WatchedTorchConfig(job="J"),
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=sys.argv[1]),
).fit()
ray.shutdown()
"""


@pytest.mark.slow
@pytest.mark.parametrize("leaky", [True, False])
def test_workers_of_ray_train(tmp_path: Path, leaky: bool) -> None:
    pytest.importorskip("ray.train.torch")
    (tmp_path / "train.py").write_text(PROGRAM)
    words = ["leak"] if leaky else []
    done = subprocess.run(
        [sys.executable, "-P", "train.py", str(tmp_path / "out"), *words],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        [sys.executable, "-P", "-m", "impactarbiter", "merge", "J"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    ).stdout
    assert said.startswith(
        "ImpactArbiter: rank 1 of 2 leaks"
        if leaky
        else "ImpactArbiter: no leak in 2 of 2 ranks"
    )
    assert "2 finished" in said
