"""The runner of torch's own tests: how it ends what it has started."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RUN = Path(__file__).resolve().parents[2] / "tools/torch_suite/run.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("torch_suite_run", RUN)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run = load()
#: Says who it is and who was started by it, and stays.
STAYS = "sleep 1000 & echo $$ $! > pids.new; mv pids.new pids; wait"
KILLED = f"""
import os, sys
sys.path.insert(0, {str(RUN.parent)!r})
from pathlib import Path
import run
here = Path.cwd()
run.call(["sh", "-c", {STAYS!r}], here, here / "log", 1000, dict(os.environ))
"""


def pids(folder: Path) -> list[int]:
    """Of what stays, once it says them."""
    while not (folder / "pids").exists():
        time.sleep(0.01)
    return [int(word) for word in (folder / "pids").read_text().split()]


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.split()[0] not in "ZX"


def test_a_run_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", KILLED], cwd=tmp_path
    ) as runner:
        stay = pids(tmp_path)
        assert all(map(runs, stay))
        runner.kill()
    while any(map(runs, stay)):
        time.sleep(0.01)


def test_a_run_that_ends_leaves_nothing(tmp_path: Path) -> None:
    ends = STAYS.replace("wait", "exit 3")
    command = ["sh", "-c", ends]
    code = run.call(command, tmp_path, tmp_path / "log", 1000, {**os.environ})
    assert code == 3
    while any(map(runs, pids(tmp_path))):
        time.sleep(0.01)


def test_a_time_out_is_no_crash(tmp_path: Path) -> None:
    outcomes, log = tmp_path / "outcomes", tmp_path / "log"
    code = run.call(["sleep", "1000"], tmp_path, log, 0.01, {**os.environ})
    outcomes.write_text("began a::b\npassed a::b\nbegan a::slow\n")
    assert run.note_end(outcomes, code)
    with outcomes.open("a") as file:
        file.write("began a::crashes\n")
    assert run.note_end(outcomes, -11)
    assert not run.note_end(outcomes, -11)  # between two tests
    said = run.read(outcomes, 1.0)
    assert said.by_test == {
        "a::b": "passed",
        "a::slow": "timed-out",
        "a::crashes": "ended:-11",
    }
    row = run.Compared("a", said, said, [], [])
    assert "| 1 | 1 | 1, 1 |" in run.table([row])
