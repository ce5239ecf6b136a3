"""``watch()`` and the ``Arbiter``: hooks on, looks at suspects, hooks off."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import getpid
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..base import imports
from ..base.errors import AlreadyWatchingError, UsageError
from ..base.later import Later
from ..base.ranks import job_folder
from ..base.signals import Tolerated
from ..base.waiting import called_aside
from ..core import failures, frameworks, hooks
from ..core.code import is_users
from ..judging.allowlist import AllowList, AllowRule

if TYPE_CHECKING:
    from ..judging.diagnostician import Diagnostician
    from ..model.finding import Finding
    from ..model.moment import Moment
    from ..model.process import Process
    from ..model.report import Report
    from ..model.words import StepMode
    from . import looks
    from .armed import Armed
    from .job_file import JobFile
else:
    looks = Later(f"{__package__}.looks")

#: The tick at which what looks need is loaded: they belong to the warm-up,
#: and the memory that it takes does, too.
FIRST_TICK = 1

#: What a report and what writes it import.
_NEEDED = sys.stdlib_module_names | {
    __name__.partition(".")[0],
    "jinja2",
    "markupsafe",
    "matplotlib",
    "numpy",
    "rich",
}

_current: Arbiter | None = None
#: Called when an arbiter has ended, if set; lease.py does.
at_end: Callable[[], None] | None = None


def watch(
    *,
    every: int = 1,
    warmup: int = 3,
    window: int = 5,
    step: StepMode = "auto",
    allow: Sequence[AllowRule] = (),
    obfuscate: bool = False,
    on_finding: Callable[[Finding], object] | None = None,
    memory_limit: int | None = None,
    numpy: bool = True,
) -> Arbiter:
    """Starts watching; one arbiter at a time.

    ``every``: check each Nth step, accounting stays exact.  ``warmup``:
    steps that count for nothing.  ``window``: generations that must survive
    before a site is a suspect; from 5 on, how long that has to go on, and 3
    more.  ``step``: "auto" (an optimizer step, else a backward, else a call of
    a top-level module, else one of what JAX compiled, else a turn of a loop
    that makes tensors ends a step) or "manual" (``arbiter.step()`` alone
    does).  ``allow``: what may be kept: globs of
    sites ("model.py:forward") or paths ("__main__.replay*"), types, or
    functions of a finding.  ``on_finding``: called once per new finding.
    ``memory_limit``: bytes, for the forecast.  ``numpy``: the memory of
    NumPy's arrays counts too, from 1 KiB on.

    Raises UsageError for values out of range, AlreadyWatchingError (a
    RuntimeError) while another arbiter is active.
    """
    _check_count("every", every, 1)
    _check_count("warmup", warmup, 0)
    _check_count("window", window, 2)
    every, warmup, window = (
        min(n, MOST_STEPS) for n in (every, warmup, window)
    )
    if step not in ("auto", "manual"):
        raise UsageError(f"step is {step!r}: expected 'auto' or 'manual'")
    if on_finding is not None and not callable(on_finding):
        raise UsageError("on_finding must be callable, or None")
    if memory_limit is not None:
        _check_count("memory_limit", memory_limit, 1)
    if type(numpy) is not bool:
        raise UsageError(f"numpy is {numpy!r}: expected True or False")
    allowed = AllowList(allow)
    before = current()
    in_its_place = before.job if before and before.stand_in else None
    if before is not None and before.stand_in:
        before.dismiss()
    arbiter = Arbiter(
        every=every,
        warmup=warmup,
        window=window,
        manual=step == "manual",
        allow=allowed,
        obfuscate=obfuscate,
        on_finding=on_finding,
        memory_limit=memory_limit,
        numpy=numpy,
    )
    folder = job_folder()
    if in_its_place is not None:
        # A child that watches itself stays the child that it is.
        arbiter.join(
            in_its_place.folder,
            in_its_place.process,
            passing=in_its_place.is_passing,
        )
    elif folder is not None:
        arbiter.join(folder, looks.this_process())
    arbiter._arm(
        every=every,
        warmup=warmup,
        window=window,
        step=step,
        allow=allow,
        obfuscate=obfuscate,
        memory_limit=memory_limit,
        numpy=numpy,
    )
    return arbiter


#: More steps than any run has: in C they are counted in 32 bits.
MOST_STEPS = 1 << 30


def _check_count(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise UsageError(
            f"{name} is {value!r}: expected a whole number, at least {least}"
        )


class Arbiter:
    """Watches from its creation by ``watch()`` until ``stop()``.

    A ``stand_in`` is there for a profiler or tracker and makes way for the
    arbiter of a ``watch()``.
    """

    def __init__(
        self,
        *,
        every: int,
        warmup: int,
        window: int,
        manual: bool,
        allow: AllowList,
        obfuscate: bool,
        on_finding: Callable[[Finding], object] | None,
        memory_limit: int | None,
        numpy: bool,
        stand_in: bool = False,
    ) -> None:
        global _current
        if current() is not None:
            raise AlreadyWatchingError(
                "impactarbiter is watching already: stop() the other arbiter"
                " first, or use it; where no name is left for it:"
                f" {__name__}.current().stop()"
            )
        self.stand_in = stand_in
        self.pid: int = getpid()
        self.manual = manual
        #: Whether names and shapes are masked in its reports.
        self.obfuscate = obfuscate
        #: Whether somebody tells of findings as they come, and of what the
        #: report says: nobody else does.
        self.told = False
        #: Its file among those of the job, where there is a job.
        self.job: JobFile | None = None
        self._armed: Armed | None = None
        self._listeners = [] if on_finding is None else [on_finding]
        self._waiting: list[Callable[[], object]] = []
        self._last: Report | None = None
        self._stopping = False
        self._phases: list[str] = []
        self._phase_names: list[str] = [""]
        self._judge: Diagnostician | None = None
        self._warmup, self._window = warmup, window
        self._allow = allow
        self._memory_limit = memory_limit
        #: Why there is no report of one that is over.
        self._excuse: str | None = None
        self._loading = False
        self._from_the_start = not frameworks.any_imported()
        # Last of all: another thread may end a step before they are in.
        self._failures = failures.from_now()
        _remember()
        self._hooks: hooks.Hooks | None = hooks.start(
            every=every,
            warmup=warmup,
            window=window,
            manual=manual,
            numpy=numpy,
            callback=self._look,
        )
        hooks.look_at(FIRST_TICK)
        _current = self

    def __repr__(self) -> str:
        last = self._final()
        if last is not None:
            return f"Arbiter(stopped, step {last.steps})"
        status = looks.ledger.status()
        step = status.counts[status.kind]
        return f"Arbiter(watching, step {step})"

    @property
    def _diagnostician(self) -> Diagnostician:
        """Made when it is first needed: see ``looks``."""
        if self._judge is None:
            self._loading = True
            try:
                self._judge = looks.Diagnostician(
                    warmup=self._warmup,
                    window=self._window,
                    allow=self._allow,
                    obfuscate=self.obfuscate,
                    on_finding=self._tell,
                    memory_limit=self._memory_limit,
                    phases=self._phase_names,
                    failures=self._failures,
                    from_the_start=self._from_the_start,
                )
            finally:
                self._loading = False
        return self._judge

    def _final(self) -> Report | None:
        """The report of one that is over."""
        if self._last is None and self._excuse is not None:
            made = looks.Report(warnings=(self._excuse,), complete=False)
            self._last = looks.obfuscated(made) if self.obfuscate else made
        return self._last

    # -- steps and phases -------------------------------------------------

    def step(self) -> None:
        """Ends the step by hand."""
        hooks.step()

    def plan(self, steps: int) -> None:
        """Says that so many optimizer steps are still to come.

        What runs out of memory within them is critical.
        """
        _check_count("steps", steps, 0)
        done = looks.ledger.status().counts.optimizer
        self._diagnostician.planned_steps = done + steps

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Names what happens inside; nests ("epoch 3/validation")."""
        self._phases.append(str(name))
        hooks.set_phase(self._phase_number())
        try:
            yield
        finally:
            self._phases.pop()
            # Another arbiter may watch by now, with numbers of its own.
            if _current is self:
                hooks.set_phase(self._phase_number())

    def _phase_number(self) -> int:
        """Number of the current phase; 65,535 of them are told apart."""
        name = "/".join(self._phases)
        if name not in self._phase_names:
            if len(self._phase_names) > 0xFFFF:
                return 0
            self._phase_names.append(name)
        return self._phase_names.index(name)

    # -- for those who follow a run ---------------------------------------

    def metrics(self) -> dict[str, float]:
        """What a tracker plots of this moment; costs some microseconds.

        ``memory/live_bytes``; ``memory/leak_bytes_per_step`` and
        ``memory/findings`` count what the looks so far have confirmed, less
        what turned out to be bounded.  No look is made for it.
        """
        last = self._final()
        if last is not None:
            live = last.live_bytes
            found = [f for f in last.findings if f.confirmed]
        else:
            live = looks.ledger.totals().live_bytes
            found = self._diagnostician.confirmed()
        return {
            "memory/live_bytes": live,
            "memory/leak_bytes_per_step": sum(
                finding.all_bytes_per_step for finding in found
            ),
            "memory/findings": len(found),
        }

    def moment(self) -> Moment:
        """How far the program is; no look is made for it."""
        status, totals = looks.ledger.status(), looks.ledger.totals()
        kind = status.kind
        return looks.Moment.of(
            self._diagnostician.confirmed(),
            steps=status.counts[kind],
            step_kind=looks.STEP_KINDS[kind],
            live_bytes=totals.live_bytes,
            peak_bytes=totals.peak_bytes,
            resident_bytes=looks.ledger.resident_bytes(),
        )

    def subscribe(self, listener: Callable[[Finding], object]) -> None:
        """Calls ``listener`` with each new finding too, as on_finding is."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[Finding], object]) -> None:
        """Ends that; nothing happens where it was not subscribed."""
        with suppress(ValueError):
            self._listeners.remove(listener)

    def _tell(self, finding: Finding) -> None:
        """To every listener; the first one's error is raised after all."""
        failure: Exception | None = None
        for listener in tuple(self._listeners):
            with Tolerated() as tolerated:
                hooks.call_theirs(listener, finding)
            failure = failure or tolerated.error
        if failure is not None:
            raise failure

    def join(
        self,
        folder: str,
        process: Process,
        *,
        lazily: bool = False,
        passing: bool = False,
    ) -> None:
        """Keeps a file in the folder of a job from now on.

        ``lazily``: only once a step was seen; ``passing``: its parent throws
        the folder away.
        """
        self.job = looks.JobFile(
            folder, process, self._diagnostician.glance, self.obfuscate
        )
        self.job.only_with_steps = lazily
        self.job.is_passing = passing
        self._diagnostician.refresh = looks.REFRESH
        hooks.look_at(1)
        self.job.begin(self.stop)

    def _arm(self, **options: Any) -> None:
        """In a job, the children of this process watch themselves, too."""
        if self.job is not None and looks.armed.are_wanted():
            self._armed = looks.armed.arm(options, self.job.folder)
            if self._armed.excuse is not None:
                _warn(f"children are not watched: {self._armed.excuse}", 4)

    def _look(self, tick: int) -> None:
        if self._judge is None and tick == FIRST_TICK:
            self._diagnostician  # noqa: B018 - loads it
        else:
            self._diagnostician.look(tick)
        if self.job is not None:
            self.job.looked()
        self._catch_up()

    @property
    def looking(self) -> bool:
        """Whether a look is being made: a report has no figures now."""
        judge = self._judge
        return self._loading or (judge is not None and judge.busy)

    @property
    def ready(self) -> bool:
        """Whether a report can be made now: no look is, and nothing that it
        needs is half imported."""
        return not self.looking and not imports.under_way(_NEEDED, is_users)

    def when_free(self, work: Callable[[], object]) -> None:
        """Calls ``work`` now, or as soon as the look is over that is made.

        For handlers of signals, which may come in the middle of one.
        """
        self._waiting.append(work)
        if not self.looking:
            self._catch_up()

    def _catch_up(self) -> None:
        if self._waiting:
            called_aside(self._do_what_waits)()

    def _do_what_waits(self) -> None:
        while self._waiting:
            with looks.Room():
                self._waiting.pop(0)()

    # -- reports ----------------------------------------------------------

    def report(self) -> Report:
        """Diagnoses what is suspect now; after ``stop()``, its report."""
        last = self._final()
        if last is not None:
            return last
        try:
            return self._diagnostician.report()
        finally:
            if not self.looking:
                self._catch_up()

    def glance(self) -> Report:
        """What the looks so far have settled, and figures of now: no walk.

        After ``stop()``, its report.
        """
        last = self._final()
        if last is not None:
            return last
        return self._diagnostician.glance()

    def known_findings(self) -> tuple[Finding, ...]:
        """As the last looks left them; no walk, and none while masked."""
        if self.obfuscate or self._judge is None:
            return ()
        return tuple(self._judge.confirmed())

    def stop(self, error: BaseException | None = None) -> Report:
        """Reports, then takes the hooks out; a second call changes nothing.

        ``error``: what has ended the program.  The calls that it ended have
        what they had, by the names that it had there.

        In the child of a ``fork()`` the hooks are off already.  While it
        runs, another thread's call gives what the looks so far have settled.
        """
        last = self._final()
        if last is not None:
            return last
        if self._stopping:
            return self._diagnostician.report()
        self._stopping = True
        try:
            self._report_at_end(error)
            last = self._final()
            if self.job is not None and last is not None:
                self._last = self._with_children(self.job.stopped(last))
        finally:
            self._end()
        return self._final() or looks.Report()

    def _end(self) -> None:
        self._take_hooks_out()
        if self._last is None and self._excuse is None:  # interrupted
            self._excuse = "no report could be made"
        self._make_way()
        self._catch_up()

    def _report_at_end(self, error: BaseException | None) -> None:
        with Tolerated() as failure, hooks.ended_by(error):
            self._last = self._diagnostician.report()
        if failure.error is not None:
            self._excuse = f"no report could be made: {failure.said}"
            self._report_without_a_look(self._excuse)
            if not self.told:
                _warn(self._excuse, 4)

    def _report_without_a_look(self, excuse: str) -> None:
        """What takes less memory than a report, if it can be made."""
        with Tolerated():
            self._last = self._diagnostician.glance(excuse)

    def _with_children(self, report: Report) -> Report:
        """And what the processes have found that were started since."""
        if self._armed is None or self.pid != getpid():
            return report
        return looks.with_children(report, self._armed.folder)

    def _make_way(self) -> None:
        """For what waits to account for memory by itself."""
        if at_end is None:
            return
        with Tolerated() as failure:
            at_end()
        if failure.error is not None:
            said = f"profilers go without: {failure.said}"
            _warn(said, 6)

    def dismiss(self) -> None:
        """Ends without a report: no walk, and nothing takes its place."""
        if self._last is None and self._excuse is None:
            self._excuse = "dismissed before its end"
            if self.job is not None:
                self.job.dismissed()
            self._take_hooks_out()

    def _take_hooks_out(self) -> None:
        global _current
        # An arbiter that is over keeps no module of ours alive.
        ours, self._hooks = self._hooks, None
        if self._armed is not None and self.pid == getpid():
            self._armed.release()
        if ours is not None:
            hooks.stop(ours)
        if _current is self:
            _current = None

    def __enter__(self) -> Arbiter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop(error)


def abandon() -> None:
    """In the child of a ``fork()``: the parent's watch is taken apart here,
    so that one of the child's own may begin."""
    global _current
    before, _current = _current, None
    if before is not None and before.pid != getpid():
        before.dismiss()
    else:
        _current = before


def current() -> Arbiter | None:
    """The arbiter that watches now, if one does.

    One of before a ``fork()`` watches nothing in the child.
    """
    global _current
    if _current is not None and _current.pid != getpid():
        _current = None
    return _current


def _warn(said: str, stacklevel: int) -> None:
    """Warnings may be errors; ours never break the program."""
    with suppress(RuntimeWarning):
        warnings.warn(said, RuntimeWarning, stacklevel=stacklevel)


def _remember() -> None:
    """What is loaded of ours now is what looks will find."""
    if isinstance(looks, Later):
        looks.remember()
