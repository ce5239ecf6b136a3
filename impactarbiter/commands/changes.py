"""What a report's patches make of the files that they are for."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ..base.records import dataclass
from ..base.text import clean, shown_lines
from ..judging.patches.diffs import diff, diff_bytes, patched, read_source
from ..model.finding import Finding


@dataclass(frozen=True)
class Change:
    """A file with its patches applied."""

    file: str
    before: str
    after: str
    encoding: str
    findings: tuple[Finding, ...]


def changes_of(findings: Iterable[Finding]) -> list[Change]:
    """Each file that findings have patches for, with all of them applied."""
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.grown_at is not None:
            by_file.setdefault(finding.grown_at.file, []).append(finding)
    made = (_change(file, of_file) for file, of_file in by_file.items())
    return [change for change in made if change is not None]


def _change(file: str, findings: Iterable[Finding]) -> Change | None:
    try:
        before, encoding = read_source(file)
    except (OSError, SyntaxError, UnicodeError) as error:
        say(f"{file} is left alone: {error}")
        return None
    after = before
    # What one line keeps in several holders has one patch.
    by_patch: dict[str, list[Finding]] = {}
    for finding in findings:
        by_patch.setdefault(finding.patch or "", []).append(finding)
    done: list[Finding] = []
    for patch, of_patch in by_patch.items():
        made = patched(after, patch)
        if made is None:
            site = of_patch[0].grown_at
            say(f"{site} is left alone: the line is not what it was")
            continue
        after = made
        done += of_patch
    if not done:
        return None
    return Change(file, before, after, encoding, tuple(done))


def show(change: Change) -> None:
    """Its diff, for a reader on a terminal, whom a source's control characters
    do not reach; else for ``patch``, in the file's own bytes."""
    what = change.file, change.before, change.after
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(diff(*what))
        return
    if sys.stdout.isatty():
        try:
            for line in shown_lines(diff(*what)):
                sys.stdout.write(clean(line) + "\n")
            return
        except UnicodeEncodeError:  # it has no such characters
            pass
    sys.stdout.flush()
    out.write(diff_bytes(*what, change.encoding))
    out.flush()


def say(text: str) -> None:
    """One line beside the output."""
    print(f"impactarbiter: {clean(text)}", file=sys.stderr)
