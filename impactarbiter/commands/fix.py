"""``impactarbiter fix``: what a saved report suggests to change, as a diff."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

from ..base.errors import MissingExtraError, UsageError
from ..base.files import write_atomic
from ..base.text import clean
from ..judging.patches import diff, read_source, rewritten
from ..model.finding import Finding
from ..model.order import by_urgency
from ..model.report import Report
from .options import Option, parse

HELP = """\
usage: impactarbiter fix RUN.json [--apply]

Prints a unified diff for those findings of a saved report whose source
leaves no choice: a number instead of a tensor (`.item()`), a tensor without
the graph that made it (`.detach()`). It reads the files that the report
names, as they are now; a line that has changed since is left alone.

  --apply   write the changes into the files

Exit codes: 0, also when there is nothing to change; 2 for a wrong call.
"""

OPTIONS = {"--apply": Option()}


def execute(args: list[str]) -> int:
    """Prints or applies; ReportError for a file that is no report."""
    given, files = parse("fix", OPTIONS, args, interleave=True)
    if len(files) != 1:
        raise UsageError(
            f"got {len(files)} files: expected"
            " `impactarbiter fix RUN.json [--apply]`"
        )
    if importlib.util.find_spec("libcst") is None:
        raise MissingExtraError("libcst", "`impactarbiter fix`", "fix")
    findings = [f for f in by_urgency(Report.load(files[0]).findings)]
    changed = 0
    for file in dict.fromkeys(f.grown_at.file for f in findings if f.grown_at):
        of_file = [
            f for f in findings if f.grown_at and f.grown_at.file == file
        ]
        changed += _fix(file, of_file, bool(given.get("--apply")))
    if not changed:
        print("impactarbiter: no finding has a patch", file=sys.stderr)
    return 0


def _fix(file: str, findings: Iterable[Finding], apply: bool) -> int:
    """Mends one file; the number of findings that it is mended for."""
    try:
        source, encoding = read_source(file)
    except (OSError, SyntaxError, UnicodeError) as error:
        print(
            f"impactarbiter: {clean(file)} is left alone: {clean(str(error))}",
            file=sys.stderr,
        )
        return 0
    made, count = source, 0
    for finding in findings:
        after = _mended(made, finding)
        if after is not None:
            made, count = after, count + 1
    if count:
        print(diff(file, source, made), end="")
    if count and apply:
        write_atomic(file, made.encode(encoding))
        print(f"impactarbiter: changed {clean(file)}", file=sys.stderr)
    return count


def _mended(source: str, finding: Finding) -> str | None:
    try:
        return rewritten(source, finding)
    except Exception:
        return None  # libcst can't take this source
