"""What ``impactarbiter top`` follows: a process, the processes of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import ReportError
from ..model.moment import Moment
from ..model.report import Report
from ..reports.job import files_of
from ..reports.live_view import job_view, live_view

#: What is followed: its next picture, None before the first; AttachError
#: where there is none any more.
Source = Callable[[], dict[str, Any] | None]


def of_job(folder: str) -> dict[str, Any]:
    """A job's processes; ReportError where there is none."""
    files = files_of(folder)
    if not files:
        raise ReportError(
            f"{folder!r} has no file of a job yet: expected the folder of"
            " `impactarbiter run --job`"
        )
    return {"job": job_view(files)}


def of_file(file: str) -> dict[str, Any]:
    """One process of a job, as it was when its file was written."""
    report = Report.load(file)
    over = report.process is None or report.process.ended is not None
    return live_view(report, _moment(report), over)


def _moment(report: Report) -> Moment:
    resident = report.history.resident_bytes
    return Moment.of(
        [f for f in report.findings if f.confirmed],
        steps=report.steps,
        step_kind=report.step_kind,
        live_bytes=report.live_bytes,
        peak_bytes=report.peak_bytes,
        resident_bytes=resident[-1] if resident else 0,
    )
