"""``impactarbiter merge``: all processes of one job, one answer."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from ..base.convert import choice, filename
from ..base.errors import UsageError
from ..base.files import write_atomic
from ..base.units import parse_duration, plural
from ..model.words import SEVERITIES
from ..reports.console import emit
from ..reports.job import Job, files_of, read_job
from ..reports.job_dict import job_to_dict
from ..reports.job_words import job_lines
from ..reports.outputs import STDOUT, check_spared
from .family import gate_of_job
from .options import Option, parse

HELP = """\
usage: impactarbiter merge [OPTIONS] DIR
       impactarbiter merge [OPTIONS] RANK0.json RANK1.json ...

The answer for a whole job: which ranks leak where, and which left no report.
DIR is what `run --job DIR` or IMPACTARBITER_JOB=DIR named; it may be asked
while the job runs. What cannot be read is named and skipped; where no report
is left the exit code is 2.

  --json F            for programs, - for stdout
  --html F            one page with a curve for each process
  --fail-on SEVERITY  exit 3 if a leak is at least info, warning or critical,
                      4 if a process could make no last report
  --watch             again and again, until all processes have ended
  --interval T        so often (default 5s)
"""

OPTIONS = {
    "--json": Option(filename),
    "--html": Option(filename),
    "--fail-on": Option(choice(*SEVERITIES)),
    "--watch": Option(),
    "--interval": Option(parse_duration),
}
#: Seconds between two looks of --watch.
INTERVAL = 5.0


def execute(args: list[str]) -> int:
    """0, or what --fail-on says; UsageError for what cannot be merged."""
    given, paths = parse("merge", OPTIONS, args, interleave=True)
    folder = len(paths) == 1
    if folder:
        _expect_folder(paths[0], given)
    elif len(paths) < 2:
        raise UsageError(
            "got 0 files: expected `impactarbiter merge DIR` or"
            " `impactarbiter merge RANK0.json RANK1.json ...`"
        )
    if not folder:
        check_spared(given, paths)
    while True:
        files = files_of(paths[0]) if folder else paths
        if not files and "--watch" not in given:
            raise UsageError(
                f"there is no report in {paths[0]!r}: expected the folder"
                " that `run --job` or IMPACTARBITER_JOB named; --watch waits"
                " for the first"
            )
        job = read_job(files, curves="--html" in given, regular=folder)
        goes_on = "--watch" in given and not job.is_over()
        _show(job, given, goes_on)
        if not goes_on or not _pause(given):
            break
    if not job.members:
        raise UsageError(
            f"no report is among {plural(len(files), 'file')}: expected what"
            " `run --job` or `run --json` of this version wrote"
        )
    threshold = given.get("--fail-on")
    return gate_of_job(job, threshold) if threshold else 0


def _expect_folder(path: str, given: dict[str, Any]) -> None:
    """The job's folder, which --watch may be sooner than."""
    if os.path.isdir(path):
        return
    if os.path.exists(path):
        raise UsageError(
            f"{path!r} is a file: expected the folder of a job, or the files"
            " of two processes or more; one is what `impactarbiter report`"
            " shows"
        )
    if "--watch" not in given:
        raise UsageError(
            f"there is no folder {path!r}: the first process that is watched"
            " makes what `run --job` or IMPACTARBITER_JOB named; --watch"
            " waits for it"
        )
    sys.stderr.write(f"impactarbiter: waiting for the folder {path!r}\n")
    while not os.path.isdir(path):
        if not _pause(given):
            raise UsageError(f"there is no folder {path!r}")


def _pause(given: dict[str, Any]) -> bool:
    """Between two looks; False where somebody has had enough."""
    try:
        time.sleep(given.get("--interval", INTERVAL))
    except KeyboardInterrupt:
        return False
    return True


def _show(job: Job, given: dict[str, Any], goes_on: bool) -> None:
    text = given.get("--json")
    if text is not None:
        data = json.dumps(job_to_dict(job), indent=1) + "\n"
        if text == STDOUT:
            sys.stdout.write(data)
        else:
            write_atomic(text, data.encode())
    if "--html" in given:
        from ..reports.job_page import job_page

        again = max(1.0, given.get("--interval", INTERVAL))
        page = job_page(job, again if goes_on else None).encode(
            "utf-8", "backslashreplace"
        )
        if given["--html"] == STDOUT:
            sys.stdout.buffer.write(page)
        else:
            write_atomic(given["--html"], page)
    if STDOUT in (text, given.get("--html")):
        return
    if "--watch" in given and sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J")
    emit(job_lines(job), sys.stdout)
