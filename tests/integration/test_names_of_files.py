"""Names of files and folders that are no UTF-8: a Linux name is bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from impactarbiter.attaching.target import status_of
from impactarbiter.base.files import kernel_file
from impactarbiter.commands import main
from impactarbiter.integrations import startup_file
from impactarbiter.model.report import Report

#: A leak at the line that ends with its name.
LEAK = """
import torch

{before}
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []


def keep(loss):
    kept.append(loss)


for _ in range(40):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {keep}(loss)
{after}
"""
LIBRARY = "kept = []\n\n\ndef keep(loss):\n    kept.append(loss)\n"
#: How a name of one byte that is no UTF-8 is shown, and known to Python.
SHOWN, NAME = "w\\udcff.py", "w\udcff.py"

LOCALES = [
    {},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "C", "PYTHONUTF8": "1"},
]


def program(before: str = "", keep: str = "keep", after: str = "") -> str:
    return LEAK.format(before=before, keep=keep, after=after)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / os.fsdecode(b"dir\xe9")
    try:
        made.mkdir()
    except OSError:
        pytest.skip("this file system has UTF-8 alone")
    return made


def python(
    folder: Path, *args: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=120,
    )


def run(
    folder: Path, *args: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    done = python(folder, "-m", "impactarbiter", *args, **variables)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert "impactarbiter: warning" not in done.stderr
    return done


@pytest.mark.parametrize("variables", LOCALES)
def test_a_script_of_such_a_name(
    folder: Path, variables: dict[str, str]
) -> None:
    """Its leak is found with its line, and everything can be written."""
    (folder / NAME).write_text(program())
    names = {
        "--json": "o.json",
        "--html": "o.html",
        "--sarif": "o.sarif",
        "--flame": "flame.html",
        "--csv": "o.csv",
        "--perfetto": "o.trace",
    }
    options = [word for pair in names.items() for word in pair]
    home = {"HOME": str(folder), "TMPDIR": str(folder)}
    done = run(folder, "run", *options, NAME, **home, **variables)
    assert f"a step at {SHOWN}:11" in done.stderr
    assert "kept.append(loss)" in done.stderr
    assert '--- "a/w\\377.py"' in done.stderr
    assert all((folder / name).stat().st_size for name in names.values())
    report = Report.load(folder / "o.json")
    (finding,) = report.findings
    assert finding.grown_at is not None
    assert os.path.basename(finding.grown_at.file) == NAME
    assert '"w%FF.py"' in (folder / "o.sarif").read_text("utf-8")
    for name in ("o.sarif", "o.trace"):
        json.loads((folder / name).read_text("utf-8"))
    for call in (["report", "o.json"], ["diff", "o.json", "o.json"]):
        run(folder, *call, **variables)
    assert SHOWN in run(folder, "report", "o.json", **variables).stdout
    fixed = run(folder, "fix", "o.json", "--apply", **variables)
    assert '+++ "b/w\\377.py"' in fixed.stdout
    assert "kept.append(loss.item())" in (folder / NAME).read_text()


def test_a_watch_in_such_a_script(folder: Path) -> None:
    text = program(
        before="import impactarbiter; arbiter = impactarbiter.watch()",
        after="print(arbiter.report()); print(impactarbiter.explain(kept[0]))",
    )
    (folder / NAME).write_text(text)
    done = python(folder, NAME)
    assert done.returncode == 0, done.stderr
    assert f"a step at {SHOWN}:11" in done.stdout


@pytest.mark.parametrize("variables", LOCALES[:2])
def test_whose_code_is_whose_in_such_folders(
    folder: Path, variables: dict[str, str]
) -> None:
    """What lies in a folder of packages is a library's: the user's line that
    calls it is named.  What lies beside the program is the user's."""
    packages = folder / "site-packages"
    packages.mkdir()
    (packages / "keeper.py").write_text(LIBRARY)
    (folder / os.fsdecode(b"own\xfe.py")).write_text(LIBRARY)
    (folder / "library.py").write_text(
        program("import keeper", "keeper.keep")
    )
    (folder / "own.py").write_text(
        program(
            "import importlib, os\n"
            "own = importlib.import_module(os.fsdecode(b'own\\xfe'))",
            "own.keep",
        )
    )
    variables = {"PYTHONPATH": str(packages), **variables}
    done = run(folder, "run", "library.py", **variables)
    assert "library.py:19 in <module>" in done.stderr
    assert "keeper.py" not in done.stderr
    done = run(folder, "run", "-m", "own", **variables)
    assert "grown at    own\\udcfe.py:5 in keep" in done.stderr
    assert "holder      own\\udcfe.kept: list" in done.stderr


def test_a_job_in_such_a_folder(folder: Path) -> None:
    (folder / NAME).write_text(program())
    job = os.path.join(folder, os.fsdecode(b"job\xfa"))
    run(folder, "run", NAME, IMPACTARBITER_JOB=job)
    done = run(folder, "merge", job, "--html", "j.html", "--json", "j.json")
    assert f"at {SHOWN}:11" in done.stdout
    data = json.loads((folder / "j.json").read_text("utf-8"))
    assert f"at {NAME}:11" in data["answer"]


def test_an_attribute_of_such_a_name(folder: Path) -> None:
    (folder / "prog.py").write_text(
        program(
            before="class Holder: pass\nholder = Holder()\n"
            "setattr(holder, 'a\\udcff', [])",
            keep="getattr(holder, 'a\\udcff').append",
        )
    )
    done = run(folder, "run", "prog.py")
    assert "__main__.holder.__dict__['a\\udcff']: list" in done.stderr


def test_what_the_kernel_says_of_a_process_of_such_a_name(
    folder: Path,
) -> None:
    """``attach`` reads the name of a process and of what it has mapped."""
    copy = folder / NAME
    shutil.copy("/bin/sleep", copy)
    process = subprocess.Popen([copy, "60"])
    try:
        while NAME not in status_of(process.pid, "Name"):
            time.sleep(0.01)
        with kernel_file(process.pid, "maps") as stream:
            assert f"{folder}/{NAME}" in stream.read()
        assert status_of(process.pid, "Uid").split()[0] == str(os.getuid())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", ["enable", "disable"])
def test_a_start_up_file_in_such_a_folder(
    folder: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    place = str(folder / "impactarbiter.pth")
    monkeypatch.setattr(startup_file, "location", lambda: place)
    startup_file.write(place)
    assert main([command]) == 0
    assert b"dir\\udce9/impactarbiter.pth" in capsysbinary.readouterr().out
