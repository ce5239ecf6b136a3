"""``report``, ``diff`` and ``merge`` on saved reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path as File

import pytest

from impactarbiter.commands import COMMANDS, main
from impactarbiter.model.finding import Finding, Holder, Site
from impactarbiter.model.report import Report

MIB = 1 << 20
#: More than Python reads as a number.
DIGITS = "9" * 5000


def saved(folder: File, name: str, *findings: Finding, rank: str = "") -> str:
    environment = {"rank": rank} if rank else {}
    made = Report(findings=findings, steps=50, environment=environment)
    made.to_json(folder / name)
    return str(folder / name)


def leak(
    holder: str = "__main__.store",
    rate: float = MIB,
    severity: str = "info",
    nodes: float = 0,
) -> Finding:
    return Finding(
        verdict="leak",
        severity=severity,
        allocated_at=Site("train.py", 3, "step"),
        holder=Holder(holder, "list"),
        bytes_per_step=rate,
        graph_bytes_per_step=nodes,
    )


@pytest.mark.parametrize(
    ("old", "new", "kind", "code"),
    [
        ([], [], "no findings in either run", 0),
        ([leak()], [leak()], "1 same", 0),
        ([leak()], [leak(rate=MIB * 1.04)], "1 same", 0),
        ([leak()], [leak(rate=MIB * 1.1)], "1 worse", 3),
        # A graph's nodes count as well.
        (
            [leak(rate=0, nodes=MIB)],
            [leak(rate=0, nodes=2 * MIB)],
            "1 worse",
            3,
        ),
        # A slower run of the same program is a less severe one.
        ([leak()], [leak(severity="warning")], "1 same", 0),
        ([leak(severity="warning")], [leak()], "1 same", 0),
        ([leak()], [leak(rate=MIB / 2)], "1 better", 0),
        ([leak()], [], "1 gone", 0),
        ([], [leak()], "1 new", 3),
        ([leak()], [leak("other.store")], "1 new, 1 gone", 3),
        ([leak(), leak()], [leak(rate=2 * MIB)], "1 same", 0),
    ],
)
def test_diff(
    tmp_path: File,
    capsys: pytest.CaptureFixture[str],
    old: list[Finding],
    new: list[Finding],
    kind: str,
    code: int,
) -> None:
    files = [saved(tmp_path, "a", *old), saved(tmp_path, "b", *new)]
    assert main(["diff", *files]) == 0
    assert f"ImpactArbiter diff: {kind}\n" in capsys.readouterr().out
    assert main(["diff", *files, "--fail-on-regression"]) == code


def test_merge(tmp_path: File, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        saved(tmp_path, "a", leak(), rank="4"),
        saved(tmp_path, "b", leak(rate=2 * MIB), leak("x"), rank="5"),
        saved(tmp_path, "c", rank="6"),
    ]
    assert main(["merge", *files]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "ImpactArbiter: rank 4 and 5 of 7 leak 1.5 MiB a step at train.py:3"
    )
    assert "ranks 0-3 left no report" in " ".join(out.split())
    # Which rank is which is told by their order where they do not say.
    assert main(["merge", files[0], files[0]]) == 0
    assert "all 2 ranks leak" in capsys.readouterr().out


def test_report(tmp_path: File, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path, "a", leak())
    page = tmp_path / "a.html"
    assert main(["report", file]) == 0
    assert capsys.readouterr().out == f"{Report.load(file)}\n"
    assert main(["report", file, "--html", str(page)]) == 0
    assert capsys.readouterr().out == ""
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["report", f"--sarif={tmp_path / 's'}", file, "--text"]) == 0
    assert capsys.readouterr().out and (tmp_path / "s").exists()


def test_a_report_comes_through_a_pipe(
    tmp_path: File, capsys: pytest.CaptureFixture[str]
) -> None:
    file, pipe = saved(tmp_path, "a", leak()), str(tmp_path / "pipe")
    os.mkfifo(pipe)
    data = File(file).read_bytes()
    write = File(pipe).write_bytes
    threading.Thread(target=write, args=(data,), daemon=True).start()
    assert main(["report", pipe]) == 0
    assert capsys.readouterr().out == f"{Report.load(file)}\n"


def test_what_is_read_is_not_written_over(
    tmp_path: File, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path, "a.json", leak())
    link = tmp_path / "link"
    link.symlink_to(file)
    before = File(file).read_text()
    for args in (
        ["report", file, "--html", file],
        ["report", file, "--json", str(link)],
        ["diff", file, file, "--html", file],
        ["merge", file, file, "--json", str(link)],
    ):
        assert main(args) == 2
        said = capsys.readouterr().err
        assert "which is to be read" in said and said.count("\n") == 1
    assert File(file).read_text() == before


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["rum"], "did you mean `impactarbiter run`?"),
        (["train.py"], "to watch a script: impactarbiter run train.py"),
        (["\x1b[31m"], r"unknown command '\x1b[31m'"),
        (["report"], "got 0 files"),
        (["report", "none.json"], "cannot read 'none.json'"),
        (["report", "x", "--htm", "y"], "did you mean --html?"),
        (["diff", "x"], "got 1 files"),
        (["merge"], "got 0 files"),
        (["merge", "x"], "there is no folder 'x'"),
        (["merge", __file__], "is a file: expected the folder of a job"),
        (["merge", "--fast"], "unknown option --fast of `merge`"),
        (["report", "/dev/zero"], "cannot read '/dev/zero': file too large"),
        (["run", "--dashboard", DIGITS, "x.py"], "is no port"),
        (["run", "--signal", DIGITS, "x.py"], "is no signal"),
        (["attach", DIGITS], "expected one process number"),
        (["monitor", DIGITS], "there is no process"),
        (["monitor", "--device", DIGITS], "is no GPU"),
    ],
)
def test_wrong_calls(
    capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    assert main(args) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.startswith("impactarbiter: ") and err.count("\n") == 1


def started(args: list[str], **streams: int) -> tuple[int, str]:
    """The exit code, and what was said on stderr."""
    done = subprocess.run(
        [sys.executable, "-P", *args],
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        **streams,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["completion", "bash"],
        ["report", "saved"],
    ],
)
def test_where_standard_output_is_full(
    tmp_path: File, args: list[str]
) -> None:
    file = saved(tmp_path, "saved", leak())
    args = [file if each == "saved" else each for each in args]
    with open("/dev/full", "w") as full:
        code, said = started(
            ["-m", "impactarbiter", *args], stdout=full.fileno()
        )
    assert code == 1
    assert said == (
        "impactarbiter: cannot write standard output: no space left on"
        " device\n"
    )


def test_where_nobody_reads_standard_output(tmp_path: File) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = started(["-m", "impactarbiter", "--help"], stdout=theirs)
    finally:
        os.close(theirs)
    assert done == (1, "")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--help"], 0),
        (["report", "saved", "--fail-on", "info"], 3),
        (["diff", "saved", "saved"], 0),
    ],
)
def test_where_standard_output_is_closed(
    tmp_path: File, args: list[str], code: int
) -> None:
    """What is printed goes nowhere, as ``print`` has it."""
    file = saved(tmp_path, "saved", leak())
    ours = [file if each == "saved" else each for each in args]
    closes = (
        "import os, sys; os.close(1);"
        " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    command = ["-P", "-m", "impactarbiter", *ours]
    assert started(["-c", closes, *command]) == (code, "")


def test_an_interrupted_command_has_no_traceback() -> None:
    code = (
        "import sys\n"
        "from impactarbiter.commands import console, info\n"
        "def execute(args):\n"
        "    raise KeyboardInterrupt\n"
        "info.execute = execute\n"
        "sys.argv[1:] = ['info']\n"
        "console()"
    )
    assert started(["-c", code]) == (-signal.SIGINT, "")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    for args in (["--help"], ["run", "-h"], ["help", "diff"]):
        assert main(args) == 0
        assert "usage: impactarbiter" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    for word in ("attach", "--report-every", "--fail-on", "critical"):
        assert word in out
    if shell == "bash":
        done = subprocess.run(["bash", "-n"], input=out.encode())
        assert done.returncode == 0


def test_man(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "man"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(".TH IMPACTARBITER 1")
    assert out.count("\n.SS ") == len(COMMANDS)
    assert ".SS attach\n.nf\nusage: impactarbiter attach PID" in out
    assert main(["completion", "fish"]) == 2


def test_the_help_names_each_option() -> None:
    from importlib import import_module

    for name in COMMANDS:
        command = import_module(f"impactarbiter.commands.{name}")
        for option in getattr(command, "OPTIONS", {}):
            assert option in command.HELP, f"{name} {option}"
