"""What the processes that a watched program started have found so far.

Most programs have none: what reads jobs is imported where there are.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from os import getpid, listdir
from typing import TYPE_CHECKING

from ..base.errors import ImpactArbiterError
from ..model.report import Report

if TYPE_CHECKING:
    from .job import Job


def job_of(folder: str | None, whole: bool = True) -> Job | None:
    """The job of a folder, else what of it is this host's; None where there
    is nothing."""
    with suppress(ImpactArbiterError, OSError):
        if folder is None or not listdir(folder):
            return None
        from .job import files_of, files_of_host, read_job

        job = read_job((files_of if whole else files_of_host)(folder))
        return job if job.members else None
    return None


def children_of(job: Job | None) -> Job | None:
    """This process's own children; the others are told by their parents."""
    below = job.below(getpid()) if job is not None else None
    return below if below is not None and below.members else None


def joined(report: Report, children: Job | None) -> Report:
    """The report, and what the children have found; never an exception."""
    with suppress(Exception):
        if children is not None:
            from .job_words import children as told

            return replace(report, children=told(children))
    return report


def with_children(report: Report, folder: str | None) -> Report:
    """The same of a program that goes on, and its children with it."""
    with suppress(Exception):
        return joined(report, children_of(job_of(folder, whole=False)))
    return report
