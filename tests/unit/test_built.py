"""Built or not, for this torch or another: one line says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
import torch
import warm

from impactarbiter.base.errors import (
    MissingExtraError,
    NotBuiltError,
    requirements,
)
from impactarbiter.core import built, code

ROOT = Path(__file__).resolve().parents[2]


def test_what_was_built_is_said() -> None:
    found = built.build()
    assert found.torch == torch.__version__
    assert {"_core", "_torch"} <= set(found.modules)


@pytest.mark.parametrize("change", [(-1, 0, ""), (1, 0, "+cpu"), (0, 1, "")])
def test_another_torch(
    change: tuple[int, int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = torch.__version__.partition("+")[0]
    major, minor, patch = map(int, release.split(".")[:3])
    other = f"{major}.{minor + change[0]}.{patch + change[1]}{change[2]}"
    monkeypatch.setattr(built, "build", lambda: built.Build(torch=other))
    with pytest.raises(NotBuiltError) as caught:
        built.torch_module()
    message = str(caught.value)
    assert f"for torch {other}, and torch {torch.__version__}" in message
    assert "pip install" in message and "\n" not in message


def test_a_build_for_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after + is how torch was built: its classes are the same."""
    release = torch.__version__.partition("+")[0]
    monkeypatch.setattr(
        built, "build", lambda: built.Build(torch=f"{release}+cu130")
    )
    assert built.torch_module().__name__ == "impactarbiter._torch"


@pytest.mark.parametrize("note", [None, "", "{", "[]", '{"torch": 3}'])
def test_no_note_of_the_build(
    note: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(built, "_PACKAGE", str(tmp_path))
    if note is not None:
        (tmp_path / "built.json").write_text(note)
    assert built.build() == built.Build()
    assert built.torch_module().__name__ == "impactarbiter._torch"


def test_a_watch_with_another_torch(tmp_path: Path) -> None:
    """The program runs; one line says why it is not watched."""
    (tmp_path / "train.py").write_text(
        "from impactarbiter.core import built\n"
        "import torch\nprint('trained')\n"
    )
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "from impactarbiter.core import built\n"
        "built.build = lambda: built.Build(torch='1.0.0')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "impactarbiter", "run", "-q", "train.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert "was built for torch 1.0.0" in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(
    not (ROOT / "impactarbiter").is_dir(), reason="no sources here"
)
def test_a_folder_of_sources(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "impactarbiter",
        tmp_path / "impactarbiter",
        ignore=shutil.ignore_patterns("*.so", "built.json", "__pycache__"),
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import impactarbiter; impactarbiter.watch()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
    )
    last = done.stderr.splitlines()[-1]
    assert "NotBuiltError" in last and "has no built modules" in last


def test_a_setuptools_that_is_too_old() -> None:
    """One line, before pyproject.toml is read."""
    program = (
        "import sys, types, setuptools\n"
        "setuptools.__version__ = '65.5.0'\n"
        "sys.argv = ['setup.py', '--version']\n"
        "exec(compile(open('setup.py').read(), 'setup.py', 'exec'),"
        " {'__file__': 'setup.py', '__name__': '__main__'})"
    )
    if not (ROOT / "setup.py").is_file():
        pytest.skip("no sources here")
    pytest.importorskip("setuptools")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "impactarbiter: setuptools 65.5.0 is too old to build with:"
        " pip install 'setuptools>=77' 'numpy>=1.26'"
    ]


def test_an_extra_is_told_by_its_packages() -> None:
    """Each can be installed from anywhere; we are on no index for sure."""
    for extra in metadata.metadata("impactarbiter").get_all("Provides-Extra"):
        told = str(MissingExtraError("x", "this", extra))
        assert "impactarbiter[" not in told and "pip install " in told
        assert all(name in told for name in requirements(extra))
    assert requirements("shell") == ["'shtab>=1.7'"]
    assert requirements("no such thing") == []


def test_the_doctor() -> None:
    done = warm.run(["-m", "impactarbiter", "doctor"])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {
        line[2:].split("  ")[0].strip(): line
        for line in done.stdout.splitlines()
    }
    assert torch.__version__ in lines["torch"]
    assert "kept" in lines["a leak"]
    assert not [line for line in lines.values() if line.startswith("!")]


def test_the_doctor_where_nothing_can_be_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from impactarbiter.commands import main

    monkeypatch.setattr(built, "build", lambda: built.Build(torch="1.0.0"))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "! " in out and "was built for torch 1.0.0" in out
    assert main(["doctor", "me"]) == 2


def test_what_sysconfig_knows_is_no_users() -> None:
    """Its folders are found without it: it takes long to import."""
    prefixes = code._library_prefixes()
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        path = sysconfig.get_path(name) + os.sep
        assert path.startswith(prefixes), path
