"""One watch that an integration starts, or joins where one is running.

The launcher, a script's own ``watch()`` and several integrations may meet in
one process.  There is one arbiter at a time, and one integration that reports.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from os import getpid
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..base.errors import ImpactArbiterError, UsageError
from ..base.ranks import of_rank, rank
from ..base.text import clean
from ..reports.outputs import write_report

if TYPE_CHECKING:
    from ..model.finding import Finding
    from ..model.report import Report
    from ..watching.arbiter import Arbiter

log: logging.Logger = logging.getLogger("impactarbiter")

_active: Session | None = None


def open_session(**options: Any) -> Session | None:
    """Joins the arbiter that watches, else starts one with ``options``.

    ``options`` are those of ``watch()``.  None while another integration's
    session is open: findings are told once.
    """
    global _active
    from ..watching.arbiter import current, watch

    running = current()
    if _active is not None and _active.arbiter is running:
        return None
    _active = Session(running or watch(**options), owned=running is None)
    return _active


class Session:
    """Tells of findings as they come, and of all at the end."""

    def __init__(self, arbiter: Arbiter, owned: bool) -> None:
        self.arbiter = arbiter
        self.owned = owned
        self._phase: AbstractContextManager[None] | None = None
        arbiter.subscribe(self._found)
        if owned:
            # A program that fails never gets to the end of its training.
            self._pid = getpid()
            atexit.register(self._close_at_exit)

    def metrics(self) -> dict[str, float]:
        """``Arbiter.metrics()``."""
        return self.arbiter.metrics()

    def enter(self, phase: str | None) -> None:
        """Names what happens from now on; None: the training itself."""
        if self._phase is not None:
            self._phase.__exit__(None, None, None)
            self._phase = None
        if phase is not None:
            self._phase = self.arbiter.phase(phase)
            self._phase.__enter__()

    def _found(self, finding: Finding) -> None:
        from ..judging.masks import obfuscated
        from ..model.report import Report
        from ..model.words import BOUNDED
        from ..reports.wording import headline, site_clause

        if finding.verdict in BOUNDED or self.arbiter.told:
            return
        if self.arbiter.obfuscate:
            (finding,) = obfuscated(Report(findings=(finding,))).findings
        text = f"{finding.severity} {finding.verdict}: {headline(finding)}"
        say(logging.WARNING, text + site_clause(finding))

    def close(self, path: str | None = None) -> Report:
        """Says what was found, writes it to ``path``; ends our own watch.

        Where another one's watch was joined it goes on, and the whole
        report is left to it; all words are where it tells of findings.
        """
        global _active
        from ..reports.first_line import alarming, summary

        if _active is self:
            _active = None
        atexit.unregister(self._close_at_exit)
        self.enter(None)
        self.arbiter.unsubscribe(self._found)
        report = self.arbiter.stop() if self.owned else self.arbiter.report()
        level = logging.WARNING if alarming(report) else logging.INFO
        words = str(report) if self.owned else summary(report)
        if self.owned or not self.arbiter.told:
            say(level, words.removeprefix("ImpactArbiter: "))
        if path is not None:
            write_report(report, of_rank(path))
        return report

    def _close_at_exit(self) -> None:
        if getpid() == self._pid:  # no child's by fork()
            _close_quietly(self)


class SessionHolder:
    """Has a session while it watches; a copy or a pickle of it has none,
    and is as one with its options that has not begun."""

    _session: Session | None = None
    _begun = False
    _failed = False

    def __getstate__(self) -> dict[str, Any]:
        passing = vars(SessionHolder)
        return {k: v for k, v in vars(self).items() if k not in passing}


def say(level: int, text: str) -> None:
    """To the log, also where the program has not set one up.

    Whoever asked for leak detection wants to read "no leak", which the root
    logger's default level would hide.
    """
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    number = rank()
    where = "" if number is None else f" (rank {number})"
    text = "\n".join(clean(line) for line in text.splitlines())
    text = f"ImpactArbiter{where}: {text}"
    if log.hasHandlers():
        log.log(level, "%s", text)
    elif sys.stderr is not None:
        sys.stderr.write(text + "\n")


def check_options(every: int | None, path: str | None) -> None:
    """Refuses at once what would fail only at the training's end.

    Raises UsageError or ReportError.
    """
    if every is not None and (type(every) is not int or every < 1):
        raise UsageError(
            f"detect_memory_leaks_every is {every!r}: expected a whole"
            " number, at least 1"
        )
    if path is not None:
        from ..base.files import check_writable

        if not isinstance(path, (str, os.PathLike)):
            raise UsageError(
                f"memory_leak_report is {path!r}: expected the path of a file"
            )
        check_writable(of_rank(path))


_Method = TypeVar("_Method", bound=Callable[..., None])


def harmless(method: _Method) -> _Method:
    """A method whose failure goes no further; an object's first one is told.

    What the program does not need from us must not end it.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            if not getattr(self, "_failed", False):
                self._failed = True
                own = isinstance(error, ImpactArbiterError)
                name = type(error).__name__
                reason = str(error) if own else f"{name}: {error}"
                say(logging.WARNING, f"{method.__name__} failed: {reason}")

    return cast(_Method, call)


@harmless
def _close_quietly(session: Session) -> None:
    session.close()
