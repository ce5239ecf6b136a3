"""What a birth and a death cost, and a boundary, in instructions: a machine
that is busy says little of nanoseconds, and the same of instructions.

A change that needs more has to say why and set another limit here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
COUNT = 4000
#: Instructions of one birth and one death, by the depth of the stack, as gcc
#: 12 with -O2 and Python 3.11 had it; what else there is may need more.
MEASURED = {2: 413, 22: 680}
#: Of a boundary where nothing is made and nothing has a graph, likewise; some
#: 170 of them are the reading of what malloc has in use, at most every 20 ms.
BOUNDARY = 1330
MARGIN = 1.10
OTHERS = 1.40
BEGINNINGS = ("api_storage_born", "ia_ledger_died")
END = "ia_stepping_stop"


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Instructions of a birth and a death, frames and all, by depth.

    Most of the time is Python's start under valgrind: there is one for all,
    which dumps the counts at the end of each watch.
    """
    out = tmp_path_factory.mktemp("callgrind") / "out"
    done = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            *(f"--toggle-collect={name}" for name in BEGINNINGS),
            f"--dump-after={END}",
            sys.executable,
            "-P",
            str(HERE / "births.py"),
            str(COUNT),
            *map(str, MEASURED),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    dumps = [out.with_suffix(f".{i + 1}") for i in range(len(MEASURED))]
    found = [
        re.search(r"^summary: (\d+)", dump.read_text(), re.M) for dump in dumps
    ]
    assert all(found), done.stderr
    sums = [int(each[1]) for each in found if each]
    return {
        depth: total / COUNT
        for depth, total in zip(MEASURED, sums, strict=True)
    }


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
@pytest.mark.parametrize("depth", sorted(MEASURED))
def test_a_birth_and_a_death(depth: int, counts: dict[int, float]) -> None:
    usual = sys.version_info[:2] == (3, 11)
    limit = MEASURED[depth] * (MARGIN if usual else OTHERS)
    assert 100 < counts[depth] <= limit


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
def test_a_boundary_without_graphs(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={tmp_path / 'out'}",
            "--toggle-collect=boundary",
            sys.executable,
            "-P",
            str(HERE / "boundaries.py"),
            "1000",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    usual = sys.version_info[:2] == (3, 11)
    limit = BOUNDARY * (MARGIN if usual else OTHERS)
    assert 100 < int(found[1]) / 1000 <= limit
