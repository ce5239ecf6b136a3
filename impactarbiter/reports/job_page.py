"""A job as one static page: the answer, and a small curve a process."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator

from ..base.text import clean
from ..base.units import format_bytes
from .job import Job
from .job_words import (
    MOST_TOLD,
    before_a_restart,
    finding_facts,
    overview,
    sentence,
    who,
)
from .wording import subject

#: Curves that are shown: of all processes that something was found in first.
MOST_CURVES = 256
_WIDTH, _HEIGHT = 160, 40

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
{again}<title>ImpactArbiter: a job</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem;
  margin: 0 auto; padding: 1rem; color: #1c1e21; background: #fff; }
h1 { font-size: 1.15rem; } h2 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
dl { display: grid; grid-template-columns: 6rem 1fr; gap: 0 .8rem; margin: 0; }
dt { color: #5b6370; } dd { margin: 0; overflow-wrap: anywhere; }
.curves { display: grid; gap: .6rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); }
figure { margin: 0; } figcaption { font-size: .75rem; }
svg { width: 100%; background: #f4f5f7; display: block; }
polyline { fill: none; stroke: #5b6370; stroke-width: 1.2; }
.found polyline { stroke: #c62828; } .lost svg { background: #fbe9d0; }
@media screen and (prefers-color-scheme: dark) {
  body { color: #e4e6ea; background: #17191c; } svg { background: #24272c; }
  .lost svg { background: #4a3413; } .found polyline { stroke: #ff8a80; }
  polyline, dt { stroke: #a3abb8; color: #a3abb8; } }
</style></head><body>
"""


def job_page(job: Job, again: float | None = None) -> str:
    """A whole page: no scripts, nothing loaded from outside; it loads itself
    ``again`` after so many seconds."""
    return "".join(_parts(job, again))


def _text(text: str) -> str:
    return html.escape(clean(text))


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = (f"<dt>{_text(a)}</dt><dd>{_text(b)}</dd>\n" for a, b in facts)
    return f"<dl>{''.join(rows)}</dl>\n"


def _parts(job: Job, again: float | None) -> Iterator[str]:
    refresh = ""
    if again is not None:
        refresh = f'<meta http-equiv="refresh" content="{again:.0f}">\n'
    yield _HEAD.replace("{again}", refresh)
    yield f"<h1>ImpactArbiter: {_text(sentence(job))}</h1>\n"
    yield _facts(overview(job))
    for group in job.findings()[:MOST_TOLD]:
        worst = group.worst
        head = f"{worst.severity.upper()} {worst.verdict}: {subject(worst)}"
        yield f"<h2>{_text(head)}</h2>\n{_facts(finding_facts(job, group))}"
    earlier = before_a_restart(job)
    if earlier:
        yield "<h2>Before a restart</h2>\n"
    for text in earlier:
        yield f"<p>{_text(text)}</p>\n"
    found = {n for group in job.alarms() for n in group.rates}
    yield from _curves(job, found)
    for name, reason in job.skipped:
        yield f"<p>skipped {_text(name)}: {_text(reason)}</p>\n"
    yield "</body></html>\n"


def _curves(job: Job, found: set[int]) -> Iterator[str]:
    """All on one scale, so that one that differs stands out."""
    old, lost = job.earlier(), set(job.lost())
    there = [n for n in range(len(job.members)) if n not in old]

    def order(number: int) -> tuple[bool, int, int]:
        process = job.members[number].process
        rank = -1 if process.rank is None else process.rank
        return number not in found and number not in lost, rank, number

    there.sort(key=order)
    shown = there[:MOST_CURVES]
    top = max([1, *(max(job.members[n].curve, default=0) for n in shown)])
    yield f"<p>live memory over the steps; the top is {format_bytes(top)}"
    if len(there) > len(shown):
        yield f"; {len(shown):,} of {len(there):,} processes"
    yield '</p>\n<div class="curves">\n'
    for number in shown:
        member = job.members[number]
        role = member.process.role
        name = _text(who(job, role, [number]).partition(" of ")[0])
        if role == "dataloader":
            name = _text(who(job, role, [number]))
        marks = " ".join(
            word
            for word, numbers in (("found", found), ("lost", lost))
            if number in numbers
        )
        points = _points(member.curve, top)
        state = _text(job.state(number))
        yield (
            f'<figure class="{marks}"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            f' preserveAspectRatio="none"><polyline points="{points}"/></svg>'
            f"<figcaption>{name}: {format_bytes(member.live_bytes)},"
            f" {member.steps:,} steps, {state}</figcaption></figure>\n"
        )
    yield "</div>\n"


def _points(curve: tuple[int, ...], top: int) -> str:
    last = max(len(curve) - 1, 1)
    return " ".join(
        f"{at / last * _WIDTH:.1f},{_HEIGHT - size / top * (_HEIGHT - 2):.1f}"
        for at, size in enumerate(curve)
    )
