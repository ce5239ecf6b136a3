"""What other processes of a job have found, in the launcher's last words."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from ..base.errors import ImpactArbiterError
from ..base.ranks import JOB
from ..model.words import severity_rank
from ..reports.console import TextStream, emit, line
from ..reports.job import Job, files_of, read_job
from ..reports.job_words import finding_lines, sentence
from ..reports.outputs import FOUND
from ..reports.text import Detail


def of_children(folder: str | None) -> Job | None:
    """What children of this process have left; None where none did.

    In a job the folder has all ranks' files: those of this process's
    children are told by their parent.
    """
    if folder is None or not os.path.isdir(folder):
        return None
    with suppress(ImpactArbiterError, OSError):
        job = read_job(files_of(folder))
        if os.environ.get(JOB):
            job = job.below(os.getpid())
        return job if job.members else None
    return None


def tell_of(
    job: Job | None, stream: TextStream | None, detail: Detail
) -> None:
    """One sentence, and what was found; never an exception."""
    if job is None or stream is None:
        return
    with suppress(Exception):
        lines = [line(("ImpactArbiter, children: ", "bold"), sentence(job))]
        for group in job.alarms() if detail != "short" else ():
            lines += [[], *finding_lines(job, group)]
        emit(lines, stream)


def forget(folder: str | None) -> None:
    """Removes the folder, unless the job's own."""
    if folder is not None and not os.environ.get(JOB):
        shutil.rmtree(folder, ignore_errors=True)


def gate_of_job(job: Job | None, threshold: str) -> int:
    """3 where somebody's leak is at least so severe, else 0."""
    least = severity_rank(threshold)
    found = job is not None and any(
        severity_rank(group.worst.severity) >= least for group in job.alarms()
    )
    return FOUND if found else 0
