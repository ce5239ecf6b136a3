"""``impactarbiter merge``: the ranks of one job, side by side."""

from __future__ import annotations

import sys

from ..base.errors import UsageError
from ..base.units import format_bytes, format_count, plural
from ..model.order import by_urgency
from ..model.report import Report
from ..reports.console import Line, emit, line
from ..reports.wording import subject
from .groups import FindingGroup, group_findings
from .options import parse

HELP = """\
usage: impactarbiter merge RANK0.json RANK1.json ...

Puts the reports of one job's ranks side by side: a column per rank, a row
per finding. A rank is named by its report, else by its place in the list.
"""


def rank_names(reports: list[Report]) -> list[str]:
    """``rank N`` by the reports' environment, else by position.

    Positions name all of them when two reports claim the same rank.
    """
    given = [report.environment.get("rank") for report in reports]
    if None in given or len(set(given)) != len(given):
        return [f"rank {index}" for index in range(len(reports))]
    return [f"rank {name}" for name in given]


def merge_lines(reports: list[Report]) -> list[Line]:
    """First the verdict, then totals, then a row per finding."""
    names = rank_names(reports)
    groups = [group_findings(report) for report in reports]
    every = by_urgency(g.first for found in groups for g in found.values())
    signatures = list(dict.fromkeys(finding.signature for finding in every))
    total = len(reports)
    verdict = (
        f"{plural(len(signatures), 'finding')} over {total} ranks"
        if signatures
        else f"no findings on any of {total} ranks"
    )
    style = "bold red" if signatures else "bold green"
    lines = [line(("ImpactArbiter merge: ", "bold"), (verdict, style)), []]
    width = max(10, *(len(name) for name in names))
    lines.append(_row("", names, width, "bold"))
    for label, values in (
        ("steps", [format_count(r.steps) for r in reports]),
        ("live", [format_bytes(r.live_bytes) for r in reports]),
        ("peak", [format_bytes(r.peak_bytes) for r in reports]),
    ):
        lines.append(_row(label, values, width))
    for signature in signatures:
        found = [group.get(signature) for group in groups]
        lines.append([])
        lines.extend(_finding_rows(found, width))
    return lines


def _finding_rows(found: list[FindingGroup | None], width: int) -> list[Line]:
    present = [group for group in found if group is not None]
    worst = max(present, key=lambda group: group.rank)
    where = f"on {len(present)} of {len(found)} ranks"
    head = f"{worst.severity.upper()} {worst.first.verdict}: "
    lines = [line((head, "bold"), f"{subject(worst.first)}, {where}")]
    if worst.first.site.known:
        lines.append(line(f"  {worst.first.site}"))
    rates = [
        format_bytes(group.bytes_per_step) if group else "-" for group in found
    ]
    held = [
        format_bytes(group.retained_bytes) if group else "-" for group in found
    ]
    lines.append(_row("a step", rates, width))
    lines.append(_row("retained", held, width))
    return lines


def _row(label: str, values: list[str], width: int, style: str = "") -> Line:
    cells = "".join(f"  {value:>{width}}" for value in values)
    return line((f"  {label:<9}{cells}", style))


def execute(args: list[str]) -> int:
    """0; UsageError below two files."""
    _, files = parse("merge", {}, args, interleave=True)
    if len(files) < 2:
        raise UsageError(
            f"got {len(files)} files: expected"
            " `impactarbiter merge RANK0.json RANK1.json ...`"
        )
    emit(merge_lines([Report.load(file) for file in files]), sys.stdout)
    return 0
