"""A script run in a process of its own, plain or watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 600


@dataclass(frozen=True)
class Script:
    """A script in a copy of its folder, ready to run."""

    file: Path
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Run:
    exit: int | None  # None: it ran past TIMEOUT
    stdout: str
    stderr: str
    cpu: float  # seconds, of all its processes
    report: dict | None


def execute(command: list[str], script: Script) -> Run:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        process = subprocess.Popen(
            ["timeout", str(TIMEOUT), *command, script.file, *script.args],
            cwd=script.file.parent,
            env=environment | dict(script.environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Run(
            exit=None if code == 124 else code,
            stdout=out.read(),
            stderr=err.read(),
            cpu=usage.ru_utime + usage.ru_stime,
            report=None,
        )


def last_line(run: Run) -> str:
    return (run.stderr.strip().splitlines()[-1:] or ["?"])[0][:100]


def watched(script: Script, gate: bool) -> Run:
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "report.json")
        # Without -P: the script finds its neighbours, as in the plain run.
        command = [sys.executable, "-m", "impactarbiter", "run"]
        command += ["--json", str(output)]
        if gate:
            command += ["--fail-on", "info"]
        run = execute(command, script)
        report = json.loads(output.read_text()) if output.exists() else None
    return Run(run.exit, run.stdout, run.stderr, run.cpu, report)


def plain(script: Script) -> Run:
    return execute([sys.executable], script)
