"""From suspects to findings: what is judged, told and reported, and when.

A walk over the heap finds holders.  From then on they are visited along their
known paths; a second walk is made where a path does not hold any more, where
another line is suspect, and for a report.  What was found is judged by the
table in rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from time import monotonic

from ..base.records import dataclass, replace
from ..core import frameworks, heap, hooks, ledger
from ..core.sources import excerpts
from ..core.wire import (
    AGE_FOR_REPORT,
    AGE_TO_TELL,
    USUAL_WINDOW,
    Status,
    Suspect,
    Totals,
    Walk,
)
from ..model.finding import Finding
from ..model.growth import ProcessGrowth
from ..model.report import Report
from ..model.words import BOUNDED
from . import unheld
from .afterwards import Afterwards
from .allowlist import AllowList
from .holders.known import KnownHolders
from .holders.look import Look
from .holders.memory import HolderHistory
from .masks import obfuscated
from .native import NativeSearch
from .one_at_a_time import OneAtATime
from .patches.offer import Holding
from .patches.patch import with_patches
from .program.source_file import each_parsed_once
from .program.statement import maybe_grown_at
from .sheet import Sheet
from .sums import account, closure, crosschecks, summary
from .verdicts.forecast import Forecast, is_much
from .verdicts.judge import Judge
from .verdicts.telling import Telling
from .walks import Walks, longest_pause
from .watch import StatementWatch
from .whole import Whole

#: Seconds for which the room that is left is taken to be what it was: who
#: walks more because of it, and when memory runs out, is asked of it alone.
ROOM_SECONDS = 1.0
#: A look is made at the latest after so many times the seconds that the ticks
#: until then were expected to take: these may get slower.
SLOWER = 4
#: What is said of findings after which no look could be made any more.
OF_LAST_LOOK = "what is found here is what the last look had found"


@dataclass(frozen=True)
class _Judged:
    """What a look has found, or a report."""

    suspects: Mapping[int, Suspect]
    forecast: Forecast
    findings: list[Finding]
    #: Ticks until a walk is worth its cost.
    pause: int


@dataclass
class Diagnostician:
    """Makes findings of one watched run."""

    warmup: int
    window: int
    allow: AllowList
    obfuscate: bool
    on_finding: Callable[[Finding], object] | None
    memory_limit: int | None
    phases: Sequence[str]
    #: Looks at objects of torch's that were given up since the watch began.
    failures: Callable[[], int]
    #: Whether no framework had been loaded when the watch began.
    from_the_start: bool = False
    planned_steps: int | None = None  # optimizer steps, where somebody knows
    #: Seconds after which a look is made in any case, for who follows them;
    #: 0.0: nobody does.
    refresh: float = 0.0
    _judged: Sequence[Finding] = ()
    _known: KnownHolders = field(init=False)
    _walks: Walks = field(init=False)
    _watch: StatementWatch = field(default_factory=StatementWatch)
    _whole: Whole = field(init=False)
    _told: Telling = field(init=False)
    _afterwards: Afterwards = field(init=False)
    _sheet: Sheet = field(init=False)
    _alone: OneAtATime = field(default_factory=OneAtATime)
    _native: NativeSearch = field(default_factory=NativeSearch)
    #: What the last walk found that no Python object leads to.
    _unheld: Sequence[Finding] = ()
    _next_visit: int = 0  # the tick of it, where something can be visited
    _turns: int = 0  # at the last look, where they were time
    #: When the room that is left was last read, and what it was.
    _room: tuple[float, Forecast] | None = None

    def __post_init__(self) -> None:
        self._known = KnownHolders(self.allow.allows)
        self._walks = Walks(self._known, self.phases, self.from_the_start)
        self._whole = Whole(self._known, self._watch)
        self._told = Telling(self.on_finding, self._known)
        self._afterwards = Afterwards(self.allow)
        self._sheet = Sheet(
            self._known,
            self._walks,
            self._afterwards,
            self.phases,
            self.warmup + self._least_age,
        )

    @property
    def _is_short(self) -> bool:
        """Whether the user asks for an answer after fewer steps than usual."""
        return self.window < USUAL_WINDOW

    @property
    def _least_age(self) -> int:
        """Positions that a report asks for."""
        if self._is_short:
            return self.window
        return self.window + AGE_FOR_REPORT - USUAL_WINDOW

    @property
    def _age_to_tell(self) -> int:
        """Positions before anything is told while the program runs: a report
        is the last word, and asks for fewer."""
        return self._least_age + AGE_TO_TELL - AGE_FOR_REPORT

    @property
    def _long_enough(self) -> int:
        """Positions after which one look at a report's end is enough."""
        return self.window if self._is_short else self._age_to_tell

    # -- while the program runs ---------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a look or a report is being made."""
        return self._alone.busy

    def look(self, tick: int) -> None:
        """Called at a tick where something is due."""
        # One that is cut short is made at the next tick.
        hooks.look_at(tick + 1)
        self._alone.run(lambda: self._look(tick), lambda: None)

    @each_parsed_once()
    def _look(self, tick: int) -> None:
        self._walks.begin_look()
        status = ledger.status()
        if self._watch.goes_on(status) and tick < self._next_visit:
            # A statement is sought.
            hooks.look_at(tick + self._watch.pause(status))
            return
        self._look_round(tick, status)

    def _look_round(self, tick: int, status: Status) -> None:
        with self._whole:
            now = self._judged_now(status)
        self._turns = status.now * status.by_turns
        self._tell(now, status)
        self._come_back(tick, status, now.pause)

    def _judged_now(self, status: Status) -> _Judged:
        self._forget_what_prepared(status)
        self._watch.end(status)
        self._walks.visit_all(status)
        suspects = {s.site: s for s in heap.suspects(self._age_to_tell)}
        forecast = self._forecast()
        pause = self._walk_if_due(suspects, status, forecast)
        self._afterwards.look(self._walks, status, forecast.room)
        judge = self._judge(status, forecast)
        findings = judge.findings(suspects, self._age_to_tell)
        findings += self._unheld
        if status.rises and status.now >= self.warmup + self._age_to_tell:
            # What lines keep is known.
            pause = self._walks.weigh(status, findings) or pause
        return _Judged(suspects, forecast, findings, pause or 0)

    def _forget_what_prepared(self, status: Status) -> None:
        """Where turns of loops were all that was known of time, and it has
        begun anew since, by steps or at another pace: holders that were found
        by then are found again by what they do in it."""
        before = self._turns
        if before and (status.now < before or not status.by_turns):
            self._watch.end(status, now=True)
            self._known.clear()
            self._walks.forget()

    def _tell(self, now: _Judged, status: Status) -> None:
        """Tells what was found, and begins to watch for statements."""
        self._judged = now.findings
        waiting = [
            history
            for history in self._known.values()
            if self._may_tell(history, now.suspects)
        ]
        # Told with its statement, a few turns later.
        later = {h.signature for h in waiting if self._watch.awaits(h)}
        self._told.tell(
            [
                f
                for f in now.findings
                if f.signature not in later
                and not _may_prepare(f, status, now.forecast)
            ],
            self._age_to_tell,
            now.forecast.room_of,
        )
        if not self._watch.busy:
            self._watch.begin(waiting, status)

    def _walk_if_due(
        self,
        suspects: Mapping[int, Suspect],
        status: Status,
        forecast: Forecast,
    ) -> int | None:
        """Ticks until a walk is worth its cost, 0: it was made; None: nothing
        asks for one."""
        if self._watch.busy:
            return None
        pause = self._walks.due(suspects, status, forecast.room)
        if pause == 0:
            walk = self._walks.walk(suspects, status)
            look = Look(status, status.kind, suspects, walk, self.phases)
            self._unheld = tuple(
                unheld.findings(look, forecast, self.allow, self._age_to_tell)
            )
        return pause

    def _forecast(self) -> Forecast:
        """The room that is left, from files that take longer to read than all
        the rest of a look: what was read a moment ago serves again."""
        now = monotonic()
        room = self._room
        if room is None or now - room[0] > ROOM_SECONDS:
            self._room = room = now, Forecast(self.memory_limit)
        return room[1]

    def _may_tell(
        self, history: HolderHistory, suspects: Mapping[int, Suspect]
    ) -> bool:
        """Whether its statement would be told."""
        finding = history.finding
        return (
            finding is not None
            and finding.verdict not in BOUNDED
            and history.is_suspect(suspects)
        )

    def _come_back(self, tick: int, status: Status, pause: int) -> None:
        """Arranges for the next visit."""
        self._next_visit = tick + self._walks.ticks_to_look(tick, status)
        due = self._due(tick, status, pause)
        within = SLOWER * max(due - tick, 0) * status.tick_seconds
        if self.refresh:
            within = min(within or self.refresh, self.refresh)
        hooks.look_at(due, within)

    def _due(self, tick: int, status: Status, pause: int) -> int:
        """The tick of the next visit; 0: when the criterion calls."""
        if self._watch.busy:
            return tick + self._watch.pause(status)
        if any(h.visitable for h in self._known.values()):
            return self._next_visit
        return tick + min(pause, longest_pause(tick)) if pause else 0

    def _judge(self, status: Status, forecast: Forecast) -> Judge:
        """Who judges what is known now."""
        return Judge(
            self._known,
            status,
            forecast,
            self._long_enough,
            self._steps_left(status),
        )

    def _steps_left(self, status: Status) -> int | None:
        """Optimizer steps that the planned run has still to do, if known."""
        if self.planned_steps is None:
            return None
        return max(self.planned_steps - status.counts.optimizer, 0)

    def _warnings(self, status: Status, totals: Totals) -> Iterator[str]:
        yield from summary.warnings(
            self._walks.last, status, totals, self.failures()
        )
        yield from self._native.said()
        yield from frameworks.said(self.obfuscate)
        if not self.obfuscate:
            yield from crosschecks.tracers()
        yield from self._of_theirs()

    def _of_theirs(self) -> Iterator[str]:
        """What the program gave us to call."""
        if self._told.failed:
            yield f"on_finding raised {self._told.failed}"
        yield from self.allow.warnings()

    def confirmed(self) -> list[Finding]:
        """What the looks so far have settled as growth without a bound."""
        found = [h.finding for h in tuple(self._known.values())]
        return [f for f in found if f is not None and f.confirmed]

    # -- the report ---------------------------------------------------------

    def report(self) -> Report:
        """Looks once more and puts everything together.

        While a look is being made, by this thread or another, it gives what
        the looks before have settled.
        """
        return self._alone.run(self._report, self._settled)

    def _settled(self) -> Report:
        return Report(
            findings=tuple(self.confirmed()),
            warnings=("a look was just being made: no figures of now",),
        )

    @hooks.no_turns()
    @each_parsed_once()
    def _report(self) -> Report:
        ledger.refresh()
        ledger.settle()
        status = replace(ledger.status(), asked=True)
        with self._whole:
            now, walk, process_growth = self._judged_at_last(status)
        self._turns = status.now * status.by_turns
        return self._written(now, walk, process_growth, status)

    def _judged_at_last(
        self, status: Status
    ) -> tuple[_Judged, Walk, ProcessGrowth | None]:
        self._forget_what_prepared(status)
        self._watch.end(status, now=True)
        self._walks.visit_all(status)
        suspects = {s.site: s for s in heap.suspects(self._least_age)}
        walk, process_growth = self._last_walk(suspects, status)
        forecast = Forecast(self.memory_limit)
        self._afterwards.look(self._walks, status, forecast.room)
        findings = self._judge(status, forecast).findings(
            suspects, self._least_age, last_word=True
        )
        return _Judged(suspects, forecast, findings, 0), walk, process_growth

    def _written(
        self,
        now: _Judged,
        walk: Walk,
        process_growth: ProcessGrowth | None,
        status: Status,
    ) -> Report:
        """The report of what was found."""
        suspects, forecast, findings = now.suspects, now.forecast, now.findings
        kind = status.kind
        look = Look(status, kind, suspects, walk, self.phases)
        self._unheld = tuple(
            unheld.findings(look, forecast, self.allow, self._long_enough)
        )
        findings += self._unheld
        findings = self._native.name(findings, suspects)
        findings += self._judge(status, forecast).released(self._least_age)
        self._told.tell(findings, self._age_to_tell, None)
        findings = [self._with_guess(f) for f in findings]
        findings = with_patches(findings, self._holdings(findings))
        self._judged = findings
        told_back = self._told.taken_back(
            {f.signature for f in findings}, status
        )
        totals_now = ledger.totals()
        report = replace(
            self._sheet.put_together(
                status, findings, forecast, self._walks.last, self._warnings
            ),
            taken_back=tuple(told_back),
            process_growth=process_growth,
            growing_lines=closure.lines(
                heap.rises(), self._known.explaining(findings), status
            ),
            cross_checks=crosschecks.sentences(totals_now, walk),
            excerpts=excerpts(
                site
                for f in (*findings, *told_back)
                for site in (
                    *(f.allocated_at, f.grown_at, f.maybe_grown_at),
                    *f.grown_stack[:1],
                    f.may_end_at,
                    f.asked_at,
                )
                if site is not None
            ),
        )
        if self._known:
            hooks.look_at(status.ticks + 1)
        return obfuscated(report) if self.obfuscate else report

    def _last_walk(
        self, suspects: Mapping[int, Suspect], status: Status
    ) -> tuple[Walk, ProcessGrowth | None]:
        """A report's, and what the process has grown by beside its tensors."""
        kind = status.kind
        # A run's points are many: they are let go before the heap is weighed.
        points = ledger.curves().points
        rises = closure.growth(points, kind, status.counts[kind])
        host = int(points["host_bytes"][-1]) if len(points) else 0
        del points
        last = account.weigh(status.counts, None)
        weighed = self._walks.weighed if rises.process else None
        if weighed and account.is_gone(weighed, last, host, rises.in_use):
            weighed = None
        # What findings explain by now is not weighed a second time.
        weigh = weighed is not None and weighed.tally is not None
        weigh = weigh and not closure.explain(
            self._known.explaining(self._judged), rises
        )
        if suspects or any(h.broken_at is None for h in self._known.values()):
            walk = self._walks.walk(suspects, status, weigh, ways=True)
        else:
            walk = self._walks.look_for_purposes(status, weigh)
        if weighed is None:
            return walk, None
        last = replace(last, tally=walk.tally)
        grown = account.growth(weighed, last, kind, host, rises.in_use)
        return walk, grown

    @hooks.no_turns()
    def glance(self, excuse: str = "") -> Report:
        """What the looks so far have settled, and figures of now: no walk.

        ``excuse``: why there can be no more than that.
        """
        report = self._sheet.put_together(
            ledger.status(),
            self._judged,
            Forecast(self.memory_limit),
            None,
            self._warnings,
        )
        if excuse:
            said = (excuse, OF_LAST_LOOK, *report.warnings)
            report = replace(report, complete=False, warnings=said)
        return obfuscated(report) if self.obfuscate else report

    def _with_guess(self, finding: Finding) -> Finding:
        """With a guess at the statement, which takes time."""
        if finding.grown_at is not None:
            return finding
        return replace(finding, maybe_grown_at=maybe_grown_at(finding))

    def _holdings(self, findings: Sequence[Finding]) -> dict[str, Holding]:
        """What the holders of these have, and what passes the statements."""
        found = {}
        for finding in findings:
            history = self._known.get(finding.signature)
            if history is None or finding.verdict in BOUNDED:
                continue
            visit = history.held.visit if history.visitable else 0
            census = heap.census(visit) if visit else None
            found[finding.signature] = Holding(
                census or history.sightings.census,
                history.sightings.other_growth,
                chained=history.graph_grows,
                elsewhere=history.sightings.elsewhere,
            )
        return found


def _may_prepare(finding: Finding, status: Status, forecast: Forecast) -> bool:
    """Whether it may be what a program loads before its first step: it holds
    little beside the memory that is left."""
    room = forecast.room_of(finding)
    return status.by_turns and not is_much(finding.retained_bytes, room)
