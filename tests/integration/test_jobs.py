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

dist.init_process_group("gloo")
rank, kind = dist.get_rank(), sys.argv[1]
leaks = "leak" in sys.argv and rank == 1
kept = []
mesh = init_device_mesh("cpu", (2,))
net = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
if kind == "fsdp":
    from torch.distributed.fsdp import fully_shard
    fully_shard(net[0], mesh=mesh)
    fully_shard(net, mesh=mesh)
elif kind == "tensors":
    from torch.distributed.tensor import parallel as p
    p.parallelize_module(
        net, mesh, {"0": p.ColwiseParallel(), "2": p.RowwiseParallel()})
elif kind == "hook":
    net = torch.nn.parallel.DistributedDataParallel(net)
    def hook(state, bucket):
        if leaks:
            kept.append(bucket.buffer().clone())
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])
    net.register_comm_hook(None, hook)
elif kind == "pipeline":
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    net = net[2:] if rank else net[:2]
    stage = PipelineStage(net, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(
        stage, 2, loss_fn=lambda out, y: (out - y).pow(2).mean())
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
for step in range(60):
    optimizer.zero_grad()
    if kind != "pipeline":
        net(torch.ones(4, 8)).sum().backward()
    elif rank:
        schedule.step(target=torch.ones(4, 8), losses=[])
    else:
        schedule.step(torch.ones(4, 8))
    optimizer.step()
    if leaks and kind != "hook":
        kept.append(torch.zeros(1000))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("leaky", [True, False])
@pytest.mark.parametrize("kind", ["fsdp", "tensors", "hook", "pipeline"])
def test_what_ranks_share_is_no_leak(
    tmp_path: Path, kind: str, leaky: bool
) -> None:
    """Shards, gathered parameters, buckets and stages of a pipeline."""
    (tmp_path / "shared.py").write_text(SHARED)
    words = [kind, "leak"] if leaky else [kind]
    done = call(
        tmp_path,
        *(*RUN, "--job", "J", "torchrun", "--standalone"),
        *("--nproc_per_node", "2", "shared.py", *words),
    )
    assert done.returncode == 0, done.stderr
    job = merged(tmp_path)
    expected = "rank 1 of 2 leaks" if leaky else "no leak in 2 of 2 ranks"
    assert job["answer"].startswith(expected)
    assert [f["ranks"] for f in job["findings"]] == [[1]] * leaky


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
