"""Each allocation of ours fails once: nothing of the program's changes.

The modules are those that are installed; inject.cpp, preloaded, lets their
calls of malloc and of operator new fail, and _testcapi those of Python's
allocators.  A report is whole, or says what it lacks, or is not there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")

pytestmark = [
    pytest.mark.skipif(CXX is None, reason="no C++ compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="for glibc"),
]


def run(
    folder: Path, script: str, share: int, *names: str
) -> list[dict[str, object]]:
    library = folder / "inject.so"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared"]
    made = subprocess.run(
        [CXX, *flags, "-fPIC", HERE / "inject.cpp", "-ldl", "-o", library],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [sys.executable, "-P", HERE / script, str(share), *names],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(HERE),
        },
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(told: list[dict[str, object]]) -> None:
    """Every case that is not as it must be, with where it failed."""
    cases = [line for line in told if "wrong" in line]
    assert cases and any(case["raised"] or case["said"] for case in cases)
    assert [case for case in cases if case["wrong"]] == []


def test_some_allocations_fail(tmp_path: Path) -> None:
    check(run(tmp_path, "scenario.py", 240))


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
def test_graphs_that_could_not_be_followed_are_told(tmp_path: Path) -> None:
    """Whether a value is made from the one before decides on its finding."""
    asked = "carrying:ia_graphs_lead_back"
    check(run(tmp_path, "scenario.py", 2, asked))


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
def test_a_search_that_could_not_be_made_is_told(tmp_path: Path) -> None:
    """What was freed cannot be told from what is in use."""
    check(run(tmp_path, "scenario.py", 2, "searching:ia_chunks_freed"))


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
def test_a_look_without_all_that_it_needs_is_made_later(
    tmp_path: Path,
) -> None:
    """Its holder would not be visited again, or would keep nothing."""
    asked = ("training:ia_visits_remember", "scripting:walk_rest")
    check(run(tmp_path, "scenario.py", 2, *asked))


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
def test_lines_that_could_not_be_read_are_told(tmp_path: Path) -> None:
    """An allocation would be another line's, or nobody's."""
    asked = ("training:read_stack", "recording:read_stack")
    check(run(tmp_path, "scenario.py", 2, *asked))


def test_allocations_of_python_fail(tmp_path: Path) -> None:
    pytest.importorskip("_testcapi")
    check(run(tmp_path, "python_memory.py", 2000))


@pytest.mark.slow
def test_every_allocation_fails(tmp_path: Path) -> None:
    told = run(tmp_path, "scenario.py", 1)
    for line in told:
        if "scenario" in line and "place" not in line:
            print(line)  # how many calls, how many cases
    check(told)


@pytest.mark.slow
def test_every_allocation_of_python_fails(tmp_path: Path) -> None:
    pytest.importorskip("_testcapi")
    check(run(tmp_path, "python_memory.py", 7))
