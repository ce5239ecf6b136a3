"""One errand into a process: go in, have it answered, come out again.

What is said goes through files of a private folder.  We hold a lock on one of
them as long as we live: when it is free, the process that was watched knows
that we are gone, and lets go by itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import impactarbiter

from ..base.records import dataclass
from ..model.report import Report
from . import entrance, inside
from .target import AttachError, Target, forbidden

#: Seconds between two looks into the folder.
POLL = 0.05
#: Seconds that a process may take until it answers.
PATIENCE = 60.0
#: Of them, after so many we say what we wait for.
PATIENT = 3.0
_CODE = "inside.py"


@dataclass(frozen=True)
class Errand:
    """A process, and the folder through which it is spoken with."""

    target: Target
    folder: str

    def read(self, name: str) -> dict[str, Any] | None:
        """What stands in a file of the folder; None where there is none."""
        try:
            with open(os.path.join(self.folder, name), "rb") as stream:
                data = json.loads(stream.read())
        except FileNotFoundError:
            return None
        return data if isinstance(data, dict) else None

    def ask_to_stop(self) -> None:
        """Tells the other side to report and to let go."""
        with open(os.path.join(self.folder, "stop"), "wb"):
            pass

    def report(self) -> Report | None:
        """The report, as soon as it is there."""
        failed = self.read("failed.json")
        if failed is not None:
            raise AttachError(
                f"process {self.target.pid} made no report:"
                f" {failed.get('failed')}"
            )
        data = self.read("report.json")
        return None if data is None else Report.from_dict(data, "the report")


@contextmanager
def sent(target: Target, task: dict[str, Any]) -> Iterator[Errand]:
    """An errand that was let in; AttachError where it was not.

    Nothing of it is left when the block ends: what is asked for and not
    answered by then is called off.
    """
    if sys.version_info < (3, 14):
        entrance.check()
    folder = tempfile.mkdtemp(prefix="impactarbiter-")
    try:
        _check_place(target, folder)
        task = {"build": inside.build_of(_package()), **task}
        _write(folder, "task.json", json.dumps(task))
        _write(folder, _CODE, _code(folder))
        with open(
            os.path.join(folder, "alive"), "w", encoding="utf-8"
        ) as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            errand = Errand(target, folder)
            _go_in(errand)
            yield errand
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(errand: Errand, name: str, what: str) -> dict[str, Any]:
    """What stands in a file, once it is there."""
    began = monotonic()
    said = False
    while True:
        data = errand.read(name)
        if data is not None:
            return data
        if not errand.target.alive:
            raise AttachError(
                f"process {errand.target.pid} ended before {what}"
            )
        waited = monotonic() - began
        if waited > PATIENCE:
            raise AttachError(
                f"process {errand.target.pid} does not answer: it has been in"
                f" C code that keeps the interpreter for {PATIENCE:.0f} s"
            )
        if waited > PATIENT and not said:
            said = True
            sys.stderr.write(
                f"impactarbiter: process {errand.target.pid} is busy in C"
                " code; waiting until it comes back to Python\n"
            )
        sleep(POLL)


def _package() -> str:
    return os.path.dirname(os.path.abspath(impactarbiter.__file__))


def _check_place(target: Target, folder: str) -> None:
    """Whether the process sees our folder: a container has its own."""
    seen = f"/proc/{target.pid}/root{folder}"
    try:
        ours, theirs = os.stat(folder), os.stat(seen)
        if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
            return
    except PermissionError:
        raise AttachError(forbidden(target.pid)) from None
    except OSError:
        pass
    raise AttachError(
        f"process {target.pid} runs in a container or chroot of its own,"
        f" where {os.path.dirname(folder)} is another folder: run this command"
        " inside of it"
    )


def _write(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, name)
    with open(path, "x", encoding="utf-8") as stream:
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
        stream.write(text)


def _code(folder: str) -> str:
    with open(inside.__file__, encoding="utf-8") as stream:
        text = stream.read()
    return f"{text}\n\nenter({folder!r})\n"


def _go_in(errand: Errand) -> None:
    target, folder = errand.target, errand.folder
    handle = None
    if sys.version_info >= (3, 14):
        _by_interpreter(target, os.path.join(folder, _CODE))
    else:
        library = os.path.join(folder, "door.so")
        shutil.copyfile(_door(), library)
        handle, _took = entrance.load(target, library)
    answer = wait_for(errand, "answer.json", "it could answer")
    if handle is not None:
        _await_thread(target, answer.get("thread", 0))
        entrance.unload(target, handle)
    _check_answer(target, answer)


def _by_interpreter(target: Target, script: str) -> None:
    """Since Python 3.14 the interpreter runs a file when it is asked to."""
    remote_exec: Any = getattr(sys, "remote_exec")  # noqa: B009
    try:
        remote_exec(target.pid, script)
    except PermissionError:
        raise AttachError(forbidden(target.pid)) from None
    except (OSError, RuntimeError) as error:
        raise AttachError(
            f"process {target.pid} let nothing in: {error}"
        ) from None


def _door() -> str:
    """The library that is loaded; it lies beside our other ones."""
    folder = _package()
    for name in sorted(os.listdir(folder)):
        if name.startswith("_door.") and name.endswith(".so"):
            return os.path.join(folder, name)
    raise AttachError("this installation has no _door: install it anew")


def _await_thread(target: Target, number: int) -> None:
    """The library is not taken from under the thread that it started."""
    task = f"/proc/{target.pid}/task/{number}"
    give_up = monotonic() + PATIENCE
    while os.path.exists(task) and monotonic() < give_up:
        sleep(POLL / 10)


def _check_answer(target: Target, answer: dict[str, Any]) -> None:
    pid, refused = target.pid, answer.get("refused")
    if "failed" in answer:
        raise AttachError(
            f"process {pid} cannot be watched: {answer['failed']}"
        )
    if "unknown" in answer:
        raise AttachError(f"in process {pid} {answer['unknown']}")
    if refused == "watched":
        raise AttachError(
            f"process {pid} is watched already: `impactarbiter attach --report"
            f" {pid}` asks for its report"
        )
    if refused == "idle":
        raise AttachError(
            f"process {pid} is not watched: `impactarbiter attach {pid}` does"
        )
    python = answer.get("python")
    install = (
        f"{python} -m pip install impactarbiter=={impactarbiter.__version__}"
    )
    if refused == "missing":
        raise AttachError(
            f"process {pid} cannot import impactarbiter: {install}"
        )
    if refused == "build":
        raise AttachError(
            f"process {pid} would import another build of impactarbiter, from"
            f" {answer.get('where')}: run {python} -m impactarbiter attach"
            f" {pid}"
        )
