"""``impactarbiter fix``: what a saved report suggests to change, as a diff."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..base.convert import filename
from ..base.errors import UsageError
from ..base.files import check_changeable, read_whole, write_atomic
from ..model.finding import Finding
from ..model.order import by_urgency
from ..model.report import Report
from .changes import changes_of, say, show
from .given_patch import changes_of_patch
from .options import Option, parse
from .verify import verify

HELP = """\
usage: impactarbiter fix RUN.json [--apply] [--verify]
       impactarbiter fix RUN.json --verify --patch F.diff

Prints the patches of a saved report as a unified diff: a number instead of a
tensor (`.item()`), or a tensor without the graph that made it (`.detach()`).
A report has a patch only for a confirmed leak whose statement was seen, where
the source leaves no choice; where it has none, the reason is printed. A line
that has changed since is left alone, and nothing but such calls is ever
written.

  --apply   write the changes into the files
  --verify  run the program twice more, as it is and patched, in a private
            copy of its folder, and show both rates of growth and whether its
            output changed; with --apply, write what was found to hold
  --patch F a unified diff of your own to verify, in place of the report's:
            it is held against all that the report says leaks

Exit codes: 0, also when there is nothing to change; 1 where --verify found
that the patches do not hold or that the output changed; 2 for a wrong call,
or where --apply may not write a file or it has several names (hard links).
"""

OPTIONS = {
    "--apply": Option(),
    "--verify": Option(),
    "--patch": Option(filename),
}


def execute(args: list[str]) -> int:
    """Prints, verifies or applies; ReportError for what is no report."""
    given, files = parse("fix", OPTIONS, args, interleave=True)
    if len(files) != 1:
        raise UsageError(
            f"got {len(files)} files: expected"
            " `impactarbiter fix RUN.json [--apply] [--verify]`"
        )
    report = Report.load(files[0])
    if "--patch" in given:
        return _verified(report, given)
    findings = list(by_urgency(report.findings))
    offered = [f for f in findings if f.patch and f.confirmed]
    changes = changes_of(offered)
    for change in changes:
        show(change)
    _say_what_is_left(findings, bool(given.get("--apply")))
    if not changes:
        say("no finding has a patch")
        return 0
    if given.get("--apply"):
        for change in changes:  # all of them or none
            check_changeable(change.file)
    if given.get("--verify") and not verify(report, changes):
        return 1
    if given.get("--apply"):
        for change in changes:
            data = change.after.encode(change.encoding)
            write_atomic(change.file, data)
            say(f"changed {change.file}")
    return 0


def _verified(report: Report, given: dict[str, Any]) -> int:
    """Whether a patch of somebody else's holds; nothing is written."""
    if "--apply" in given or "--verify" not in given:
        raise UsageError("--patch is for --verify alone: apply it yourself")
    try:
        data = read_whole(given["--patch"])
    except OSError as error:
        raise UsageError(
            f"cannot read {given['--patch']!r}: {error}"
        ) from None
    folder = report.environment.get("cwd", "")
    leaks = [f for f in report.findings if f.confirmed]
    changes = changes_of_patch(data, folder or os.getcwd(), leaks)
    for change in changes:
        show(change)
    return 0 if verify(report, changes) else 1


def _say_what_is_left(findings: Iterable[Finding], apply: bool) -> None:
    """Why findings are left alone, one line each."""
    reasons: Mapping[str, None] = dict.fromkeys(
        text for f in findings if (text := _left(f, apply))
    )
    for reason in reasons:
        say(reason)


def _left(finding: Finding, apply: bool) -> str:
    holder = finding.holder
    where = holder.expression if holder else str(finding.allocated_at)
    if finding.verdict == "growing" and (apply or finding.patch):
        return (
            f"{where} is left alone: the leak is not confirmed; let the"
            " program run longer"
        )
    if finding.confirmed and not finding.patch and finding.patch_note:
        return f"no patch for {where}: {finding.patch_note}"
    return ""
