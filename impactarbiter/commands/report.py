"""``impactarbiter report``: a saved report, shown again."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

from ..base.convert import choice, filename
from ..base.errors import ReportError, UsageError
from ..model.report import Report
from ..model.words import SEVERITIES
from ..reports.outputs import (
    STDOUT,
    check_outputs,
    check_spared,
    gate,
    write_outputs,
)
from ..reports.text import print_report
from .options import QUIET, Option, detail, parse

HELP = """\
usage: impactarbiter report RUN.json|BUNDLE|SNAPSHOT.pickle|- [--text]
                            [--json F] [--html F] [--timeline F.png]
                            [--sarif F] [--flame F] [--csv F] [--perfetto F]
                            [--fail-on SEVERITY] [-q | -v]

Shows what `impactarbiter run --json RUN.json` saved: as text on stdout
(default), as a page, a picture or for code scanning. BUNDLE is a folder that
the flight recorder wrote: shown as text or a page, its report as the rest.
SNAPSHOT.pickle is what torch.cuda.memory._dump_snapshot wrote: lines that keep
ever more, and what is alive by line and by age; who holds it is not in there.
Nothing in the files is ever executed. - is a report on stdin, and as F stdout.

  --flame F           a page: live bytes by allocating stack
  --csv F             the same as a table
  --perfetto F        a trace for ui.perfetto.dev: memory, phases, findings
  --fail-on SEVERITY  exit 3 if a leak is at least info, warning or critical,
                      4 if no report could be made
  -q, --quiet         the first line alone
  -v, --verbose       all that is known of each finding
"""

OPTIONS = {
    "--text": Option(),
    "--json": Option(filename),
    "--html": Option(filename),
    "--timeline": Option(filename),
    "--sarif": Option(filename),
    "--flame": Option(filename),
    "--perfetto": Option(filename),
    "--csv": Option(filename),
    "--fail-on": Option(choice(*SEVERITIES)),
    **QUIET,
}


def execute(args: list[str]) -> int:
    """0, or what the gate says; ReportError for a file that is no report."""
    given, files = parse("report", OPTIONS, args, interleave=True)
    if len(files) != 1:
        raise UsageError(
            f"got {len(files)} files: expected"
            " `impactarbiter report RUN.json [--html F]`"
        )
    if os.path.isdir(files[0]):
        return _show_bundle(files[0], given)
    check_spared(given, files)
    report = _load(files[0])
    outputs = check_outputs(given)
    write_outputs(report, outputs)
    if given.get("--text") or not outputs:
        print_report(report, sys.stdout, detail(given))
    threshold = given.get("--fail-on")
    return gate(report, threshold) if threshold else 0


def _load(file: str) -> Report:
    if file == STDOUT:
        return Report.load("/dev/stdin")
    if not _is_pickle(file):
        return Report.load(file)
    from ..judging.recording import report_of
    from ..reports.read_recording import read_recordings

    return report_of(read_recordings(file))


#: A pickle's first byte, in protocols 2 to 5.
_PROTO = b"\x80"


def _is_pickle(path: str) -> bool:
    """Whether the file begins as torch's memory snapshots do."""
    try:
        # What a pipe has is there once: for who reads it as a report, and
        # says why it is none.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as stream:
            return stream.read(1) == _PROTO
    except OSError:
        return False


def _show_bundle(folder: str, given: dict[str, Any]) -> int:
    from ..reports.bundle import print_bundle
    from ..reports.read_bundle import FILES, read_bundle

    check_spared(given, [os.path.join(folder, name) for name in FILES])
    bundle = read_bundle(folder)
    outputs = check_outputs(given)
    page = {m: f for m, f in outputs.items() if m == "to_html"}
    others = {m: f for m, f in outputs.items() if m != "to_html"}
    if others and bundle.report is None:
        raise ReportError(
            f"{folder!r} has no report.json: memory was too short for it;"
            " leave the outputs out to see the rest as text"
        )
    write_outputs(bundle, page)
    if bundle.report is not None:
        write_outputs(bundle.report, others)
    if given.get("--text") or not outputs:
        print_bundle(bundle, sys.stdout)
    threshold = given.get("--fail-on")
    if threshold and bundle.report is not None:
        return gate(bundle.report, threshold)
    return 0
