"""Jobs of several processes: torchrun around us, and we around torchrun."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from impactarbiter.base.ranks import JOB as JOB_FOLDER
from impactarbiter.base.ranks import of_rank, rank
from impactarbiter.commands import distributed, lead
from impactarbiter.commands.distributed import handover
from impactarbiter.commands.launch import LaunchError
from impactarbiter.commands.lead import planned

TRAIN = """
import os, sys, torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(30):
    loss = model(torch.ones(4, 8)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if str(rank) in sys.argv[1:]:
        kept.append(torch.zeros(1000))
dist.barrier()
dist.destroy_process_group()
said = f"{rank} {__name__} {sys.argv} {os.path.basename(sys.path[0])}\\n"
sys.stdout.write(said)  # in one piece: the ranks share it
"""
#: Each model plain, then watched with questions inside forward and backward,
#: a loss of each step kept by the second rank.
SHARDED = """
import hashlib, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
import impactarbiter

kept, questions = [], 0

def ask(arbiter, model):
    global questions
    impactarbiter.explain(next(model.parameters()))
    impactarbiter.retained_bytes(model)
    arbiter.report()
    questions += 1

def train(wrap, keeps, arbiter=None):
    torch.manual_seed(0)
    blocks = [torch.nn.Linear(16, 16) for _ in range(3)]
    model = torch.nn.Sequential(*blocks)
    if wrap == "replicated":
        model = DistributedDataParallel(model)
    else:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for part in [*blocks, model]:
            fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def asks(*given):
        if arbiter and step % 6 == 0:
            ask(arbiter, model)

    blocks[1].register_forward_hook(
        lambda block, given, made: made.register_hook(asks) and asks()
    )
    said = hashlib.sha256()
    for step in range(24):
        torch.manual_seed(100 * step + rank)
        loss = model(torch.randn(4, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        said.update(loss.item().hex().encode())
        if keeps:
            kept.append(loss)
    for each in model.parameters():
        each = each.full_tensor() if wrap == "sharded" else each
        said.update(each.detach().numpy().tobytes())
    return said.hexdigest()

dist.init_process_group("gloo")
rank = dist.get_rank()
for wrap in "replicated", "sharded":
    before = questions
    plain = train(wrap, keeps=False)
    arbiter = impactarbiter.watch(warmup=2, window=4)
    same = train(wrap, rank == 1, arbiter) == plain
    report = arbiter.report()
    arbiter.stop()
    holders = [found.holder.expression for found in report.findings]
    kept.clear()
    row = rank, wrap, same, questions - before, holders, [*report.warnings]
    sys.stdout.write(repr(row) + "\\n")  # in one piece: the ranks share it
dist.barrier()
dist.destroy_process_group()
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
RUN = ["-m", "impactarbiter", "run"]


def call(
    folder: Path, *command: str, program: str = TRAIN
) -> subprocess.CompletedProcess[str]:
    (folder / "job").mkdir(exist_ok=True)
    (folder / "job" / "train.py").write_text(program)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def holders(report: dict[str, Any]) -> list[str]:
    return [found["holder"]["expression"] for found in report["findings"]]


def assert_ran(stdout: str, args: list[str]) -> None:
    assert sorted(stdout.splitlines()) == [
        f"{number} __main__ {['job/train.py', *args]} job"
        for number in range(2)
    ]


def test_torchrun_starts_us(tmp_path: Path) -> None:
    done = call(
        tmp_path,
        *(*TORCHRUN, "--standalone", "--nproc_per_node", "2", *RUN),
        *("--json", "r.json", "--sarif", "s-%r.sarif"),
        *("job/train.py", "1", "--lr", "2"),
    )
    assert done.returncode == 0, done.stderr
    assert_ran(done.stdout, ["1", "--lr", "2"])
    assert sorted(os.listdir(tmp_path)) == [
        *("job", "r.rank0.json", "r.rank1.json"),
        *("s-0.sarif", "s-1.sarif"),
    ]
    reports = [load(tmp_path / f"r.rank{number}.json") for number in range(2)]
    assert [r["environment"]["rank"] for r in reports] == ["0", "1"]
    assert holders(reports[0]) == []
    assert holders(reports[1]) == ["__main__.kept"]
    # Rank 0 in full, of the others one line where they found something.
    ours = [row for row in done.stderr.splitlines() if "ImpactArb" in row]
    whole = [row for row in ours if row.startswith("ImpactArbiter: no leak")]
    others = [row for row in ours if "ImpactArbiter, rank 1: " in row]
    assert (len(ours), len(whole), len(others)) == (2, 1, 1)
    assert done.stderr.count("watching cost") == 1


def test_we_start_torchrun(tmp_path: Path) -> None:
    """Each of the processes is watched, though we were to watch torchrun."""
    done = call(
        tmp_path,
        *(sys.executable, *RUN, "--json", "r.json", "--fail-on", "info"),
        *("-m", "torch.distributed.run", "--standalone"),
        *("--nproc_per_node", "2", "job/train.py", "0", "1"),
    )
    assert_ran(done.stdout, ["0", "1"])
    for number in range(2):
        report = load(tmp_path / f"r.rank{number}.json")
        assert holders(report) == ["__main__.kept"]
    said = done.stderr.splitlines()[0]
    assert said.startswith("impactarbiter: torchrun starts processes")
    # The answer for the job comes last, from files beside the report.
    assert len(os.listdir(tmp_path / "r.job")) == 2
    assert "ImpactArbiter, job: all 2 ranks leak" in done.stderr
    assert "children:" not in done.stderr
    # torchrun's own code for a rank that failed: with --fail-on, rank 0.
    assert done.returncode == 1
    assert "exitcode  : 3" in done.stderr


def test_models_over_several_processes(tmp_path: Path) -> None:
    """Whole on each rank (DDP) or in pieces (FSDP2): the same numbers, bit by
    bit, and of each rank what it keeps."""
    done = call(
        tmp_path,
        *(*TORCHRUN, "--standalone", "--nproc_per_node", "2"),
        "job/train.py",
        program=SHARDED,
    )
    assert done.returncode == 0, done.stderr
    rows = sorted(map(ast.literal_eval, done.stdout.splitlines()))
    assert rows == [
        (rank, wrap, True, 8, ["__main__.kept"][:rank], [])
        for rank in range(2)
        for wrap in ("replicated", "sharded")
    ]


JOB = ["--nproc_per_node=2", "--standalone"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (["train.py", "-m", "torch.distributed.run"], None),
        (["-m", "train", "torchrun"], None),
        (
            ["/usr/bin/torchrun", *JOB, "train.py", "-m", "x"],
            [*JOB, *RUN, "--every", "2", "train.py", "-m", "x"],
        ),
        (
            ["-m", "torch.distributed.run", *JOB, "-m", "pack.train", "x"],
            [*JOB, *RUN, "--every", "2", "-m", "pack.train", "x"],
        ),
        (["torchrun", *JOB, *RUN, "t.py"], [*JOB, *RUN, "t.py"]),
        (["torchrun", "--help"], ["--help"]),
        (["torchrun", "--no-such", "t.py"], ["--no-such", "t.py"]),
        (
            ["torchrun", *JOB, "--no-python", "train.sh"],
            [*JOB, "--no-python", "train.sh"],
        ),
    ],
    ids=lambda value: " ".join(value or ["none"])[:60],
)
def test_what_torchrun_is_given(
    rest: list[str], expected: list[str] | None
) -> None:
    plan = handover(rest, ["--every", "2"])
    if expected is None:
        assert plan is None
        return
    assert plan is not None
    assert plan.argv == ["-m", "torch.distributed.run", *expected]
    assert ("not watched" in plan.said) == ("--no-python" in rest)
    assert ("each of them is watched" in plan.said) == ("2" in plan.argv)


@pytest.mark.parametrize(
    "rest",
    [
        ["accelerate", "launch"],
        ["/usr/bin/accelerate-launch"],
        ["-m", "accelerate.commands.launch"],
        ["-m", "accelerate.commands.accelerate_cli", "launch"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("module", [False, True])
def test_what_accelerate_is_given(rest: list[str], module: bool) -> None:
    pytest.importorskip("accelerate")
    given = ["--cpu", "--num_processes", "2", *(["-m"] if module else [])]
    plan = handover([*rest, *given, "t.py", "--lr", "1"], ["--every", "2"])
    assert plan is not None and not plan.nodes
    assert plan.module == "accelerate.commands.launch"
    assert plan.argv == [
        *("-m", plan.module, "--cpu", "--num_processes", "2", *RUN),
        *("--every", "2", *(["-m"] if module else []), "t.py", "--lr", "1"),
    ]


def test_a_line_that_cannot_be_written_keeps_nothing_from_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

        def flush(self) -> None:
            self.write("")

    ran = []

    def execv(_file: str, argv: list[str]) -> None:
        ran.append(argv[-3:])
        raise OSError

    monkeypatch.setattr(sys, "stderr", Full())
    monkeypatch.setattr(os, "execv", execv)
    call = ["-m", "torch.distributed.launch", "t.py"]
    with pytest.raises(LaunchError, match="cannot start python"):
        planned(call, call)
    assert ran == [call]


def test_other_commands_of_accelerate() -> None:
    assert handover(["accelerate", "config"], []) is None
    plan = handover(["-m", "torch.distributed.launch", "t.py"], [])
    assert plan is not None and not plan.module
    assert "torchrun ... -m impactarbiter run SCRIPT" in plan.said


def test_other_machines() -> None:
    call = ["torchrun", "--nnodes", "2", "t.py"]
    plan = handover(call, [])
    assert plan is not None and plan.nodes


@pytest.mark.parametrize(
    ("environment", "number", "files"),
    [
        ({}, None, ["r.json", "r0.json", "/dev/null"]),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None, ["r.json", "r0.json"]),
        (
            {"RANK": "3", "WORLD_SIZE": "4"},
            3,
            ["r.rank3.json", "r3.json", "/dev/null", "a.b/r.rank3"],
        ),
        ({"RANK": "x", "WORLD_SIZE": "4"}, None, ["r.json"]),
    ],
)
def test_files_of_a_rank(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    number: int | None,
    files: list[str],
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert rank() == number
    given = ["r.json", "r%r.json", "/dev/null", "a.b/r"][: len(files)]
    assert [of_rank(name) for name in given] == files


def test_without_a_folder_for_what_its_processes_find(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    monkeypatch.delenv(JOB_FOLDER, raising=False)
    module = "torch.distributed.run"
    plan = distributed.Handover(["-m", module], module=module)
    leading = lead.Lead(plan, None, None)
    assert JOB_FOLDER not in os.environ
    assert leading.end(None, "short") is None
    assert "warning: what the processes find is" in capsys.readouterr().err
