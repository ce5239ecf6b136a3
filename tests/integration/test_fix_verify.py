"""`impactarbiter fix --verify`: a leaky script before and after its patch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import warm

from impactarbiter.commands import verify
from impactarbiter.model.report import Report

SCRIPT = """
import sys
import torch
from part import keep

torch.manual_seed(0)
model = torch.nn.Linear(16, 16)
history = []
for step in range(40):
    loss = model(torch.ones(4, 16)).pow(2).mean()
    history.append(loss)
    loss.backward()
    keep(step)
{use}
open("written.txt", "w").write("by the program")
"""
PART = "def keep(step):\n    pass\n"


def called(
    folder: Path, *words: str, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    done = warm.run(
        ["-m", "impactarbiter", *words], cwd=folder, safe_path=False
    )
    assert code is None or done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script that ran, and its report."""
    folder = tmp_path_factory.mktemp("program")
    use = "print(len(history), sys.argv[1:])"
    (folder / "train.py").write_text(SCRIPT.format(use=use))
    (folder / "part.py").write_text(PART)
    called(
        folder, "run", "--window=5", "--json", "run.json", "train.py", "a b"
    )
    (folder / "written.txt").unlink()
    return folder


def changed(folder: Path, **environment: Any) -> None:
    """The report with another environment, as other.json."""
    report = json.loads((folder / "run.json").read_text())
    report["environment"] |= environment
    report["environment"] = {
        key: value
        for key, value in report["environment"].items()
        if value is not None
    }
    (folder / "other.json").write_text(json.dumps(report))


def test_the_report_says_how_it_was_run(ran: Path) -> None:
    report = Report.load(ran / "run.json")
    command = report.environment["command"]
    assert command == "impactarbiter run --window=5 train.py 'a b'"
    called(ran, "run", "--obfuscate", "--json", "m.json", "train.py")
    assert "command" not in Report.load(ran / "m.json").environment
    (ran / "written.txt").unlink()


def test_both_rates_are_shown_and_nothing_is_touched(ran: Path) -> None:
    before = {p.name: p.read_bytes() for p in ran.glob("*.py")}
    done = called(ran, "fix", "run.json", "--verify")
    assert "+    history.append(loss.item())" in done.stdout
    said = done.stderr
    assert "before: " in said and "after: 0 B a step" in said
    assert "the patches hold: they stop 100 % of the" in said
    assert "output: the same" in said
    assert {p.name: p.read_bytes() for p in ran.glob("*.py")} == before
    assert not (ran / "written.txt").exists()


def test_a_patch_that_breaks_the_program_is_told(ran: Path) -> None:
    """The script reads tensors now, which the report does not know."""
    script = ran / "train.py"
    text = script.read_text()
    script.write_text(
        text.replace("print(len", "print(torch.stack(history)); print(len")
    )
    try:
        done = called(ran, "fix", "run.json", "--verify", "--apply", code=1)
        assert "exit code: 0 before, 1 after" in done.stderr
        assert "TypeError: expected Tensor" in done.stderr
        assert "output: changed" in done.stderr
        assert "item()" not in script.read_text()
    finally:
        script.write_text(text)


def test_what_a_tensor_prints_of_its_graph_is_no_change() -> None:
    def shown(output: bytes) -> tuple[bytes, int]:
        return verify._Outcome(Report(), output, 0, "").shown

    kept = b"tensor(0.5, grad_fn=<Mean>)\ntensor([1.], requires_grad=True)"
    assert shown(kept) == shown(b"tensor(0.5)\ntensor([1.])")
    assert shown(kept) != shown(b"tensor(0.6)\ntensor([1.])")


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"command": None}, "does not say how the program was run"),
        ({"command": "rm -rf x"}, "not `impactarbiter run`"),
        ({"rank": "0"}, "one process of a job"),
        ({"cwd": "/nowhere"}, "outside the program's folder"),
    ],
)
def test_where_it_cannot_be_done(
    ran: Path, environment: dict[str, str | None], reason: str
) -> None:
    changed(ran, **environment)
    done = called(ran, "fix", "other.json", "--verify", code=2)
    (line,) = done.stderr.splitlines()
    assert reason in line


def test_a_folder_that_is_too_large(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "MOST_FILES", 1)
    with pytest.raises(verify.CannotVerifyError, match="too large to copy"):
        verify.verify(Report.load(ran / "run.json"), [])


LINKED = """
import os
import torch
from part.more import keep

model = torch.nn.Linear(16, 16)
history = []
os.listdir("empty")
assert open("linked.txt").read() == open("outside.txt").read() == "text"
for step in range(40):
    loss = model(torch.ones(4, 16)).pow(2).mean()
    history.append(loss)
    loss.backward()
    keep(step)
open("linked.txt", "w").write("text")
"""


def test_the_copy_has_what_the_folder_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links, empty folders, files that may not be written, and the folder of
    temporary files; a link into it leads to the copy."""
    folder, outside = tmp_path / "program", tmp_path / "outside"
    (folder / "empty").mkdir(parents=True)
    (folder / "temporary").mkdir()
    (folder / "real").mkdir()
    outside.mkdir()
    (folder / "real" / "more.py").write_text(PART)
    (folder / "part").symlink_to("real")
    (folder / "data.txt").write_text("text")
    (outside / "data.txt").write_text("text")
    (folder / "linked.txt").symlink_to(folder / "data.txt")
    (folder / "outside.txt").symlink_to("../outside/data.txt")
    (folder / "train.py").write_text(LINKED)
    (folder / "train.py").chmod(0o444)
    called(folder, "run", "--window=5", "--json", "run.json", "train.py")
    monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
    written = (folder / "data.txt").stat().st_mtime_ns
    said = called(folder, "fix", "run.json", "--verify").stderr
    assert "the patches hold: they stop 100 % of the" in said
    assert (folder / "data.txt").stat().st_mtime_ns == written
    assert not list((folder / "temporary").iterdir())


def test_a_copy_that_cannot_be_made(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_paths: object) -> None:
        raise OSError(28, "No space left on device", "data.bin")

    monkeypatch.setattr(verify.shutil, "copy2", full)
    with pytest.raises(verify.CannotVerifyError) as caught:
        verify.verify(Report.load(ran / "run.json"), [])
    said = str(caught.value)
    assert "no space left on device; let TMPDIR be" in said
    assert "data.bin" not in said


def test_a_script_that_a_link_leads_to(ran: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ran)
    link = tmp_path / "link"
    script = str(link / "train.py")
    called(link, "run", "--window=5", "--json", "linked.json", script)
    (ran / "written.txt").unlink()
    said = called(link, "fix", "linked.json", "--verify").stderr
    assert "the patches hold: they stop 100 % of the" in said
