"""``impactarbiter diff``: two runs, what is new and what got better."""

from __future__ import annotations

import sys

from ..base.convert import filename
from ..base.errors import UsageError
from ..base.records import dataclass
from ..base.units import format_bytes, plural
from ..model.report import Report
from ..reports.console import Line, emit, line
from ..reports.outputs import check_spared
from .groups import FindingGroup, change_text, group_findings, group_lines
from .options import Option, parse

HELP = """\
usage: impactarbiter diff OLD.json NEW.json [--fail-on-regression]
                          [--html F]

Compares two saved reports. Findings are the same when holder and allocating
function are, whatever their lines and sizes.

  --fail-on-regression  exit 3 when NEW has a leak that OLD has not, or one
                        that keeps more bytes a step (more than 5 % more);
                        bounded growth is no regression, nor is a severity
                        that changed: it follows from the machine's speed too
  --html F              the same as a page, with both runs' curves
"""

OPTIONS = {"--fail-on-regression": Option(), "--html": Option(filename)}
REGRESSION = 3
#: A rate over a window varies from run to run; less than this is no change.
NOISE = 0.05


@dataclass(frozen=True)
class Change:
    """One signature in two reports; ``old`` or ``new`` may be None."""

    old: FindingGroup | None
    new: FindingGroup | None

    @property
    def kind(self) -> str:
        """``new``, ``gone``, ``worse``, ``better`` or ``same``."""
        if self.old is None:
            return "new"
        if self.new is None:
            return "gone"
        old, new = self.old, self.new
        was, now = old.bytes_per_step, new.bytes_per_step
        if new.alarms != old.alarms:
            return "worse" if new.alarms else "better"
        if now > was + abs(was) * NOISE:
            return "worse"
        if now < was - abs(was) * NOISE:
            return "better"
        return "same"

    @property
    def regression(self) -> bool:
        """Whether this fails the gate: bounded growth never does."""
        alarms = self.new is not None and self.new.alarms
        return alarms and self.kind in ("new", "worse")


def compare(old: Report, new: Report) -> list[Change]:
    """Changes: those in ``new`` first, in its order, then what is gone."""
    before, after = group_findings(old), group_findings(new)
    changes = [Change(before.get(name), after[name]) for name in after]
    changes += [
        Change(group, None)
        for name, group in before.items()
        if name not in after
    ]
    return changes


_STYLES = {
    "new": "bold red",
    "worse": "bold red",
    "gone": "bold green",
    "better": "bold green",
    "same": "dim",
}


def diff_lines(old: Report, new: Report) -> list[Line]:
    """First the verdict, then one entry per finding that changed."""
    changes = compare(old, new)
    bad = any(change.regression for change in changes)
    style = "bold red" if bad else "bold green"
    verdict = _verdict(changes)
    lines = [line(("ImpactArbiter diff: ", "bold"), (verdict, style))]
    for change in changes:
        if change.kind != "same":
            lines.append([])
            lines.extend(_change_lines(change))
    lines.append([])
    lines.append(_totals(old, new))
    return lines


def _verdict(changes: list[Change]) -> str:
    counts = {kind: 0 for kind in _STYLES}
    for change in changes:
        counts[change.kind] += 1
    said = ", ".join(
        f"{number} {kind}" for kind, number in counts.items() if number
    )
    return said or "no findings in either run"


def _change_lines(change: Change) -> list[Line]:
    group = change.new or change.old
    assert group is not None
    lines = group_lines(change.kind, _STYLES[change.kind], group)
    if text := _change_text(change):
        lines.append(line("      " + text))
    return lines


def _change_text(change: Change) -> str:
    """How a finding of both runs has changed."""
    if change.old is None or change.new is None:
        return ""
    old, new = change.old, change.new
    rate = change_text(old.bytes_per_step, new.bytes_per_step)
    held = change_text(old.retained_bytes, new.retained_bytes)
    text = f"{rate} a step; retained {held}"
    if old.severity != new.severity:
        text += f"; severity {old.severity} \u2192 {new.severity}"
    return text


def _totals(old: Report, new: Report) -> Line:
    live = change_text(old.live_bytes, new.live_bytes)
    peak = change_text(old.peak_bytes, new.peak_bytes)
    return line(
        (
            f"after {plural(old.steps, 'step')} and"
            f" {plural(new.steps, 'step')}: live {live}, peak {peak}",
            "dim",
        )
    )


def _write_page(old: Report, new: Report, file: str) -> None:
    from ..reports.html import write_page
    from ..reports.more_pages import ChangeView, DiffView, diff_page
    from ..reports.page_view import view_of
    from ..reports.wording import headline

    changes = compare(old, new)
    shown = []
    for change in changes:
        group = change.new or change.old
        assert group is not None
        site = group.first.site
        shown.append(
            ChangeView(
                change.kind,
                headline(group.first),
                str(site) if site.known else "",
                _change_text(change),
            )
        )
    figures = (
        ("", "old", "new"),
        ("steps", f"{old.steps:,}", f"{new.steps:,}"),
        ("live", format_bytes(old.live_bytes), format_bytes(new.live_bytes)),
        ("peak", format_bytes(old.peak_bytes), format_bytes(new.peak_bytes)),
    )
    runs = (("old", view_of(old)), ("new", view_of(new)))
    view = DiffView(_verdict(changes), tuple(shown), figures, runs)
    write_page(diff_page(view), file)


def execute(args: list[str]) -> int:
    """0, or 3 for ``--fail-on-regression`` with one."""
    given, files = parse("diff", OPTIONS, args, interleave=True)
    if len(files) != 2:
        raise UsageError(
            f"got {len(files)} files: expected"
            " `impactarbiter diff OLD.json NEW.json`"
        )
    check_spared(given, files)
    old, new = Report.load(files[0]), Report.load(files[1])
    emit(diff_lines(old, new), sys.stdout)
    if "--html" in given:
        _write_page(old, new, given["--html"])
    bad = any(change.regression for change in compare(old, new))
    return REGRESSION if bad and given.get("--fail-on-regression") else 0
