"""What ``run`` says while the program goes on, and when it is told to end.

Confirmed findings as they come, a status line, reports now and then; a signal
that ends the program has its report written first.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from os import getpid
from time import monotonic
from typing import TYPE_CHECKING

from ..base.convert import decimal
from ..base.errors import UsageError
from ..base.ranks import rank
from ..base.records import dataclass
from ..base.signals import Tolerated
from ..base.text import clean
from ..model.finding import Finding
from ..model.report import Report
from ..model.words import BOUNDED
from ..reports.console import Standing, broken
from ..reports.status import StatusLine

if TYPE_CHECKING:
    from ..core.signals import Signals
    from ..watching.arbiter import Arbiter

#: Signals that end a program, and that are waited with until the report is
#: written.
ENDING = (signal.SIGTERM, signal.SIGHUP)
#: The first process of a container, which the kernel lets no signal end by
#: default: each asks for a report there, and the program goes on.
INIT = 1
#: Seconds between two drawings of the status line.
REDRAW = 0.5
#: Seconds until it is looked again whether a report can be made by now.
PAUSE = 0.02
#: Seconds that an import may take from when the program is told to end.
PATIENCE = 5.0


#: What a fault of the program's raises: where a handler returns it is raised
#: again, for ever.
FAULTS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
}


def signal_number(text: str) -> int:
    """``USR1``, ``SIGUSR2`` or a number; 0 for ``none``."""
    if text.lower() == "none":
        return 0
    name = text.upper()
    known = {s.name: int(s) for s in signal.Signals}
    number = known.get(name) or known.get("SIG" + name)
    if number is None:
        number = decimal(text)
    refused = {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT}
    refused |= {*ENDING, *FAULTS}
    if number not in signal.valid_signals() - refused:
        raise UsageError(
            f"{text!r} is no signal that can ask for a report: expected USR1,"
            " USR2 or another that the program does not use, or none"
        )
    return number


@dataclass
class Live:
    """Follows one watched run, from its beginning to its end.

    ``write`` puts a report where it was asked to be written, ``publish`` does
    so for the last one and shows it.  Handlers run on the main thread between
    two bytecodes of the program, the rest on a thread of ours that is there
    only where something is to be done at regular times, or later.
    """

    arbiter: Arbiter
    stream: Standing | None
    write: Callable[[Report], None]
    publish: Callable[[Report], object]
    quiet: bool = False
    status: bool = False
    every: float | None = None
    asking: int = signal.SIGUSR1
    pid: int = field(default_factory=getpid)
    came: list[int] = field(default_factory=list)
    _unsaid: list[str] = field(default_factory=list)
    _over: bool = False
    _writing: bool = False
    _put_off: bool = False
    _rests_until: float = 0.0
    _told_to_end: float = 0.0
    _signals: Signals | None = None
    _line: StatusLine | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begins; on the main thread."""
        from ..core import frameworks
        from ..core.signals import Signals

        frameworks.on_failure = self._warn
        # Integrations in the program leave the word to us.
        self.arbiter.told = True
        if not self.quiet:
            self.arbiter.subscribe(self._found)
        if threading.current_thread() is threading.main_thread():
            asking = (self.asking,) if self.asking else ()
            self._signals = Signals((*asking, *ENDING), self._signal)
        if self.status and not self.quiet:
            self._line = StatusLine(self.stream)
        if self.every is not None or (self._line and self._line.shown):
            _thread.start_new_thread(self._follow, ())

    def end(self) -> None:
        """The program is over: signals are noted from now on, in ``came``."""
        self._over = True
        self._ended.set()
        self.arbiter.unsubscribe(self._found)
        if self._line is not None:
            self._line.end()

    def let_go(self) -> None:
        """Everything as it was; ends as the signal would that has come.  But
        one that asks for a report ends nothing, though there is none any more:
        who asks every now and then does not know when the program ends."""
        try:
            if self._signals is not None:
                self._signals.give_back(but=self.asking)
        finally:
            if self.came:
                os.kill(getpid(), self.came[0])

    # -- findings -----------------------------------------------------------

    def _found(self, finding: Finding) -> None:
        from ..reports.wording import announcement

        if finding.verdict in BOUNDED or getpid() != self.pid:
            return
        if self.arbiter.obfuscate:
            from ..judging.masks import obfuscated

            (finding,) = obfuscated(Report(findings=(finding,))).findings
        step = self.arbiter.moment().steps
        self._say_in_passing(f"step {step:,}: {announcement(finding)}")

    # -- signals ------------------------------------------------------------

    def _signal(self, number: int) -> bool:
        if number == self.asking or getpid() == INIT:
            if not self._over:
                self.arbiter.when_free(self._write_now)
            return True
        if not self.came:
            self._told_to_end = monotonic()
        self.came.append(number)
        if not self._over and not self._writing:
            self.arbiter.when_free(self._end_by_signal)
        return False

    def _write_now(self) -> None:
        """The report as of now, or soon: the program has as long for itself
        as the one before took, however often it is asked."""
        if self._over:
            return
        if self._writing or not self._may_write():
            self._later()
            return
        self._put_off = False  # what is asked from now on is a wish anew
        self._writing = True
        began = monotonic()
        try:
            self._attempt(lambda: self.write(self.arbiter.report()))
        except BaseException:  # the program's: what was asked for is still due
            self._later()
            raise
        finally:
            now = monotonic()
            self._rests_until = now + (now - began)
            self._writing = False
        if self.came:
            self._end_by_signal()

    def _may_write(self) -> bool:
        return self.arbiter.ready and monotonic() >= self._rests_until

    def _later(self) -> bool:
        """What is asked for is done once it can be; however often, once.

        False where no thread is left to wait in: until it is asked again.
        """
        if self._put_off:
            return True
        self._put_off = True
        try:
            _thread.start_new_thread(self._wait, ())
        except RuntimeError:
            self._put_off = False
            return False
        return True

    def _wait(self) -> None:
        from ..watching.moments import between_bytecodes

        _leave_signals_alone()
        while not self._ended.wait(PAUSE) and not self._may_go_on():
            pass
        if not self._ended.is_set():
            between_bytecodes(self._go_on, self._may_go_on)

    def _may_go_on(self) -> bool:
        """Whether what was put off can be done, or is done already."""
        if self._over or not (self._put_off or self.came):
            return True
        if self._writing:
            return False
        if self.came:
            return self.arbiter.ready or self._is_late()
        return self._may_write()

    def _go_on(self) -> None:
        put_off, self._put_off = self._put_off, False
        if self.came:
            self._end_by_signal()
        elif put_off:
            self._write_now()

    def _is_late(self) -> bool:
        """Whether an import lasts too long to be waited for with an end."""
        return (
            not self.arbiter.looking
            and monotonic() >= self._told_to_end + PATIENCE
        )

    def _end_by_signal(self) -> None:
        """The last report, of a program that stands where it stood."""
        if self._over:
            return
        if self.arbiter.ready:
            self._end_with(self._publish)
        elif self._is_late():
            self._end_with(lambda: self._warn("no report: an import goes on"))
        elif not self._later():
            self._end_with(lambda: self._warn("no report: no thread is left"))

    def _end_with(self, words: Callable[[], object]) -> None:
        self.end()
        try:
            self._attempt(words)
        finally:
            self.let_go()

    def _publish(self) -> None:
        if self.arbiter.job is not None:
            self.arbiter.job.ending = signal.Signals(self.came[0]).name
        self.publish(self.arbiter.stop())

    def _attempt(self, work: Callable[[], object]) -> None:
        with Tolerated() as tolerated:
            work()
        if tolerated.error is not None:
            self._warn(f"no report: {tolerated.said}")

    # -- at regular times ---------------------------------------------------

    def _follow(self) -> None:
        """The status line twice a second, the report when it is due."""
        from ..watching.moments import between_bytecodes

        _leave_signals_alone()
        shown = self._line is not None and self._line.shown
        pause = REDRAW if shown else self.every
        due = monotonic() + (self.every or 0.0)
        while not self._ended.wait(pause) and getpid() == self.pid:
            if shown and self._line is not None:
                with suppress(Exception):
                    self._line.show(self.arbiter.moment())
            if self.every is None or monotonic() < due:
                continue
            between_bytecodes(
                self._write_now,
                lambda: self._over or self.arbiter.ready,
            )
            due = max(monotonic() + self.every, self._rests_until)
            pause = REDRAW if shown else self.every

    def _warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def _say_in_passing(self, text: str) -> None:
        """Not into what the program captures, as a test does: once that is
        over, with what there is to say then."""
        self._unsaid.append(text)
        with suppress(Exception):
            if self.stream is not None and self.stream.is_captured():
                return
        unsaid, self._unsaid = self._unsaid, []
        for one in unsaid:
            self._say(one)

    def _say(self, text: str) -> None:
        number = rank()
        where = "" if number is None else f" (rank {number})"
        line = f"impactarbiter{where}: {clean(text)}"
        with suppress(Exception):
            if self.stream is not None:
                line = broken(line, self.stream) + "\n"
                try:
                    self.stream.write(line)
                    self.stream.flush()
                except RuntimeError:  # in the middle of a write of its own
                    os.write(2, line.encode("utf-8", "backslashreplace"))


def _leave_signals_alone() -> None:
    """In a thread of ours: they are the program's own threads'."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
