"""What other processes of a job have found, in the launcher's last words.

Most programs have no children: what reads jobs is imported where there are.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from ..base.ranks import LED, job_folder
from ..base.records import dataclass
from ..model.report import Report
from ..model.words import severity_rank
from ..reports.children import children_of, job_of, joined
from ..reports.console import TextStream, emit, line
from ..reports.outputs import FOUND, UNJUDGED
from ..reports.text import Detail

if TYPE_CHECKING:
    from ..reports.job import Job


@dataclass(frozen=True)
class Family:
    """What is in the folder that children write into: of the whole ``job``,
    and of this process's own ``children``."""

    job: Job | None
    children: Job | None

    def join(self, report: Report) -> Report:
        """The report, and what the children have found."""
        return joined(report, self.children)


def family_of(folder: str | None, rank: int | None) -> Family:
    """What there is now; a folder of our choice is removed."""
    alone = job_folder() is None
    job = children = job_of(folder, alone or speaks_for_all(rank))
    if alone:
        forget(folder)
    else:
        children = children_of(job)
    return Family(job, children)


def last_words(
    family: Family,
    rank: int | None,
    stream: TextStream | None,
    detail: Detail,
) -> None:
    """After a process's own report: what its children found, and on rank 0
    what the whole job has found so far."""
    children = family.children
    if os.environ.get(LED):
        pass  # whoever has started us waits for all
    elif speaks_for_all(rank):
        tell_of(family.job, "job so far", stream, detail)
    elif children is not None and (not rank or children.alarms()):
        tell_of(children, "children", stream, detail)


def speaks_for_all(rank: int | None) -> bool:
    """Whether this is rank 0 of a job, and nobody waits for all of it."""
    led = bool(os.environ.get(LED))
    return rank == 0 and not led and job_folder() is not None


def tell_of(
    job: Job | None, whose: str, stream: TextStream | None, detail: Detail
) -> None:
    """One sentence, and what was found; never an exception."""
    if job is None or stream is None:
        return
    with suppress(Exception):
        from ..reports.job_words import finding_lines, sentence

        head = (f"ImpactArbiter, {whose}: ", "bold")
        lines = [line(head, sentence(job))]
        for group in job.alarms() if detail != "short" else ():
            lines += [[], *finding_lines(job, group)]
        emit(lines, stream)


def forget(folder: str | None) -> None:
    """Removes a folder of our choice."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def gate_of_job(job: Job | None, threshold: str) -> int:
    """3 where somebody's leak is at least so severe, 4 where somebody's last
    report could not be made, else 0."""
    if job is None:
        return 0
    least = severity_rank(threshold)
    if any(severity_rank(g.worst.severity) >= least for g in job.alarms()):
        return FOUND
    return UNJUDGED if job.unjudged() else 0
