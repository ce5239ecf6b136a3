"""A job's files, and the one answer that they are merged into."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm

import impactarbiter
from impactarbiter.base.ranks import JOB, LED, host_name, place
from impactarbiter.base.spans import named, spans
from impactarbiter.commands import main
from impactarbiter.commands.family import family_of
from impactarbiter.model.finding import Finding, GraphCost, Holder, Site
from impactarbiter.model.process import Process
from impactarbiter.model.report import History, Report
from impactarbiter.reports.job import files_of, read_job
from impactarbiter.reports.job_dict import job_to_dict
from impactarbiter.reports.job_words import (
    finding_facts,
    job_lines,
    sentence,
)
from impactarbiter.watching.job_file import JobFile, this_process

KIB, MIB = 1 << 10, 1 << 20


def leak(rate: float = MIB, first: int = 4, **more: Any) -> Finding:
    values: dict[str, Any] = {
        "verdict": "leak",
        "severity": "warning",
        "allocated_at": Site("/home/me/data.py", 88, "fetch"),
        "holder": Holder("__main__.kept", "list"),
        "bytes_per_step": rate,
        "first_step": first,
        "advice": "bound it",
    }
    return Finding(**{**values, **more})


def put(folder: Path, *findings: Finding, steps: int = 50, **who: Any) -> Path:
    """One process's file; it has ended unless ``end`` is None."""
    process = Process(
        **{
            "rank": 0,
            "world_size": 4,
            "host": "node1",
            "pid": 100 + len(list(folder.iterdir())),
            "begin": 1000.0,
            "seen": 2000.0,
            "end": 2000.0,
            "ended": "finished",
            **who,
        }
    )
    report = Report(
        findings=findings,
        steps=steps,
        live_bytes=MIB,
        process=process,
        history=History((1, 2, 3), (KIB, 2 * KIB, MIB)),
    )
    path = folder / process.file_name
    report.to_json(path)
    return path


def answer(folder: Path) -> str:
    return sentence(read_job(files_of(str(folder))))


def test_the_answer_for_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks that leak, one that never came, one that ended without a word."""
    for rank in range(12):
        found = [leak(2 * MIB, 9), leak(3 * MIB, 5)][rank == 10 :][:1]
        if rank == 11:
            continue
        put(
            tmp_path,
            *(found if rank in (2, 10) else ()),
            rank=rank,
            world_size=12,
            **({"end": None, "ended": None} if rank == 4 else {}),
        )
    assert main(["merge", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    first = " ".join(out.split("\n\n")[0].split())
    assert first == (
        "ImpactArbiter: rank 2 and 10 of 12 leak 2.5 MiB a step at"
        " data.py:88; rank 11 left no report (killed?); rank 4 left no last"
        " report (killed?)"
    )
    assert "WARNING leak: __main__.kept" in out
    assert "most on rank 10: 3.0 MiB" in out
    assert "since       step 5, first on rank 10" in out


@pytest.mark.parametrize(
    ("ranks", "size", "said"),
    [
        ({3}, 64, "rank 3 of 64 leaks"),
        (set(range(64)), 64, "all 64 ranks leak"),
        (set(range(64)) - {7}, 64, "ranks 0-6,8-63 of 64 leak"),
        (set(range(0, 512, 2)), 512, "… (256 in all) of 512 leak"),
    ],
)
def test_ranks_are_ranges(
    tmp_path: Path, ranks: set[int], size: int, said: str
) -> None:
    for rank in range(size):
        found = [leak()] if rank in ranks else []
        put(tmp_path, *found, rank=rank, world_size=size)
    job = read_job(files_of(str(tmp_path)))
    assert said in sentence(job)
    rows = ["".join(text for text, _ in row) for row in job_lines(job)]
    assert max(map(len, rows)) <= 80
    group = job_to_dict(job)["findings"][0]
    assert group["ranks"] == sorted(ranks)
    assert group["worst"]["holder"]["expression"] == "__main__.kept"


def test_who_works_for_a_rank_is_named_with_it(tmp_path: Path) -> None:
    for rank in range(2):
        put(tmp_path, rank=rank, world_size=2)
        for worker in range(4):
            found = [leak()] if rank == 1 and worker > 1 else []
            put(
                tmp_path,
                *found,
                role="dataloader",
                rank=rank,
                worker=worker,
                owns_rank=False,
                world_size=2,
            )
    assert answer(tmp_path) == (
        "DataLoader worker 2 and 3 of rank 1 leak 1.0 MiB a batch at"
        " data.py:88"
    )
    job = job_to_dict(read_job(files_of(str(tmp_path))))
    order = [(p["rank"], p["worker"]) for p in job["processes"]]
    expected = [(r, w) for r in range(2) for w in (None, 0, 1, 2, 3)]
    assert order == expected


def test_a_restart_does_not_hide_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        put(tmp_path, *([leak()] * rank), rank=rank, world_size=2)
        put(tmp_path, rank=rank, world_size=2, restart=1)
    assert answer(tmp_path) == (
        "no leak in 2 of 2 ranks; an attempt before a restart leaked, too"
    )
    assert main(["merge", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "before a restart:" in out
    assert "attempt 1, rank 1 of 2 leaks 1.0 MiB a step" in out


def test_a_process_of_the_same_rank_that_came_later(tmp_path: Path) -> None:
    """A container that is started again has no count of its restarts."""
    put(tmp_path, leak(), rank=0, world_size=1)
    put(tmp_path, rank=0, world_size=1, begin=3000.0, seen=4000.0)
    assert "an attempt before a restart leaked" in answer(tmp_path)


def test_graph_nodes_count(tmp_path: Path) -> None:
    put(tmp_path, leak(0, graph_bytes_per_step=4.6 * KIB), world_size=1)
    assert "leaks 4.6 KiB a step" in answer(tmp_path)


def test_the_nodes_that_are_kept_are_told(tmp_path: Path) -> None:
    graph = GraphCost(9, 0, 0, (), node_bytes=3 * KIB)
    for rank in range(2):
        found = leak(0, graph=graph, retained_bytes=156)
        put(tmp_path, found, rank=rank, world_size=2)
    job = read_job(files_of(str(tmp_path)))
    rows = ["".join(text for text, _ in row) for row in job_lines(job)]
    said = "312 B of tensors and 6.0 KiB of autograd nodes in all"
    assert f"  retained    {said}" in rows
    (group,) = job_to_dict(job)["findings"]
    assert group["retained_node_bytes"] == 6 * KIB


def test_children_of_a_process_as_a_job(tmp_path: Path) -> None:
    """Among others', each of its figures goes with its own process."""
    graph = GraphCost(9, 0, 0, (), node_bytes=3 * KIB)
    for rank in range(3):
        put(tmp_path, leak(MIB, graph=graph), rank=rank, parent=1)
    mine = {"host": host_name(), "parent": 7, "rank": 1, "owns_rank": False}
    put(tmp_path, leak(2 * MIB, 9, graph=graph), role="spawned", **mine)
    below = read_job(files_of(str(tmp_path))).below(7)
    (group,) = below.findings()
    facts = dict(finding_facts(below, group))
    assert facts["growth"] == "2.0 MiB a step"
    assert (
        facts["retained"]
        == "0 B of tensors and 3.0 KiB of autograd nodes in all"
    )
    assert facts["since"] == "step 9"


def test_bounded_growth_is_no_leak(tmp_path: Path) -> None:
    put(tmp_path, leak(verdict="cache"), world_size=1)
    assert answer(tmp_path).startswith("no leak")
    assert main(["merge", str(tmp_path), "--fail-on", "info"]) == 0


def test_what_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = put(tmp_path, leak(), world_size=1)
    half = whole.read_bytes()[: whole.stat().st_size // 2]
    (tmp_path / "half.json").write_bytes(half)
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "later.json").write_text('{"schema": "impactarbiter/9"}')
    (tmp_path / "notes.txt").write_text("not ours")
    assert main(["merge", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for name in ("half", "other", "list", "later"):
        assert f"skipped {name}.json: " in out
    assert "notes" not in out
    assert "rank 0 of 1 leaks" in out


def test_a_pipe_in_the_folder_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Nobody may ever write into it: not `merge`, nor a program at its end."""
    folder, script = tmp_path / "job", tmp_path / "prog.py"
    folder.mkdir()
    put(folder, leak(), world_size=1)
    os.mkfifo(folder / "pipe.json")
    call = ["-m", "impactarbiter"]
    merged = warm.run([*call, "merge", "job"], cwd=tmp_path, timeout=30)
    assert merged.returncode == 0, merged.stderr
    assert "skipped pipe.json: no regular file" in merged.stdout
    assert "rank 0 of 1 leaks" in merged.stdout
    script.write_text(
        "import os\n"
        "folder = os.environ['IMPACTARBITER_CHILDREN']\n"
        "os.makedirs(folder)\n"
        "os.mkfifo(folder + '/pipe.json')\n"
        "print('done')\n"
    )
    done = warm.run([*call, "run", "prog.py"], cwd=tmp_path, timeout=30)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_pipe_that_is_named_is_read(tmp_path: Path) -> None:
    """As of `merge <(zcat rank0.json.gz) rank1.json`."""
    file, pipe = put(tmp_path, leak(), rank=1), tmp_path / "pipe"
    whole = put(tmp_path, rank=0).read_bytes()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(whole,))
    writer.start()
    assert main(["merge", str(pipe), str(file)]) == 0
    writer.join()


def test_merge_for_programs_and_gates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = tmp_path / "job", tmp_path / "job.html"
    folder.mkdir()
    hostile = leak(holder=Holder("<script>\x1b[31m", "list"))
    put(folder, hostile, rank=1, world_size=2)
    put(folder, rank=0, world_size=2)
    call = ["merge", str(folder)]
    assert main([*call, "--fail-on", "critical"]) == 0
    assert main([*call, "--fail-on", "warning", "--html", str(page)]) == 3
    capsys.readouterr()
    assert main([*call, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "impactarbiter-job/1"
    assert data["answer"].startswith("rank 1 of 2 leaks 1.0 MiB")
    text = page.read_text()
    assert text.count("<polyline") == 2
    assert "<script>" not in text and "\x1b" not in text
    assert "<dt>ended</dt><dd>2 finished</dd>" in text
    assert "refresh" not in text and "Before a restart" not in text


def test_the_page_of_a_job_that_runs(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It loads itself again until all have ended; it may be asked for before
    the job has begun, and tells of attempts before a restart."""
    folder, page = tmp_path / "job", tmp_path / "job.html"
    shown = []

    def time_passes(_seconds: float) -> None:
        if not folder.exists():
            folder.mkdir()
            put(folder, leak(), ended="ValueError", world_size=2)
            runs = {"end": None, "ended": None, "seen": time.time()}
            put(folder, restart=1, begin=3000.0, world_size=2, **runs)
            return
        shown.append(page.read_text())
        for path in folder.iterdir():
            path.unlink()
        put(folder, restart=1, world_size=1)

    monkeypatch.setattr("time.sleep", time_passes)
    assert main(["merge", str(folder), "--watch", "--html", str(page)]) == 0
    (during,) = shown
    assert '<meta http-equiv="refresh" content="5">' in during
    assert "<p>attempt 1, rank 0 of 2 leaks 1.0 MiB a step" in during
    assert "rank 1 wrote nothing so far" in during
    assert "refresh" not in page.read_text()
    said = capsys.readouterr()
    assert "waiting for the folder" in said.err
    assert "killed" not in said.out


def test_a_healthy_process_goes_on_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that finds nothing has no look to make, and whoever reads
    its file wants to know how far it is."""
    for name in ("watching.looks", "watching.job_file"):
        monkeypatch.setattr(f"impactarbiter.{name}.REFRESH", 0.02)
    monkeypatch.setattr("impactarbiter.watching.job_file.SHARE", 1e9)
    arbiter = impactarbiter.watch(step="manual")
    arbiter.join(str(tmp_path), this_process())
    for _ in range(5):
        time.sleep(0.03)
        arbiter.step()
    (path,) = tmp_path.iterdir()
    assert Report.load(path).steps == 5
    arbiter.stop()


def test_watch_ends_with_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, world_size=1)
    assert main(["merge", str(tmp_path), "--watch"]) == 0
    assert capsys.readouterr().out.count("ImpactArbiter: ") == 1


def test_merge_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what was expected, and a gate does not pass."""
    (tmp_path / "notes.txt").write_text("not ours")
    assert main(["merge", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("impactarbiter: there is no report in ")
    assert "expected the folder that `run --job`" in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert main(["merge", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "other.json").write_text('{"a": 1}')
    assert main(["merge", str(tmp_path), "--fail-on", "info"]) == 2
    said = capsys.readouterr()
    assert "skipped other.json: is no report" in said.out
    assert said.err.startswith("impactarbiter: no report is among 1 file")


def test_where_no_last_report_could_be_made_a_gate_does_not_pass(
    tmp_path: Path,
) -> None:
    made = put(tmp_path, world_size=1)
    replace(Report.load(made), complete=False).to_json(made)
    assert answer(tmp_path) == "rank 0 could make no last report"
    gated = ["merge", str(tmp_path), "--fail-on", "info"]
    assert main(gated) == 4
    put(tmp_path, rank=1, world_size=2)
    assert answer(tmp_path).startswith("no leak in 2 of 2 ranks; rank 0 could")
    assert main(gated) == 4
    put(tmp_path, leak(), rank=2, world_size=3)
    assert main(gated) == 3


def test_many_files_in_little_memory(tmp_path: Path) -> None:
    """A finding that all have is kept once, and no history."""
    frames = tuple(Site(f"/home/me/{n}.py", n, "f") for n in range(100))
    for rank in range(120):
        path = put(tmp_path, leak(stack=frames), rank=rank, world_size=120)
    files = files_of(str(tmp_path))

    def peak(number: int) -> int:
        tracemalloc.start()
        read_job(files[:number])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1)
    assert (peak(120) - peak(20)) / 100 < path.stat().st_size / 4


def test_words_for_numbers() -> None:
    assert spans([10, 2, 3, 4, 0]) == "0,2-4,10"
    assert spans(range(0, 20, 2)) == "0,2,4,6,8,10,… (10 in all)"
    assert named("rank", [1]) == "rank 1"
    assert named("rank", [5, 1, 2]) == "rank 1, 2 and 5"
    assert named("rank", range(5)) == "ranks 0-4"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, (None, None)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}, (3, 8)),
        (
            {
                "SLURM_PROCID": "0",
                "SLURM_STEP_NUM_TASKS": "2",
                "RANK": "5",
                "WORLD_SIZE": "16",
            },
            (5, 16),
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
    ],
)
def test_launchers_that_say_the_rank(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    expected: tuple[int | None, int | None],
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert place()[:2] == expected


# -- one process's file -------------------------------------------------------


def test_a_file_is_written_when_something_changed(tmp_path: Path) -> None:
    now = Report(steps=3)
    file = JobFile(str(tmp_path), this_process(), lambda: now)
    file.begin(lambda: None)
    (path,) = tmp_path.iterdir()
    assert Report.load(path).steps == 0
    file.looked()
    assert Report.load(path).steps == 3
    now = Report(steps=4)
    file.looked()
    assert Report.load(path).steps == 3
    now = replace(now, findings=(leak(),))
    file.looked()
    assert Report.load(path).steps == 4
    file.ending = "exit 3"
    said = file.stopped(now).process
    assert said is not None and said.ended == "exit 3"
    assert Report.load(path).process == said
    now = Report(steps=9)
    file.looked()
    assert Report.load(path).steps == 4


def test_a_file_goes_by_what_its_process_turned_out_to_be(
    tmp_path: Path,
) -> None:
    file = JobFile(str(tmp_path), this_process(), Report)
    file.begin(lambda: None)
    file.serves()
    file.stopped(Report())
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("server-")


def test_runs_that_were_too_short(tmp_path: Path) -> None:
    """Silence proves nothing; who only starts others is not meant."""
    put(tmp_path, rank=None, world_size=None, steps=0)
    put(tmp_path, rank=0, world_size=1, steps=0)
    short = read_job(files_of(str(tmp_path)))
    assert sentence(short) == "too few steps to tell"
    put(tmp_path, rank=1, world_size=3, steps=1)
    put(tmp_path, rank=2, world_size=3, steps=50)
    for path in tmp_path.iterdir():
        report = Report.load(path)
        replace(report, needed_steps=10).to_json(path)
    said = answer(tmp_path)
    assert said == "no leak in 3 of 3 ranks; rank 1 saw too few steps to tell"
    broken = put(tmp_path, rank=0, world_size=3, begin=1500.0, steps=0)
    replace(Report.load(broken), complete=False).to_json(broken)
    said = answer(tmp_path)
    assert said.endswith("; rank 0 could make no last report")


def test_a_folder_that_refuses_hurts_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "job")
    file = JobFile(folder, this_process(), Report)
    file.begin(lambda: None)
    file.looked()
    assert file.stopped(Report(steps=1)).steps == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "nothing is written for the job" in err


def test_a_role_of_a_later_version_is_named_and_skipped(
    tmp_path: Path,
) -> None:
    put(tmp_path, rank=0, world_size=1)
    put(tmp_path, rank=0, world_size=1, role="conductor")
    job = read_job(files_of(str(tmp_path)))
    assert [m.process.role for m in job.members] == ["train"]
    ((name, reason),) = job.skipped
    assert name.startswith("conductor-0") and "role 'conductor'" in reason
    assert "skipped conductor-0" in str(job_lines(job))


def test_a_rank_reads_its_own_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of ranks that read thousands of files would be too many;
    rank 0 alone has a word for all, unless a launcher has."""
    monkeypatch.setenv(JOB, str(tmp_path))
    for rank in range(4):
        here = {"host": host_name()} if rank == 1 else {}
        put(tmp_path, rank=rank, world_size=4, parent=os.getpid(), **here)

    def seen(rank: int) -> int:
        family = family_of(str(tmp_path), rank)
        assert family.job is not None and family.children is not None
        assert [m.process.rank for m in family.children.members] == [1]
        return len(family.job.members)

    assert (seen(0), seen(1)) == (4, 1)
    monkeypatch.setenv(LED, "1")
    assert seen(0) == 1


def test_where_a_process_still_runs(tmp_path: Path) -> None:
    here = {"host": socket.gethostname(), "end": None, "ended": None}
    put(tmp_path, rank=0, world_size=2, pid=os.getpid(), **here)
    put(tmp_path, rank=1, world_size=2, pid=(1 << 22) + 1, **here)
    job = read_job(files_of(str(tmp_path)))
    states = {m.process.rank: job.state(n) for n, m in enumerate(job.members)}
    # That process is younger than its file: another of the same number.
    assert states == {0: "lost", 1: "lost"}
    put(tmp_path, rank=0, pid=os.getpid(), **{**here, "seen": 9e9})
    assert not read_job(files_of(str(tmp_path))).is_over()


PROGRAM = """\
import os, sys, torch
kept = []
for step in range(40):
    kept.append(torch.zeros(1000))
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
    if step == 25: assert len(os.listdir(os.environ["IMPACTARBITER_JOB"])) == 1
{end}
"""


@pytest.mark.parametrize(
    ("end", "code", "ended"),
    [
        ("", 0, "finished"),
        ("sys.exit(3)", 3, "exit 3"),
        ("raise ValueError", 1, "ValueError"),
        ("os.kill(os.getpid(), 15)", -signal.SIGTERM, "SIGTERM"),
        ("os._exit(4)", 4, None),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL, None),
    ],
)
def test_how_a_process_ended(
    tmp_path: Path, end: str, code: int, ended: str | None
) -> None:
    """Whatever ended it, the leak that its looks found is in its file."""
    (tmp_path / "train.py").write_text(PROGRAM.format(end=end))
    done = warm.run(
        ["-m", "impactarbiter", "run", "-q", "--job", "J", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "RANK": "1", "WORLD_SIZE": "2"},
    )
    assert done.returncode == code, done.stderr
    (path,) = (tmp_path / "J").iterdir()
    report = Report.load(path)
    process = report.process
    assert process is not None
    assert path.name == f"train-1.{process.host}-{process.pid}.0.json"
    assert (process.rank, process.world_size) == (1, 2)
    assert process.ended == ended
    assert (process.end is None) == (ended is None)
    assert [f.site.line for f in report.findings] == [4]
