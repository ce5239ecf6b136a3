"""Programs of a framework with an environment of its own, and what the
launcher reports of them.

A leaky program marks one line with what is to be said of it:
``# holder: NAME`` (a finding without a bound), ``# warned: TEXT`` (a warning).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

BOUNDED = {"accumulation", "cache"}
_MARK = re.compile(r"# (holder|warned): (.+)$")


def report(program: Path, *args: str, folder: Path) -> dict[str, Any]:
    """What is reported of a program that ends as it does without us."""
    file = folder / "report.json"
    command = ["run", "--json", str(file), str(program), *args]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "impactarbiter", *command],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def unbounded(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [f for f in found["findings"] if f["verdict"] not in BOUNDED]


def truth(program: Path) -> tuple[str, int, str]:
    """(kind, line, text) of the program's one marked line."""
    for number, line in enumerate(program.read_text().splitlines(), 1):
        marked = _MARK.search(line)
        if marked:
            return marked[1], number, marked[2]
    raise ValueError(f"{program} marks no line")


def check_passing(found: dict[str, Any]) -> None:
    """That nothing was called C++'s which Python had in hand."""
    assert not [
        f for f in found["taken_back"] if f["rule"] == "no-python-root"
    ]


def check_leaky(program: Path, found: dict[str, Any]) -> None:
    """That what is marked is said, and nothing else is called a leak."""
    kind, line, text = truth(program)
    check_passing(found)
    if kind == "warned":
        assert any(text in warning for warning in found["warnings"])
        assert {f["verdict"] for f in unbounded(found)} <= {"native"}
        return
    (finding,) = unbounded(found)
    assert text in finding["holder"]["expression"]
    assert line in lines_of(finding)


def lines_of(finding: dict[str, Any]) -> set[int]:
    sites = (finding[name] for name in ("grown_at", "allocated_at"))
    return {site["line"] for site in sites if site is not None}


def check_quiet(found: dict[str, Any]) -> None:
    """That no leak is told, and nothing is warned of."""
    check_passing(found)
    assert not unbounded(found)
    assert not found["warnings"]
