"""What is shown of a run that goes on: a page and a terminal show the same.

Plain texts and numbers of bounded length, made of a report at a glance, and
so masked where the report is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..base.text import clean
from ..base.units import format_bytes
from ..model.finding import Finding
from ..model.moment import Moment
from ..model.order import by_urgency
from ..model.report import Report
from ..model.words import BOUNDED
from .first_line import summary
from .job import read_job
from .job_dict import job_to_dict
from .status import status_text
from .wording import headline

#: Points of the timeline, rows of a table, and characters of a text.
MOST_POINTS = 300
MOST_ROWS = 12
MOST_TEXT = 300
#: Processes of a job that are shown.
MOST_PROCESSES = 256


def live_view(report: Report, moment: Moment, over: bool) -> dict[str, Any]:
    """The whole picture: who misses one loses nothing by it."""
    findings = list(by_urgency(report.findings))
    return {
        "over": over,
        "noun": report.noun,
        "summary": _text(summary(report)) if over else "",
        "status": status_text(moment),
        "moment": asdict(moment),
        "timeline": _timeline(report, moment),
        "findings": [_finding(f) for f in findings[:MOST_ROWS]],
        "findings_left_out": max(0, len(findings) - MOST_ROWS),
        "lines": _lines(report),
        "holders": _holders(findings),
    }


#: Columns of ``job_view``'s processes.
JOB_COLUMNS = ("rank", "role", "pid", "state", "steps", "live", "peak")


def job_view(files: Iterable[str]) -> dict[str, Any]:
    """What each process of a job does, and the answer for all of them.

    ``rows`` are cells, as JOB_COLUMNS says; ``files`` stand beside them.
    """
    job = job_to_dict(read_job(files))
    shown = job["processes"][:MOST_PROCESSES]
    return {
        "answer": _text(job["answer"]),
        "columns": list(JOB_COLUMNS),
        "rows": [_process(process) for process in shown],
        "files": [process["file"] for process in shown],
        "left_out": len(job["processes"]) - len(shown),
    }


def _process(process: dict[str, Any]) -> list[str]:
    role = process["role"]
    if process["worker"] is not None:
        role += f" {process['worker']}"
    return [
        "" if process["rank"] is None else str(process["rank"]),
        role,
        str(process["pid"]),
        _text(process["state"]),
        f"{process['steps']:,}",
        format_bytes(process["live_bytes"]),
        format_bytes(process["peak_bytes"]),
    ]


def _text(text: str) -> str:
    text = clean(text)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 3] + "..."


def _timeline(report: Report, moment: Moment) -> dict[str, list[float]]:
    """What was measured, with the moment as its last point."""
    history = report.history
    stride = -(-len(history.steps) // MOST_POINTS) or 1
    chosen = range(0, len(history.steps), stride)
    resident = history.resident_bytes
    columns: dict[str, list[float]] = {
        "steps": [history.steps[i] for i in chosen],
        "live": [history.live_bytes[i] for i in chosen],
        "resident": [resident[i] for i in chosen] if resident else [],
    }
    if not columns["steps"] or moment.steps > columns["steps"][-1]:
        columns["steps"].append(moment.steps)
        columns["live"].append(moment.live_bytes)
        if len(columns["resident"]) == len(columns["steps"]) - 1:
            columns["resident"].append(moment.resident_bytes)
    return columns


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "verdict": finding.verdict,
        "severity": finding.severity,
        "bounded": finding.verdict in BOUNDED,
        "says": _text(headline(finding)),
        "at": _text(str(finding.site)),
        "source": _text(finding.site.source),
        "path": _text(str(finding.path)) if finding.path else "",
        "do": _text(finding.advice),
        "rate": format_bytes(finding.all_bytes_per_step),
        "since": finding.first_step,
    }


def _lines(report: Report) -> list[dict[str, Any]]:
    """The lines that hold most, as of the last point that was measured."""
    now = [(c.live_bytes[-1], c.site) for c in report.history.lines]
    sized = [(size, site) for size, site in now if size]
    sized.sort(key=lambda pair: -pair[0])
    return [
        {
            "bytes": size,
            "size": format_bytes(size),
            "at": _text(str(site)),
            "source": _text(site.source),
        }
        for size, site in sized[:MOST_ROWS]
    ]


def _holders(findings: list[Finding]) -> list[dict[str, Any]]:
    """What holds most: leaks, and what has a bound as well."""
    held = sorted(findings, key=lambda f: -_held(f))
    return [
        {
            "expression": _text(finding.holder.expression),
            "type": _text(finding.holder.type),
            "length": finding.holder.length,
            "bytes": _held(finding),
            "size": format_bytes(_held(finding)),
            "verdict": finding.verdict,
        }
        for finding in held[:MOST_ROWS]
        if finding.holder is not None
    ]


def _held(finding: Finding) -> int:
    """Tensors, and the nodes of the graph behind them."""
    nodes = 0 if finding.graph is None else finding.graph.node_bytes
    return finding.retained_bytes + nodes
