"""``impactarbiter report``: a saved report, shown again."""

from __future__ import annotations

import sys

from ..errors import UsageError
from ..findings import Report
from ..reports.text import print_report
from .options import Option, filename, parse
from .run import check_outputs

HELP = """\
usage: impactarbiter report RUN.json [--text] [--html F] [--timeline F.png]
                            [--sarif F]

Shows what `impactarbiter run --json RUN.json` saved: as text on stdout
(default), as a page, a picture or for code scanning. Nothing in the file is
ever executed.
"""

OPTIONS = {
    "--text": Option(),
    "--html": Option(filename),
    "--timeline": Option(filename),
    "--sarif": Option(filename),
}


def execute(args: list[str]) -> int:
    """0, or ReportError for a file that is no report."""
    given, files = parse("report", OPTIONS, args, interleave=True)
    if len(files) != 1:
        raise UsageError(
            f"got {len(files)} files: expected"
            " `impactarbiter report RUN.json [--html F]`"
        )
    report = Report.load(files[0])
    outputs = check_outputs(given)
    for method, path in outputs.items():
        getattr(report, method)(path)
    if given.get("--text") or not outputs:
        print_report(report, sys.stdout)
    return 0
