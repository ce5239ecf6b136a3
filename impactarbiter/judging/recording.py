"""The criterion on what another tool recorded: lines, and no holders.

Nothing of the program's objects is in a recording, so no line is called a
leak here: a buffer that fills for the first time looks the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base.units import plural
from ..core import traces
from ..model.finding import Finding
from ..model.recording import RECORDED, Block, Recording
from ..model.report import History, LineBytes, Report
from .verdicts.severity import DEFAULT_RULES

#: Whose recording it is.
TORCH = "torch.cuda.memory"
#: Lines that are listed.
MOST_LINES = 20
#: Points of the curve of live bytes.
MOST_POINTS = 2000
#: Ages that bytes are told by: equal parts of the recording.
AGES = 4
#: A clock of allocations has no steps: growth must go on for half of the
#: recording, and for so many of them, before it is told.
LEAST_ALLOCATIONS = 256

_CONFIRM = "`impactarbiter run`, which sees who holds what this line makes"
_ADVICE = (
    "Look at who keeps what this line makes: a snapshot has no Python"
    " objects, so neither holder nor path can be told from it"
)


def report_of(recordings: Sequence[Recording]) -> Report:
    """One report of all devices; its steps are the busiest one's."""
    if not recordings:
        return Report(
            recorded_by=TORCH, warnings=("nothing was recorded in it",)
        )
    main = max(recordings, key=lambda one: len(one.events))
    findings = [f for one in recordings for f in _findings(one)]
    kept = sum(f.retained_bytes for f in findings)
    older = sum(b.bytes for one in recordings for b in _older(one))
    live = sum(b.bytes for one in recordings for b in one.blocks)
    levels = _levels(main)
    steps = main.end if len(main.events) else 0
    return Report(
        findings=tuple(DEFAULT_RULES.grade(f) for f in findings),
        steps=steps,
        step_kind=main.kind,
        live_bytes=live,
        peak_bytes=max(live, int(levels.max(initial=0))),
        accounted={
            "findings": kept,
            "before_recording": older,
            "other": live - kept - older,
        },
        warnings=tuple(_warnings(recordings)),
        environment={"recorded by": TORCH, **_environment(recordings)},
        history=_curve(main, levels),
        needed_steps=_needed(main),
        recorded_by=TORCH,
        lines=_lines(recordings),
    )


def _needed(recording: Recording) -> int:
    by_call = recording.kind != "allocation"
    return traces.NEEDED if by_call else 2 * LEAST_ALLOCATIONS


def _older(recording: Recording) -> Iterable[Block]:
    return (block for block in recording.blocks if block.born < 0)


# -- findings -----------------------------------------------------------------


def _findings(recording: Recording) -> list[Finding]:
    """A finding for each line that keeps what it makes."""
    end = recording.end
    if recording.kind == "allocation":
        answers = traces.ask(
            recording.events,
            len(recording.sites),
            end,
            warmup=0,
            age=max(LEAST_ALLOCATIONS, end // 2),
        )
    else:
        answers = traces.ask(recording.events, len(recording.sites), end)
    # Line 0 is that of all that came without frames.
    return [
        _finding(recording, site, kept)
        for site, kept in enumerate(answers)
        if kept.kinds and site
    ]


def _finding(recording: Recording, site: int, kept: traces.Kept) -> Finding:
    events = recording.events[recording.events[:, 0] == site]
    span = max(recording.end - kept.since, 1)
    alive = [b for b in recording.blocks if b.site == site]
    if kept.by_bytes:
        before = int(events[events[:, 1] < kept.since, 3].sum())
        rate, count = (kept.live_bytes - before) / span, 0.0
        young = alive
    else:
        young = [b for b in alive if b.born >= kept.since]
        rate, count = sum(b.bytes for b in young) / span, len(young) / span
    born = sorted({b.born for b in young}) or [kept.since]
    return Finding(
        verdict="growing",
        allocated_at=recording.sites[site],
        bytes_per_step=rate,
        tensors_per_step=count,
        retained_bytes=sum(b.bytes for b in young),
        retained_tensors=len(young),
        generations=len(born),
        first_step=born[0] + 1,
        last_step=born[-1] + 1,
        stack=recording.stacks[site],
        rule=RECORDED,
        confirmation=_CONFIRM,
        advice=_ADVICE,
        note=_note(recording, kept),
    )


def _note(recording: Recording, kept: traces.Kept) -> str:
    text = f"on cuda:{recording.device}"
    unit: str = recording.kind
    if unit != "allocation":
        unit = f"{unit} step" if unit == "optimizer" else f"{unit} call"
    if kept.life:
        text += (
            "; nothing of this line that was let go had lived longer than"
            f" {plural(kept.life, unit)}"
        )
    if recording.seconds and recording.end > kept.since:
        steps = recording.end / recording.seconds
        text += f"; {plural(round(steps, 1), unit)} a second"
    return text


# -- the rest -----------------------------------------------------------------


def _levels(recording: Recording) -> np.ndarray[Any, Any]:
    """Live bytes after each event."""
    if not len(recording.events):
        return np.zeros(0, np.int64)
    levels: np.ndarray[Any, Any] = np.cumsum(recording.events[:, 3])
    at_end = sum(block.bytes for block in recording.blocks)
    levels += max(at_end - int(levels[-1]), 0)
    return levels.clip(0)


def _curve(recording: Recording, levels: np.ndarray[Any, Any]) -> History:
    """Live bytes at the end of each position; a long recording is thinned."""
    if not len(levels):
        return History()
    positions = recording.events[:, 1]
    last = np.append(np.flatnonzero(np.diff(positions)), len(levels) - 1)
    stride = -(-len(last) // MOST_POINTS)
    last = last[::-stride][::-1]
    return History(
        tuple((positions[last] + 1).tolist()), tuple(levels[last].tolist())
    )


def _lines(recordings: Sequence[Recording]) -> tuple[LineBytes, ...]:
    found: list[LineBytes] = []
    for recording in recordings:
        bounds, names = _ages(recording)
        by_site: dict[int, list[Block]] = {}
        for block in recording.blocks:
            by_site.setdefault(block.site, []).append(block)
        for site, blocks in by_site.items():
            ages = dict.fromkeys(names, 0)
            for block in blocks:
                ages[names[bisect_right(bounds, block.born)]] += block.bytes
            found.append(
                LineBytes(
                    recording.sites[site],
                    sum(ages.values()),
                    len(blocks),
                    ages,
                )
            )
    found.sort(key=lambda line: -line.bytes)
    return tuple(found[:MOST_LINES])


def _ages(recording: Recording) -> tuple[list[int], list[str]]:
    """Positions at which an age begins, and the ages' names, oldest first."""
    if not len(recording.events):
        return [], ["unknown age"]
    parts = min(AGES, max(recording.end, 1))
    bounds = [recording.end * part // parts for part in range(parts)]
    ends = [*bounds[1:], max(recording.end, 1)]
    return bounds, [
        "before the recording",
        *(
            f"{recording.kind} {begin + 1}-{end}"
            for begin, end in zip(bounds, ends, strict=True)
        ),
    ]


def _environment(recordings: Sequence[Recording]) -> dict[str, str]:
    return {
        f"cuda:{one.device}": (
            f"{plural(len(one.events), 'event')},"
            f" {plural(len(one.blocks), 'block')} alive,"
            f" {one.reserved_bytes} bytes reserved"
        )
        for one in recordings
    }


def _warnings(recordings: Sequence[Recording]) -> Iterable[str]:
    yield (
        "a snapshot has no Python objects: who holds what grows, by which"
        " path, and whether it has a bound cannot be told from it"
    )
    for one in recordings:
        if one.ooms:
            times = plural(one.ooms, "time")
            yield f"memory of cuda:{one.device} ran out {times}"
        if not len(one.events):
            yield (
                f"no allocation of cuda:{one.device} was recorded: call"
                " torch.cuda.memory._record_memory_history() at the begin"
            )
        elif one.kind == "allocation":
            yield (
                f"no step can be told on cuda:{one.device} (neither an"
                " optimizer nor a backward was seen): a step here is one"
                " allocation"
            )
        nameless = sum(b.bytes for b in one.blocks if not b.site)
        if 2 * nameless > sum(b.bytes for b in one.blocks):
            yield (
                f"most memory of cuda:{one.device} came without frames of"
                " Python: record with stacks='python' or 'all'"
            )
