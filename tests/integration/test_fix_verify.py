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
