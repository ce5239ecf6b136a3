"""A flight recorder's bundle as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.units import format_bytes, plural
from ..core.bundle import KINDS
from ..model.words import BOUNDED
from .console import Line, TextStream, emit, line, plain
from .text import report_lines
from .wording import subject

if TYPE_CHECKING:
    from ..model.bundle import Bundle
    from ..model.finding import Finding

#: Lines and holders that are listed.
TOP = 10


def bundle_lines(bundle: Bundle) -> list[Line]:
    """What happened, what was alive, who held it, and the report."""
    head = bundle.header
    asked = head.asked_bytes
    wanted = f", {format_bytes(asked)} more were wanted" if asked else ""
    lines = [
        line(
            ("Flight recorder: ", "bold"),
            (f"{head.reason} on {head.device}{wanted}", "bold red"),
        ),
        line(
            f"  at step {head.step} of process {head.pid}:"
            f" {format_bytes(head.live_bytes)} alive in"
            f" {plural(head.live_count, 'storage')},"
            f" {format_bytes(head.peak_bytes)} at the peak,"
            f" {format_bytes(head.resident_bytes)} resident"
        ),
        *_cause_lines(bundle),
        [],
        line(("alive by line", "bold")),
    ]
    lines += [
        line(f"  {format_bytes(size):>10} {count:>7} \u00d7 {site}")
        for site, count, size in bundle.by_site()[:TOP]
    ]
    lines += _holder_lines(bundle)
    lines += _event_lines(bundle)
    if bundle.report is not None:
        lines += [[], *report_lines(bundle.report)]
    return lines


def _cause_lines(bundle: Bundle) -> list[Line]:
    """Which finding took the memory, and since when that was known."""
    report = bundle.report
    taken = {} if report is None else {f: _kept(f) for f in report.findings}
    alarms = [f for f in taken if f.verdict not in BOUNDED]
    if report is None or not alarms:
        return []
    worst = max(alarms, key=lambda finding: taken[finding])
    said = (
        f"  taken by {subject(worst)} ({worst.verdict}):"
        f" {format_bytes(taken[worst])}"
    )
    if worst.confirmed_step is not None:
        earlier = report.steps - worst.confirmed_step
        said += (
            f"; known since step {worst.confirmed_step},"
            f" {plural(earlier, 'step')} before"
        )
    return [line((said, "bold"))]


def _kept(finding: Finding) -> int:
    nodes = finding.graph.node_bytes if finding.graph else 0
    return finding.retained_bytes + nodes


def _holder_lines(bundle: Bundle) -> list[Line]:
    if not bundle.holders:
        return []
    lines = [[], line(("held by", "bold"))]
    lines += [
        line(f"  {format_bytes(h.bytes):>10} {h.storages:>7} \u00d7 {h.path}")
        for h in bundle.holders[:TOP]
    ]
    return lines


def _event_lines(bundle: Bundle) -> list[Line]:
    """How much was born and died among the events that are kept."""
    events, all_events = bundle.events, bundle.header.all_events
    if not len(events):
        return []
    born, died = (
        events["kind"] == KINDS.index(kind) for kind in ("birth", "death")
    )
    seconds = (
        int(events["nanoseconds"][-1]) - int(events["nanoseconds"][0])
    ) / 1e9
    said = (
        f"the last {plural(len(events), 'event')} of {all_events:,}, in"
        f" {seconds:.3g} s: {format_bytes(events['bytes'][born].sum())} born"
        f" in {plural(int(born.sum()), 'storage')},"
        f" {format_bytes(events['bytes'][died].sum())} died in"
        f" {plural(int(died.sum()), 'storage')}"
    )
    return [[], line((said, "dim"))]


def bundle_text(bundle: Bundle) -> str:
    """The whole bundle without colour."""
    return plain(bundle_lines(bundle))


def print_bundle(bundle: Bundle, stream: TextStream) -> None:
    """Writes it to ``stream``, coloured where it is a terminal."""
    emit(bundle_lines(bundle), stream)
