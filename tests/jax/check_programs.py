"""Programs of JAX: what is said of each, leaky, fixed and healthy.

In every one of them the ledger has what ``jax.live_arrays()`` has.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PAIRS = sorted((HERE / "pairs").glob("*.py"))
HEALTHY = sorted((HERE / "healthy").glob("*.py"))
BOUNDED = {"accumulation", "cache"}


def report(program: Path, *args: str, folder: Path) -> dict:
    """What the launcher reports of a program that ran as without it."""
    file = folder / "report.json"
    command = ["run", "--json", str(file), str(program), *args]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "impactarbiter", *command],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(file.read_text())
    assert any("has the same" in said for said in found["cross_checks"])
    return found


def unbounded(found: dict) -> list[dict]:
    return [f for f in found["findings"] if f["verdict"] not in BOUNDED]


def lines_of(finding: dict) -> set[int]:
    sites = (finding[name] for name in ("grown_at", "allocated_at"))
    return {site["line"] for site in sites if site is not None}


def truth(program: Path) -> tuple[str, int, str]:
    """(kind, line, text) of the program's one marked line."""
    for number, line in enumerate(program.read_text().splitlines(), 1):
        marked = re.search(r"# (holder|collects|retraced|tracer): (.+)$", line)
        if marked:
            return marked[1], number, marked[2]
    raise ValueError(f"{program} marks no line")


@pytest.mark.parametrize("program", PAIRS, ids=lambda path: path.stem)
def test_leaky_programs_are_told(program: Path, tmp_path: Path) -> None:
    kind, line, text = truth(program)
    found = report(program, "leaky", folder=tmp_path)
    if kind == "collects":
        # What is taken out late is taken out: no growth without a bound yet.
        assert not unbounded(found)
        (finding,) = found["findings"]
        assert text in finding["holder"]["expression"]
        return
    if kind != "holder":
        assert any(text in warning for warning in found["warnings"])
        assert not unbounded(found)
        return
    (finding,) = unbounded(found)
    assert text in finding["holder"]["expression"]
    assert line in lines_of(finding)


@pytest.mark.parametrize("program", PAIRS, ids=lambda path: path.stem)
def test_fixed_programs_are_not(program: Path, tmp_path: Path) -> None:
    found = report(program, "fixed", folder=tmp_path)
    assert not unbounded(found)
    assert not found["warnings"]


@pytest.mark.parametrize("program", HEALTHY, ids=lambda path: path.stem)
def test_healthy_programs_are_not(program: Path, tmp_path: Path) -> None:
    found = report(program, folder=tmp_path)
    assert not unbounded(found)
    assert not found["warnings"]
    assert found["steps"] >= 50
    assert found["step_kind"] == "compiled call"
