"""The run as a trace that ui.perfetto.dev and trace_processor load.

The JSON trace-event format: counters of memory, slices for phases, instants
where findings began and were confirmed.  Times are microseconds.
"""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..base.files import write_atomic
from ..base.text import clean
from ..model.finding import Finding
from ..model.history import History
from ..model.report import Report
from .wording import headline

#: Where a report has no times (an older one), a step takes so long.
_STEP = 1e-3
#: Threads of the trace: rows on which slices and instants are drawn.
_PHASES, _FINDINGS = 1, 2

Event = dict[str, Any]


def write_perfetto(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes it atomically; ReportError where it can't."""
    text = json.dumps(trace(report), ensure_ascii=True)
    write_atomic(path, text.encode())


def trace(report: Report) -> dict[str, Any]:
    """The whole trace, as JSON has it."""
    rank = report.environment.get("rank", "0")
    pid = 1 + (int(rank) if rank.isdecimal() else 0)
    times = _times(report.history)
    events = [
        *_names(pid),
        *_counters(report, times),
        *_phases(report.history, times),
        *_findings(report, times),
    ]
    return {
        "traceEvents": [{"pid": pid, **event} for event in events],
        "displayTimeUnit": "ms",
        "otherData": {
            "tool": "impactarbiter",
            "steps": report.steps,
            "step_kind": report.step_kind,
        },
    }


def _times(history: History) -> Sequence[float]:
    return history.seconds or tuple(step * _STEP for step in history.steps)


def _at(times: Sequence[float], index: int) -> float:
    return round(times[index] * 1e6, 3)


def _names(pid: int) -> Iterator[Event]:
    yield {
        "ph": "M",
        "name": "process_name",
        "args": {"name": f"rank {pid - 1}, memory"},
    }
    for thread, name in ((_PHASES, "phases"), (_FINDINGS, "findings")):
        yield {
            "ph": "M",
            "tid": thread,
            "name": "thread_name",
            "args": {"name": name},
        }


def _counters(report: Report, times: Sequence[float]) -> Iterator[Event]:
    history = report.history
    columns: list[tuple[str, Sequence[int | None]]] = [
        (f"live {report.noun} memory", history.live_bytes),
        ("resident memory", history.resident_bytes),
        ("device memory in use", history.allocated_bytes),
        ("device memory reserved", history.reserved_bytes),
    ]
    columns += [
        (f"line {clean(str(line.site))}", line.live_bytes)
        for line in history.lines
    ]
    for name, sizes in columns:
        for index, size in enumerate(sizes):
            if size is not None:
                yield _counter(name, _at(times, index), size)
    for step, size in zip(history.node_steps, history.node_bytes, strict=True):
        yield _counter("autograd nodes", _of_step(history, times, step), size)


def _counter(name: str, time: float, size: int) -> Event:
    return {"ph": "C", "name": name, "ts": time, "args": {"bytes": size}}


def _of_step(history: History, times: Sequence[float], step: int) -> float:
    """When a step ended: the first point that has it behind it."""
    if not times:
        return round(step * _STEP * 1e6, 3)
    index = bisect.bisect_left(history.steps, step)
    return _at(times, min(index, len(times) - 1))


def _phases(history: History, times: Sequence[float]) -> Iterator[Event]:
    """``epoch 3/validation`` is a slice within a slice.

    What a point says holds since the point before it.
    """
    paths = [phase.split("/") if phase else [] for phase in history.phases]
    depth = max(map(len, paths), default=0)
    for level in range(1, depth + 1):
        began = 0
        for index in range(1, len(paths) + 1):
            here = paths[began][:level]
            if index < len(paths) and paths[index][:level] == here:
                continue
            if len(here) == level:
                begin = _at(times, began - 1) if began else _at(times, 0)
                yield {
                    "ph": "X",
                    "tid": _PHASES,
                    "name": clean(here[-1]),
                    "ts": begin,
                    "dur": round(_at(times, index - 1) - begin, 3),
                }
            began = index


def _findings(report: Report, times: Sequence[float]) -> Iterator[Event]:
    every: Iterable[Finding] = (*report.findings, *report.taken_back)
    for finding in every:
        marks = [("began", finding.first_step)]
        if finding.confirmed_step is not None:
            marks.append(("confirmed", finding.confirmed_step))
        for word, step in marks:
            yield {
                "ph": "i",
                "s": "p",
                "tid": _FINDINGS,
                "name": f"{finding.verdict} {word}: "
                + clean(str(finding.site)),
                "ts": _of_step(report.history, times, step),
                "args": {
                    "step": step,
                    "severity": finding.severity,
                    "says": clean(headline(finding)),
                    "path": clean(str(finding.path or "")),
                    "rule": finding.rule,
                },
            }
