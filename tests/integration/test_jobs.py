"""Whole jobs: launchers around us and below us, and ranks that end badly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm

from impactarbiter.integrations import startup_file

TRAIN = """\
import os, signal, sys, torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
for step in range(60):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if rank == 1 and not again:
        kept.append(torch.zeros(1000))
dist.barrier()
dist.destroy_process_group()
if rank == 1 and not again:
    {end}
"""
RUN = ["-m", "impactarbiter", "run"]


def call(folder: Path, *command: str, end: str = "pass") -> Any:
    (folder / "train.py").write_text(TRAIN.replace("{end}", end))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def merged(folder: Path) -> dict[str, Any]:
    done = warm.run(
        ["-m", "impactarbiter", "merge", "J", "--json", "-"], cwd=folder
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


JOB = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "lost"),
        ("os._exit(5)", "lost"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
        ("raise ValueError", "ValueError"),
        ("sys.exit(3)", "exit 3"),
    ],
)
def test_a_rank_that_ends_badly(tmp_path: Path, end: str, state: str) -> None:
    call(tmp_path, *JOB, *RUN, "--job", "J", "train.py", end=end)
    job = merged(tmp_path)
    (found,) = job["findings"]
    assert found["ranks"] == [1]
    states = {p["rank"]: p["state"] for p in job["processes"]}
    assert states[1] == state
    said = "rank 1 left no last report (killed?)" in job["answer"]
    assert said == (state == "lost")
    assert job["answer"].startswith("rank 1 of 2 leaks")


@pytest.mark.slow
def test_an_elastic_restart_keeps_what_was_found(tmp_path: Path) -> None:
    call(
        tmp_path,
        *(*JOB, "--max_restarts", "1", *RUN, "--job", "J", "train.py"),
        end="raise ValueError",
    )
    job = merged(tmp_path)
    assert job["restarts"] == 1
    assert job["answer"] == (
        "no leak in 2 of 2 ranks; an attempt before a restart leaked, too"
    )
    (found,) = job["findings_before_restart"]
    assert found["ranks"] == [1]


SHARED = """\
import os, sys, torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import (
    PipelineStage, Schedule1F1B, ScheduleGPipe)
from torch.distributed.tensor import parallel as p

dist.init_process_group("gloo")
rank, size, kind = dist.get_rank(), dist.get_world_size(), sys.argv[1]
leaks = "leak" in sys.argv and rank == size - 1
kept = []

def block():
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

def in_parallel(mesh):
    for part in net:
        p.parallelize_module(
            part, mesh, {"0": p.ColwiseParallel(), "2": p.RowwiseParallel()})

def sharded(mesh):
    for part in (*net, net):
        fully_shard(part, mesh=mesh)

net = torch.nn.Sequential(*(block() for _ in range(size)))
schedule = None
if kind == "fsdp":
    sharded(init_device_mesh("cpu", (size,)))
elif kind == "tensors":
    in_parallel(init_device_mesh("cpu", (size,)))
elif kind == "both":
    mesh = init_device_mesh(
        "cpu", (2, size // 2), mesh_dim_names=("data", "tensors"))
    in_parallel(mesh["tensors"])
    sharded(mesh["data"])
elif kind in ("ddp", "hook"):
    net = torch.nn.parallel.DistributedDataParallel(net)
else:
    net = net[rank]
    stage = PipelineStage(net, rank, size, torch.device("cpu"))
    plan = ScheduleGPipe if kind == "gpipe" else Schedule1F1B
    schedule = plan(
        stage, size, loss_fn=lambda out, y: (out - y).pow(2).mean())
if kind == "hook":
    def hook(state, bucket):
        if leaks:
            kept.append(bucket.buffer().clone())
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])
    net.register_comm_hook(None, hook)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
for step in range(60):
    optimizer.zero_grad()
    if schedule is None:
        net(torch.ones(4, 8)).sum().backward()
    else:
        given = [] if rank else [torch.ones(8, 8)]
        last = {"target": torch.ones(8, 8), "losses": []}
        schedule.step(*given, **(last if rank == size - 1 else {}))
    optimizer.step()
    if leaks and kind != "hook":
        kept.append(torch.zeros(1000))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("leaky", [True, False])
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *(("fsdp", 2), ("tensors", 2), ("hook", 2), ("gpipe", 2)),
        *(("ddp", 4), ("fsdp", 4), ("tensors", 4), ("both", 4), ("1f1b", 4)),
    ],
)
def test_what_ranks_share_is_no_leak(
    tmp_path: Path, kind: str, size: int, leaky: bool
) -> None:
    """Shards, gathered parameters, buckets and stages of a pipeline."""
    (tmp_path / "shared.py").write_text(SHARED)
    words = [kind, "leak"] if leaky else [kind]
    done = call(
        tmp_path,
        *(*RUN, "--job", "J", "torchrun", "--standalone"),
        *("--nproc_per_node", str(size), "shared.py", *words),
    )
    assert done.returncode == 0, done.stderr
    job = merged(tmp_path)
    last = size - 1
    expected = f"no leak in {size} of {size} ranks"
    if leaky:
        expected = f"rank {last} of {size} leaks"
    assert job["answer"].startswith(expected)
    assert [f["ranks"] for f in job["findings"]] == [[last]] * leaky


ALONE = """\
import sys, torch
layer = torch.nn.Linear(2, 2)
for _ in range(40):
    layer(torch.ones(1, 2))
"""


@pytest.mark.slow
def test_we_start_accelerate(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    leaky = ALONE.replace("import sys, torch", "import torch\nkept = []")
    (tmp_path / "train.py").write_text(
        leaky + "    kept.append(torch.zeros(1000))\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, *RUN, "--job", "J", "accelerate", "launch"),
            *("--cpu", "--num_processes", "1", "--num_machines", "1"),
            *("--mixed_precision", "no", "--dynamo_backend", "no"),
            "train.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "ImpactArbiter, job: the process " in done.stderr
    (process,) = merged(tmp_path)["processes"]
    assert (process["state"], process["steps"]) == ("finished", 40)


ACCELERATED = """\
import sys, torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(240, 8), batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
kept = []
for x in loader:
    optimizer.zero_grad()
    accelerator.backward(model(x).sum())
    optimizer.step()
    if accelerator.process_index == 1 and "leak" in sys.argv:
        kept.append(torch.zeros(1000))
accelerator.end_training()
"""


@pytest.mark.slow
@pytest.mark.parametrize("leaky", [True, False])
def test_accelerate_with_several_processes(
    tmp_path: Path, leaky: bool
) -> None:
    """On CPUs: --multi_gpu is what has Accelerate start more than one."""
    pytest.importorskip("accelerate")
    (tmp_path / "accelerated.py").write_text(ACCELERATED)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [
            *(sys.executable, *RUN, "--job", "J", "accelerate", "launch"),
            *("--multi_gpu", "--num_processes", "2", "--num_machines", "1"),
            *("--mixed_precision", "no", "--dynamo_backend", "no"),
            *("accelerated.py", *["leak"] * leaky),
        ],
        cwd=tmp_path,
        env={**environment, "ACCELERATE_USE_CPU": "true"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    answer = "rank 1 of 2 leaks" if leaky else "no leak in 2 of 2 ranks"
    assert merged(tmp_path)["answer"].startswith(answer)
    assert f"ImpactArbiter, job: {answer}" in done.stderr


def test_rank_0_speaks_for_the_job(tmp_path: Path) -> None:
    """Its own report is no answer where another rank leaks."""
    (tmp_path / "train.py").write_text(ALONE)
    leaky = ALONE.replace("import sys, torch", "import torch\nkept = []")
    leaky += "    kept.append(torch.zeros(1000))\n"
    (tmp_path / "leaky.py").write_text(leaky)
    said = {}
    for rank, program in ((1, "leaky.py"), (0, "train.py")):
        done = warm.run(
            [*RUN, "--job", "J", program],
            cwd=tmp_path,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        assert done.returncode == 0, done.stderr
        said[rank] = done.stderr
    assert "ImpactArbiter: no leak in 40 steps" in said[0]
    assert "ImpactArbiter, job so far: rank 1 of 2 " in said[0]
    assert "job so far" not in said[1]


def test_an_enabled_environment_follows_the_variable(tmp_path: Path) -> None:
    """A job whose command nobody can change: plain Python, one variable."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / startup_file.NAME).write_text(startup_file.text())
    program = f"import site\nsite.addsitedir({str(tmp_path / 'site')!r})\n"
    (tmp_path / "train.py").write_text(program + ALONE)
    for number, job in enumerate(("", "J")):
        done = subprocess.run(
            [sys.executable, "-P", "train.py"],
            cwd=tmp_path,
            env={**os.environ, "IMPACTARBITER_JOB": job},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and not done.stderr
        assert (tmp_path / "J").is_dir() == bool(number)
    (process,) = merged(tmp_path)["processes"]
    assert (process["role"], process["steps"]) == ("train", 40)
    assert process["state"] == "finished"
