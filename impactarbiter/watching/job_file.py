"""One process's file in the folder of its job.

It is written when the watch begins, at looks that changed something or come
some time after the last, and at the end: whatever ends the process, what was
known last is there.  Each process writes a file of its own and reads none:
nobody waits for anybody.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from os import getpid
from time import monotonic, time

from ..base.files import write_atomic
from ..base.ranks import MASKED_HOST, host_name, place, runs_beside
from ..base.records import replace
from ..base.signals import Tolerated, is_programs
from ..base.text import clean
from ..model.process import FINISHED, Process
from ..model.report import Report
from ..reports.jsonio import report_json

#: Seconds after which a file is written anew though nothing was found.
REFRESH = 10.0
#: Looks come so often, too: one that is a little early counts.
EARLY = 0.9
#: A folder that is slow is written to so much more rarely: a write takes at
#: most this share of the time.
SHARE = 0.01


def this_process(
    role: str = "train", worker: int | None = None, parent: int | None = None
) -> Process:
    """This process as its environment knows it, from now on."""
    where = place()
    now = time()
    return Process(
        role=role,
        rank=where.rank,
        owns_rank=role in ("train", "server"),
        local_rank=where.local_rank,
        world_size=where.size,
        host=host_name(),
        pid=getpid(),
        parent=parent or os.getppid(),
        worker=worker,
        restart=where.restart,
        begin=now,
        seen=now,
    )


def with_rank(process: Process) -> Process:
    """With the rank that the program gave itself, where it did.

    What ``init_process_group()`` was told is read without a collective.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or process.role == "dataloader":
        return process
    try:
        if not (distributed.is_available() and distributed.is_initialized()):
            return process
        return replace(
            process,
            rank=int(distributed.get_rank()),
            world_size=int(distributed.get_world_size()),
            owns_rank=True,
        )
    except Exception:
        return process


def _leaves_at_once() -> bool:
    """Whether this is a child of multiprocessing's, which calls what its own
    ``Finalize`` has and leaves by ``os._exit()``."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def ending() -> str:
    """How a program ends that is at its end: by the last exception, which
    nobody has caught."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 1
        return f"exit {code}" if error.code else FINISHED
    return FINISHED if error is None else type(error).__name__


class JobFile:
    """Follows one watch and keeps its file.

    ``glance()`` is the report as far as looks have settled it; ``masked``:
    nothing may say which host this is.
    """

    def __init__(
        self,
        folder: str,
        process: Process,
        glance: Callable[[], Report],
        masked: bool = False,
    ) -> None:
        self.folder: str = os.path.abspath(folder)
        if masked:
            process = replace(process, host=MASKED_HOST)
        self.process: Process = process
        #: Its parent throws the folder away when it has read what is there.
        self.is_passing = False
        #: How the process is about to end, once somebody knows.
        self.ending: str | None = None
        #: A process without a step leaves no file.
        self.only_with_steps = False
        self._glance = glance
        self._known: object = None
        self._due = 0.0
        self._path = ""
        self._complained = False
        self._over = False

    @property
    def _is_here(self) -> bool:
        return not self._over and getpid() == self.process.pid

    def begin(self, stop: Callable[[], object]) -> None:
        """The first words; ``stop()`` is called where the program ends
        without having done so."""
        self._stop = stop
        atexit.register(self._at_exit)
        if _leaves_at_once():
            from multiprocessing import util

            util.Finalize(None, self._at_exit, exitpriority=100)
        if not self.only_with_steps:
            self._write(Report())

    def serves(self) -> None:
        """This process answers requests."""
        self.process = replace(self.process, role="server")

    def looked(self) -> None:
        """Called after each look."""
        if not self._is_here:
            return
        with Tolerated():
            report = self._glance()
            known = {
                (f.signature, f.verdict, f.severity) for f in report.findings
            }
            if known == self._known and monotonic() < self._due:
                return
            self._known = known
            self._write(report)

    def stopped(self, report: Report) -> Report:
        """The watch is over; its report with the process that it is of."""
        if not self._is_here:
            return report
        self._over = True
        with suppress(Exception):
            atexit.unregister(self._at_exit)
        self.process = replace(
            self.process,
            end=time(),
            ended=self.ending or FINISHED,
        )
        if not report.steps and self.only_with_steps:
            return report
        return self._write(report, sync=True)

    def dismissed(self) -> None:
        """The watch is over without a report; another one may follow."""
        self._over = True
        with suppress(Exception):
            atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        if not self._is_here:
            return
        if self.ending is None:
            self.ending = ending()
        self._stop()

    def _write(self, report: Report, sync: bool = False) -> Report:
        """Writes it; what fails is said once and tried again later."""
        began = monotonic()
        self.process = replace(with_rank(self.process), seen=time())
        report = replace(report, process=self.process)
        self._try_to_put(report, sync)
        took = monotonic() - began
        self._due = monotonic() + max(EARLY * REFRESH, took / SHARE)
        return report

    def _try_to_put(self, report: Report, sync: bool) -> None:
        try:
            self._put(report_json(report), sync)
        except Exception as error:
            if is_programs(error):
                raise
            self._complain(error)

    def _is_read(self) -> bool:
        """Whether anybody will: not once a passing folder's process has ended,
        or has thrown it away with what we had written."""
        parent = self.process.parent
        if not self.is_passing or parent is None:
            return True
        gone = self._path and not os.path.isdir(self.folder)
        return runs_beside(parent) and not gone

    def _put(self, text: bytes, sync: bool) -> None:
        if not self._is_read():
            return
        path = os.path.join(self.folder, self.process.file_name)
        if not self._path:
            os.makedirs(self.folder, exist_ok=True)
        write_atomic(path, text, sync=sync)
        if self._path not in ("", path):
            os.unlink(self._path)  # written before its rank was known
        self._path = path

    def _complain(self, error: Exception) -> None:
        if self._complained or sys.stderr is None:
            return
        self._complained = True
        with suppress(Exception):
            sys.stderr.write(
                "impactarbiter: warning: nothing is written for the job:"
                f" {clean(str(error))}\n"
            )
