"""``run`` before a launcher: its processes are watched, and the last word for
all of them is said here, where all of them have ended."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..base.errors import in_words
from ..base.files import from_working_folder
from ..base.ranks import JOB, LED, job_folder
from ..reports.children import job_of
from ..reports.console import TextStream, say
from ..reports.outputs import STDOUT
from ..reports.text import Detail
from . import distributed, launch
from .family import forget, tell_of

if TYPE_CHECKING:
    from ..reports.job import Job


def planned(args: list[str], rest: list[str]) -> distributed.Handover | None:
    """What is to be led; None: an ordinary program.

    Becomes plain Python where the processes are not watched.
    """
    own = args[: len(args) - len(rest)]
    options = own[:-1] if own[-1:] == ["--"] else own
    plan = distributed.handover(rest, options)
    if plan is None:
        return None
    if plan.said:
        say(plan.said, sys.stderr)
    if plan.module:
        return plan
    launch.hand_over(plan.argv)
    raise launch.LaunchError(
        "cannot start python in our place: expected sys.executable to be it"
    )


class Lead:
    """One launcher that runs in this process.

    Its processes write into ``job``, else beside the report, else into a
    folder that is there as long as they are.  A folder of our choice is no
    other machine's: where there are some, there is none.
    """

    def __init__(
        self, plan: distributed.Handover, job: str | None, report: str | None
    ) -> None:
        self.target: launch.Target = launch.main_target(
            plan.module, plan.argv[2:]
        )
        self._passing = False
        self._folder: str | None = job or job_folder()
        if self._folder is None and not plan.nodes:
            if report not in (None, STDOUT):
                self._folder = os.path.splitext(str(report))[0] + ".job"
            else:
                self._folder = _folder_of_ours()
                self._passing = self._folder is not None
        if self._folder is not None:
            self._folder = from_working_folder(self._folder)
            os.environ[JOB] = self._folder
            os.environ[LED] = "1"

    def end(self, stream: TextStream | None, detail: Detail) -> Job | None:
        """Says what was found; the job, where there is one."""
        job = job_of(self._folder)
        tell_of(job, "job", stream, detail)
        if self._passing:
            forget(self._folder)
        return job


def _folder_of_ours() -> str | None:
    """A name for one; None where no folder can be written, which is said."""
    from ..watching.armed import passing_folder

    try:
        return passing_folder()
    except OSError as error:
        said = f"what the processes find is not gathered: {in_words(error)}"
        say(f"warning: {said}", sys.stderr)
        return None
