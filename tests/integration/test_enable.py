"""``enable`` and ``disable`` in an environment made for the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import impactarbiter
from impactarbiter.commands import main
from impactarbiter.integrations import startup_file

PACKAGES = [
    Path(impactarbiter.__file__).parents[1],
    *(path for path in map(Path, sys.path) if path.name == "site-packages"),
]


class Environment:
    """A virtual environment that sees the packages of this one."""

    def __init__(self, folder: Path) -> None:
        venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(venv, check=True)
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = folder / "lib" / version / "site-packages"
        (self.site / "others.pth").write_text(
            "".join(f"{p}\n" for p in PACKAGES)
        )

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        return subprocess.run(
            [str(self.python), *args],
            cwd=self.site.parents[2],
            env=environment,
            capture_output=True,
            text=True,
        )

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run("-P", "-m", "impactarbiter", *args)


@pytest.fixture(scope="module")
def enabled(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("venv"))
    done = made.command("enable")
    assert done.returncode == 0, done.stderr
    assert str(made.site / "impactarbiter.pth") in done.stdout
    return made


TRAIN = """
import sys
from transformers import HfArgumentParser, TrainingArguments
parser = HfArgumentParser(TrainingArguments)
if sys.argv[-1].endswith(".json"):
    (args,) = parser.parse_json_file(sys.argv[-1])
else:
    (args,) = parser.parse_args_into_dataclasses()
print(args.detect_memory_leaks, args.detect_memory_leaks_every)
if args.report_to or args.detect_memory_leaks_every == 1:
    import torch
    from transformers import Trainer
    trainer = Trainer(torch.nn.Linear(1, 1), args)
    print(type(trainer.callback_handler.callbacks[1]).__name__)
"""


@pytest.mark.parametrize(
    ("line", "out"),
    [
        pytest.param(
            "--output_dir o --detect-memory-leaks",
            "True 1\nLeakDetectionCallback\n",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "--output_dir o --detect_memory_leaks_every 3",
            "False 3\n",
            marks=pytest.mark.slow,
        ),
        (
            "--output_dir o --report_to impactarbiter",
            "False 1\nLeakDetectionCallback\n",
        ),
        ("c.json", "True 2\n"),
    ],
)
def test_plain_python_knows_the_flag(
    enabled: Environment, line: str, out: str
) -> None:
    folder = enabled.site.parents[2]
    (folder / "train.py").write_text(TRAIN)
    (folder / "c.json").write_text(
        '{"output_dir": "o", "detect_memory_leaks": true,'
        ' "detect_memory_leaks_every": 2}'
    )
    done = enabled.run("train.py", *line.split())
    assert done.stdout == out, done.stderr


@pytest.mark.parametrize(
    "line", ["", "--lr 3 train.py", "none.json", "other.json", "-- a.yaml"]
)
def test_nothing_is_imported_without_the_flag(
    enabled: Environment, line: str
) -> None:
    (enabled.site.parents[2] / "other.json").write_text('{"lr": 3}')
    code = """
import sys
names = [n for n in sys.modules if n.startswith("impactarbiter")]
print(names, [f for f in sys.meta_path if "impactarbiter" in repr(f)])
"""
    done = enabled.run("-c", code, *line.split())
    assert (done.stdout, done.stderr) == ("[] []\n", "")


def test_it_waits_where_the_flag_is_given(enabled: Environment) -> None:
    code = """
import sys
assert "impactarbiter.integrations.huggingface.import_hook" in sys.modules
assert "torch" not in sys.modules and "numpy" not in sys.modules
import json.tool
print(json.tool.__spec__.loader.__class__.__name__)
"""
    done = enabled.run("-c", code, "--detect_memory_leaks")
    assert (done.stdout, done.stderr) == ("SourceFileLoader\n", "")


def test_it_is_quiet_where_we_are_gone(enabled: Environment) -> None:
    others = enabled.site / "others.pth"
    text = others.read_text()
    others.write_text("")
    try:
        done = enabled.run("-c", "print(1)", "--detect_memory_leaks")
    finally:
        others.write_text(text)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_it_is_quiet_where_an_empty_folder_is_left(tmp_path: Path) -> None:
    """A namespace package has no file of its own."""
    (tmp_path / "impactarbiter").mkdir()
    lines = [f"import sys; sys.path.insert(0, {str(tmp_path)!r})"]
    lines += startup_file.text().splitlines()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "\n".join([*lines, "print(1)"])],
        env={"IMPACTARBITER_JOB": "J"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_one_finder_though_the_file_is_executed_twice() -> None:
    """As ``site`` does in an environment of Python 3.11."""
    file = Path(startup_file.__file__).with_name("startup")
    code = f"""
import sys
sys.path.insert(0, {str(file)!r})
text = open({str(file / "_impactarbiter_children.py")!r}).read()
for _ in range(2):
    names = {{"__name__": "_impactarbiter_children"}}
    exec(text, names)
    names["begin"]()
import _impactarbiter_children
_impactarbiter_children.begin()
print(sum(type(f) is type and f.__name__ == "_Finder" for f in sys.meta_path))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "IMPACTARBITER_JOB": "J"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_disable_takes_away_what_enable_wrote(tmp_path: Path) -> None:
    made = Environment(tmp_path)

    def files() -> dict[str, str]:
        return {f.name: f.read_text() for f in made.site.iterdir()}

    before = files()
    assert made.command("enable").returncode == 0
    assert set(files()) == {*before, "impactarbiter.pth"}
    again = made.command("enable")
    assert again.stdout.startswith("already enabled")
    gone = made.command("disable")
    assert gone.stdout.startswith("disabled: removed ")
    assert files() == before
    assert made.command("disable").stdout.startswith("not enabled")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "no" / "impactarbiter.pth"
    monkeypatch.setattr(startup_file, "location", lambda: str(path))
    return path


def test_an_environment_that_cannot_be_changed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["enable"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"impactarbiter: cannot write {place}: ")
    assert "virtual environment" in line


def test_somebody_elses_file_stays(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.parent.mkdir()
    place.write_text("import something\n")
    assert main(["enable"]) == 2
    assert main(["disable"]) == 2
    assert place.read_text() == "import something\n"
    assert "was not written by" in capsys.readouterr().err


def test_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enable", "train.py"]) == 2
    assert main(["disable", "--all"]) == 2
    assert "takes no arguments" in capsys.readouterr().err
