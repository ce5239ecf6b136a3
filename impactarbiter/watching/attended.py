"""A watch that another process asked for, and its questions: `attach`.

They talk through the files of a private folder.  Whoever asked holds a lock
on one of them: when the lock is free they are gone, however they ended, and
the process that was watched lets go by itself.
"""

from __future__ import annotations

import _thread
import atexit
import fcntl
import io
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict
from os import getpid
from time import monotonic, sleep, thread_time
from typing import Any

from ..base.files import write_atomic
from ..base.signals import Tolerated
from ..core import ledger
from ..core.depth import Room
from ..judging.allowlist import AllowList
from ..judging.masks import obfuscated
from ..model.finding import Finding
from ..model.report import Report
from ..model.words import BOUNDED
from ..reports.children import with_children
from ..reports.jsonio import plain
from . import arbiter as arbiters
from . import armed
from .arbiter import Arbiter
from .moments import between_bytecodes
from .named import answer_about

#: Seconds between two looks into the folder.
POLL = 0.1
#: Looks between two words about how far it is.
PER_WORD = 5
#: Seconds between two pictures at least; and so many times what one costs: no
#: more than a hundredth of a processor.
VIEW_PAUSE = 0.5
VIEW_COST = 100

#: Seconds until a second one that asks at once is refused; so long nobody
#: takes to begin.
TURN = 5.0

_open: Attended | None = None
#: One begins at a time: process -> its lock, as a child by ``fork()`` may
#: have one that a thread of its parent held.
_turns: dict[int, _thread.LockType] = {}
#: The thread that begins: what comes while it does may run on it, too.
_beginning: int | None = None


def begin(folder: str, task: dict[str, Any]) -> dict[str, Any]:
    """Does what is asked for; the answer, which is whole or says "wait"."""
    action = task["action"]
    if action == "explain":
        return _answer(task["expression"])
    global _beginning
    turn = _turns.setdefault(getpid(), _thread.allocate_lock())
    here = _thread.get_ident()
    if (turn.locked() and _beginning == here) or not turn.acquire(
        timeout=TURN
    ):
        return {"refused": "watched"}
    _beginning = here
    try:
        return _begin(folder, task)
    finally:
        _beginning = None
        turn.release()


def _begin(folder: str, task: dict[str, Any]) -> dict[str, Any]:
    """In its turn; what it starts is open by the end of that."""
    action = task["action"]
    attended = _open is not None and _open.pid == getpid()
    watching = arbiters.current()
    if watching is not None and watching.stand_in and not attended:
        watching = None  # it makes way
    if action == "report":
        if watching is None:
            return {"refused": "idle"}
        _thread.start_new_thread(_give, (watching, folder))
        return {"wait": True}
    if watching is not None and task.get("join"):
        _thread.start_new_thread(_follow, (watching, folder))
        return {"wait": True}
    if watching is not None or attended:
        return {"refused": "watched"}
    Attended(folder, task).start()
    return {"wait": True}


def _answer(expression: str) -> dict[str, Any]:
    """Who holds what the expression names."""
    said: dict[str, Any] = {}

    def ask() -> None:
        with Tolerated() as tolerated:
            found = answer_about(expression)
            said[type(found).__name__] = plain(found)
        if tolerated.error is not None:
            said["unknown"] = str(tolerated.error)

    between_bytecodes(ask)
    return said


def _give(watching: Arbiter, folder: str) -> None:
    """The report of a watch that goes on."""

    def give() -> None:
        with Tolerated():
            report = with_children(watching.report(), armed.folder())
            _write(folder, "report.json", _told(report))

    between_bytecodes(give, lambda: watching.ready)


def _follow(watching: Arbiter, folder: str) -> None:
    """Pictures of a watch that goes on, as long as who asked is there."""
    pid = getpid()
    with suppress(Exception):
        over = False
        while not over and getpid() == pid:
            over = arbiters.current() is not watching
            if not _waits(folder, _show(watching, folder, over)):
                shutil.rmtree(folder, ignore_errors=True)
                return


def _waits(folder: str, pause: float) -> bool:
    """So many seconds; whether who asked is still there then."""
    give_up = monotonic() + pause
    while monotonic() < give_up:
        sleep(POLL)
        if _is_alone(folder):
            return False
    return True


def _show(watching: Arbiter, folder: str, over: bool) -> float:
    """One picture; seconds until the next one is paid for."""
    from ..reports.live_view import live_view

    began = thread_time()
    view = live_view(watching.glance(), watching.moment(), over)
    _write(folder, "view.json", json.dumps(view).encode())
    return max(VIEW_PAUSE, VIEW_COST * (thread_time() - began))


def _is_alone(folder: str) -> bool:
    """Whether who asked is gone."""
    try:
        with io.open(
            os.path.join(folder, "alive"), encoding="utf-8"
        ) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


class Attended:
    """One watch from outside, from its beginning to its end."""

    def __init__(self, folder: str, task: dict[str, Any]) -> None:
        self.folder = folder
        self.pid: int = getpid()
        self.most_steps: int | None = task.get("steps")
        self.viewed: bool = bool(task.get("view"))
        self._ends = False
        self.findings: list[dict[str, Any]] = []
        options = task["options"]
        before = arbiters.current()
        if before is not None:
            before.dismiss()
        # It makes way for a watch() of the program's own.
        self.arbiter: Arbiter = Arbiter(
            every=options.get("every", 1),
            warmup=options.get("warmup", 3),
            window=options.get("window", 5),
            manual=options.get("step") == "manual",
            allow=AllowList(options.get("allow", ())),
            obfuscate=options.get("obfuscate", False),
            on_finding=self._found,
            memory_limit=options.get("memory_limit"),
            numpy=options.get("numpy", True),
            stand_in=True,
        )

    def start(self) -> None:
        """Begins to attend, beside the program."""
        global _open
        _open = self
        atexit.register(self._at_exit)
        _thread.start_new_thread(self._attend, ())
        if self.viewed:
            _thread.start_new_thread(_follow, (self.arbiter, self.folder))

    def _found(self, finding: Finding) -> None:
        if finding.verdict in BOUNDED:
            return
        report = Report(findings=(finding,))
        if self.arbiter.obfuscate:
            report = obfuscated(report)
        self.findings += report.to_dict()["findings"]

    def _attend(self) -> None:
        turn = 0
        while True:
            sleep(POLL)
            if getpid() != self.pid or self._ends:
                return
            try:
                if _is_alone(self.folder):
                    self._leave()
                    return
                if self._is_over():
                    between_bytecodes(self._finish, lambda: self.arbiter.ready)
                    return
                if turn % PER_WORD == 0:
                    self._tell()
            except Exception as error:
                self._fail(error)
                return
            turn += 1

    def _is_over(self) -> bool:
        if arbiters.current() is not self.arbiter:
            return True  # the program watches itself now
        if ledger.status().failure is not None:
            return True  # its report says why
        if os.path.exists(os.path.join(self.folder, "stop")):
            return True
        most = self.most_steps
        return most is not None and self.arbiter.moment().steps >= most

    def _tell(self) -> None:
        words = {
            "moment": asdict(self.arbiter.moment()),
            "findings": self.findings,
        }
        _write(self.folder, "progress.json", json.dumps(words).encode())

    def _finish(self) -> None:
        """The last report; then nothing of ours is left but modules."""
        if not self._close():
            return
        try:
            try:
                report = self.arbiter.stop()
            finally:
                self._is_closed()
            _write(self.folder, "report.json", _told(report))
        except Exception as error:
            self._say(error)

    def _leave(self) -> None:
        """Lets go without a report: nobody would read it."""
        if self._close():
            try:
                self.arbiter.dismiss()
            finally:
                self._is_closed()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fail(self, error: Exception) -> None:
        with suppress(Exception):
            self._close()
        with suppress(Exception):
            self.arbiter.dismiss()
        self._is_closed()
        self._say(error)

    def _say(self, error: Exception) -> None:
        with suppress(Exception):
            said = {"failed": f"{type(error).__name__}: {error}"}
            _write(self.folder, "failed.json", json.dumps(said).encode())

    def _close(self) -> bool:
        """Whether it was still open: one of two threads gets to end it.

        Until that is done nobody else begins.
        """
        if self._ends:
            return False
        self._ends = True
        atexit.unregister(self._at_exit)
        return True

    def _is_closed(self) -> None:
        global _open
        if _open is self:
            _open = None

    def _at_exit(self) -> None:
        if getpid() == self.pid:
            with suppress(Exception), Room():
                self._finish()


def _told(report: Report) -> bytes:
    return json.dumps(report.to_dict()).encode()


def _write(folder: str, name: str, data: bytes) -> None:
    write_atomic(os.path.join(folder, name), data)
