"""Findings of lines whose storages nothing in Python leads to.

There is no holder to visit, so the line's survivors are all the evidence, as
for a holder that is found at the very report.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base.records import replace
from ..core.sources import site_of, stack_of
from ..core.wire import Status, Suspect, Unheld
from ..knowledge.advice import advise
from ..model.finding import Finding
from .allowlist import AllowList
from .holders.look import Look
from .verdicts.forecast import Forecast
from .verdicts.rules import Case, judge
from .verdicts.severity import DEFAULT_RULES


def findings(
    look: Look, forecast: Forecast, allow: AllowList, needed: int
) -> Iterator[Finding]:
    """One for each line that is suspect mostly for what C++ holds."""
    seconds = _seconds_a_step(look)
    for unheld in look.walk.unheld:
        suspect = look.suspects.get(unheld.site)
        if suspect is None or 2 * unheld.storages < suspect.survivors:
            continue
        if not _still_comes(unheld, suspect, look.status):
            continue
        finding = _finding(look, unheld, suspect, needed)
        if finding.retained_tensors and not allow.covers(finding):
            yield DEFAULT_RULES.grade(forecast.apply(finding, seconds))


def _still_comes(unheld: Unheld, suspect: Suspect, status: Status) -> bool:
    """Whether the newest is from the later half of the stretch in which the
    line keeps: a library's workspace is made once, on a line of which
    something else grows."""
    end = status.end_of(unheld.last)
    return 2 * (end - unheld.last) <= end - suspect.since


def _seconds_a_step(look: Look) -> float:
    steps = look.status.counts[look.kind]
    return look.status.elapsed_seconds / max(steps, 1)


def _finding(
    look: Look, unheld: Unheld, suspect: Suspect, needed: int
) -> Finding:
    status = look.status
    age = status.end_of(unheld.last) - suspect.since
    rule = judge(Case(root="native", gained=True, age=age, needed=needed))
    # From one birth to the last there is one step less than there are.
    steps = max(unheld.generations, 2)
    pace = (steps - 1) / steps / max(unheld.last - unheld.first, 1)
    finding = Finding(
        verdict=rule.verdict or "growing",
        rule=rule.name,
        allocated_at=site_of(unheld.site),
        stack=stack_of(unheld.stack),
        bytes_per_step=unheld.bytes * pace,
        tensors_per_step=unheld.storages * pace,
        retained_bytes=unheld.bytes,
        retained_tensors=unheld.storages,
        generations=unheld.generations,
        first_step=look.step(unheld.first),
        last_step=look.step(unheld.last),
        phase=look.phases[suspect.phase] or None,
        trains=status.trained,
        confirmation=rule.words if rule.verdict == "growing" else None,
        note=f"on {unheld.device}; no object of Python's leads there",
    )
    return replace(finding, advice=advise(finding))
