"""When to walk and when to visit, and what that has cost so far.

A walk finds holders and takes as long as the heap is large; a near one leaves
out what libraries' modules lead to, where the user's own lead to all that is
suspect.  It finds the same holders by the same paths, for a walk goes through
a library only where there is no other way.  What a library holds besides, so
that a cut frees less, is measured once a finding has been told and the
program's time pays for it, at the latest for the report, and from then on
where it is something.  Visits follow what is known.  All are paid for by
the time that the program has had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from time import process_time, thread_time

from ..base.records import dataclass
from ..core import heap, ledger
from ..core.wire import (
    GROWS_ANEW,
    GROWS_BYTES,
    GROWS_COUNT,
    Status,
    Suspect,
    Tally,
    Walk,
)
from ..model.finding import Finding
from ..model.live import LiveTable
from ..model.words import BOUNDED
from .holders.known import KnownHolders
from .holders.look import Look
from .holders.memory import HolderHistory
from .holders.observation import alive_of, moment
from .sums import account, closure
from .sums.curves import Purposes
from .sums.live_table import fuller, live_table
from .verdicts.forecast import is_much

#: Seconds of the processor's time that a run may be asked for in any case, so
#: that a short one has its answer, and the share of its time so far that
#: walks may take beyond; more while what is suspect holds a good part of the
#: memory that is left: then knowing matters more than a pause.
ALLOWANCE = 0.3
WALK_SHARE = 0.02
URGENT_SHARE = 0.25
#: What can't be visited is found by one walk and confirmed by another: so many
#: are made even where they cost more than that.
WALKS_TO_CONFIRM = 2
#: Seconds that a first walk of the whole heap is expected to take, and a near
#: one.
FIRST_WALK = 0.1
FIRST_NEAR_WALK = 0.02
#: A walk that weighs what it meets takes so many times as long.
WEIGHS = 2
#: A line whose holder was found to be none of ours is looked at again when it
#: is so many times as old.
AGAIN = 2
#: Positions until a holder that can't be visited is walked to once more.
SECOND_WALK = 4
#: Share of the time from one look to the next that it may take, beside walks,
#: and the largest part of the ticks so far that passes without one.
LOOK_SHARE = 0.005
LONGEST_PAUSE = 1 / 8


@dataclass
class Walks:
    """Walks and visits of one watched run, and the holders they know."""

    known: KnownHolders
    phases: Sequence[str]
    #: Whether no framework had been loaded when the watch began.
    from_the_start: bool = False
    purposes: Purposes = field(default_factory=Purposes)
    last: Walk | None = None
    count: int = 0
    live: LiveTable = field(default_factory=LiveTable)
    #: When the process was first seen to grow beside its tensors.
    weighed: account.Weighing | None = None
    _weigh_at: int = 0  # the tick from which that is asked again
    _rises_from: int = 0  # the one at which that trend was seen first
    #: Whether libraries' modules were seen to hold what a holder has, too.
    _besides: bool = False
    _looked: dict[int, int] = field(default_factory=dict)
    #: Lines of which there is no more, each larger in its place, when they
    #: were suspect last.
    _alone: set[int] = field(default_factory=set)
    _seconds: float = 0.0
    _walk_seconds: float = 0.0  # of the last walk
    _last_seconds: float = FIRST_WALK  # of a walk that left nothing out
    _near_seconds: float = FIRST_NEAR_WALK  # of one that did
    _look_began: float = 0.0  # in seconds of the thread, without walks

    def forget(self) -> None:
        """Lines are as new as time is."""
        self._looked.clear()
        self._alone.clear()

    def visit_all(self, status: Status) -> None:
        """Sees every known holder again."""
        self.known.visit(moment(status))

    def begin_look(self) -> None:
        """Notes when one begins, in the thread's seconds without walks."""
        self._look_began = thread_time() - self._seconds

    def ticks_to_look(self, tick: int, status: Status) -> int:
        """Ticks until the one that is being made has paid for itself: each
        costs the program a little, and the more often ticks come, the more
        rarely are they due."""
        took = thread_time() - self._seconds - self._look_began
        return min(status.ticks_in(took / LOOK_SHARE), longest_pause(tick))

    def due(
        self,
        suspects: Mapping[int, Suspect],
        status: Status,
        room: int | None,
    ) -> int | None:
        """Ticks until a walk is worth its cost, 0: it is now; None: nothing
        asks for one.  In what may be a preparation near ones alone are
        free."""
        if self._wanted(suspects, status):
            if status.by_turns:
                free = WALKS_TO_CONFIRM * self._near_seconds
                return self.pause(suspects, status, room, free, 0)
            return self.pause(suspects, status, room)
        if self._wanted_anew(suspects):
            return self.pause(suspects, status, room, 0.0)
        if self._wanted_whole():
            # None is free for it: that of the report measures it, too.
            return self.pause(suspects, status, room, 0.0, 0)
        return None

    def _wanted(self, suspects: Mapping[int, Suspect], status: Status) -> bool:
        """Whether a line is suspect and no known holder says why: one that
        has not grown for long is not what it keeps feeding."""
        known = {
            site
            for history in self.known.values()
            if history.visitable
            and history.broken_at is None
            and not history.comes_and_goes
            and not history.overdue()
            for site in history.sites
        }
        # Their line goes on where they don't: something else grows by it, or
        # another of many that are alike.
        known -= {
            site
            for history in self.known.values()
            if history.growth.gains and history.broken_at is None
            if history.overdue()
            for site in history.sites
        }
        waiting = {
            site
            for history in self.known.values()
            if not history.visitable and history.confirmed_at is None
            for site in history.sites
        }
        return any(
            site not in known
            and status.now - s.since
            >= (
                self._looked.get(site, 0) + SECOND_WALK
                if site in waiting
                else self._looked.get(site, 0) * AGAIN
            )
            for site, s in suspects.items()
        )

    def _wanted_whole(self) -> bool:
        """Whether a leak that was told has been measured by near walks
        alone."""
        return any(
            history.broken_at is None
            and history.told is not None
            and history.told not in BOUNDED
            and not history.measured
            for history in self.known.values()
        )

    def _only_measures(
        self, suspects: Mapping[int, Suspect], status: Status
    ) -> bool:
        """Whether nothing but the cost of what was told asks for a walk."""
        return (
            self._wanted_whole()
            and not self._wanted(suspects, status)
            and not self._wanted_anew(suspects)
        )

    def _near_is_enough(self) -> bool:
        """Whether a near walk would find each holder again, with its cost so
        far as that is known."""
        return not self._besides and all(
            history.held.near
            for history in self.known.values()
            if history.broken_at is None
        )

    def _wanted_anew(self, suspects: Mapping[int, Suspect]) -> bool:
        """Whether a known holder that still grows is so many times as large
        as it was measured: what came is taken to be like what there was.  Or
        its lines have so many times as much alive as then, and it is several
        that are alike: those that began since nobody visits."""
        return any(
            history.visitable
            and history.broken_at is None
            and history.is_suspect(suspects)
            and (
                history.last.scale >= AGAIN
                or (len(history.fellows) > 1 and _alive(history) >= AGAIN)
            )
            for history in self.known.values()
        )

    def pause(
        self,
        suspects: Mapping[int, Suspect],
        status: Status,
        room: int | None,
        allowance: float = ALLOWANCE,
        walks: int = WALKS_TO_CONFIRM,
    ) -> int:
        """Ticks until a walk is worth its cost, of which so many seconds and
        so many walks are free; 0: it is now."""
        at_stake = sum(s.live_bytes for s in suspects.values())
        share = URGENT_SHARE if is_much(at_stake, room) else WALK_SHARE
        near = status.by_turns and self._near_is_enough()
        one = self._near_seconds if near else self._last_seconds
        free = max(allowance, walks * one)
        missing = (self._seconds + one - free) / share - process_time()
        return status.ticks_in(missing)

    def weigh(self, status: Status, findings: Sequence[Finding]) -> int:
        """Weighs what there is, at the start of a trend that these findings
        don't explain and that has lasted; ticks until that is asked again, 0:
        it was."""
        if self.weighed is not None and self.weighed.tally is not None:
            return 0
        if status.ticks < self._weigh_at:
            return self._weigh_at - status.ticks
        # When the trend has a window more.
        self._weigh_at = 1 + status.ticks + status.ticks // closure.WINDOWS
        wait = self._weigh_at - status.ticks
        if closure.grows_beside(
            ledger.curves().points,
            status.kind,
            self.known.explaining(findings),
        ):
            # Many a program fills what it has for as long as that takes.
            self._rises_from = self._rises_from or status.ticks
            cost = self._seconds + WEIGHS * self._last_seconds
            missing = (cost - ALLOWANCE) / WALK_SHARE - process_time()
            wait = max(
                AGAIN * self._rises_from - status.ticks,
                status.ticks_in(missing),
            )
        else:
            self._rises_from = 0
        if wait > 0:
            self.weighed = self.weighed or account.weigh(status.counts, None)
            return wait
        self.weighed = account.weigh(status.counts, self._tally())
        return 0

    def _tally(self) -> Tally | None:
        """What Python's objects weigh now, by type."""
        with self._paid():
            walk = heap.walk((), weigh=True)
        self.count += 1
        return walk.tally

    def walk(
        self,
        suspects: Mapping[int, Suspect],
        status: Status,
        weigh: bool = False,
        ways: bool = False,
    ) -> Walk:
        """One walk for all suspects, and for what was confirmed before."""
        with self._paid():
            walk = self._walk(suspects, status, weigh, ways)
        self._expect(walk)
        return walk

    @contextmanager
    def _paid(self) -> Iterator[None]:
        """What a walk costs is counted however it ends."""
        began = thread_time()
        try:
            yield
        finally:
            self._walk_seconds = thread_time() - began
            self._seconds += self._walk_seconds

    def _expect(self, walk: Walk) -> None:
        """A walk of its kind will take what this one did."""
        if walk.near:
            self._near_seconds = self._walk_seconds
        else:
            self._last_seconds = self._walk_seconds

    def _walk(
        self,
        suspects: Mapping[int, Suspect],
        status: Status,
        weigh: bool,
        ways: bool,
    ) -> Walk:
        # What holds a step's own beside what is told is in passing.
        measures = not ways and self._only_measures(suspects, status)
        near = not (weigh or ways or measures) and self._near_is_enough()
        # Visits compare later probes with that of what is measured here.
        ledger.probe_graphs()
        sites = set(suspects)
        for history in self.known.values():
            sites.update(history.sites)
        # Growth without more storages may be that of an old one.
        any_age = [
            site for site, s in suspects.items() if not s.kinds & GROWS_COUNT
        ]
        anew = [i for i, s in suspects.items() if s.kinds & GROWS_ANEW]
        self._alone.difference_update(suspects)
        self._alone.update(
            i for i, s in suspects.items() if s.kinds == GROWS_BYTES
        )
        alone = self._alone & sites
        self.last = walk = heap.walk(
            sites, any_age, anew, alone, weigh=weigh, ways=ways, near=near
        )
        self.count += 1
        if not walk.near:
            self.purposes.add(walk, status, ledger.totals())
            self._besides = walk.in_libraries
        tick = ledger.status().ticks
        look = Look(status, status.kind, suspects, walk, self.phases, tick)
        self.known.take_in(look, only_known=measures)
        for site, s in suspects.items():
            self._looked[site] = status.now - s.since
        self._see_live(status)
        return walk

    def apart(self, suspects: Mapping[int, Suspect], status: Status) -> Look:
        """One walk for these, of no position's making, of which nothing is
        remembered."""
        with self._paid():
            walk = heap.walk(
                suspects, anew=suspects, remember=False, near=True
            )
            self.count += 1
        self._expect(walk)
        return Look(status, status.kind, suspects, walk, self.phases)

    def look_for_purposes(self, status: Status, weigh: bool = False) -> Walk:
        """One walk of which only the sums are wanted."""
        # What is older than the watch is no storage that we know.
        near = self.from_the_start and not weigh
        self.last = walk = heap.walk((), weigh=weigh, near=near)
        self.purposes.add(self.last, status, ledger.totals())
        self._see_live(status)
        return walk

    def _see_live(self, status: Status) -> None:
        """What is alive: little is, once the program has ended."""
        now = live_table(status.counts[status.kind])
        self.live = fuller(self.live, now)


def longest_pause(tick: int) -> int:
    """Ticks that pass without a look, of what may be seen, at most."""
    return max(1, int(tick * LONGEST_PAUSE))


def _alive(history: HolderHistory) -> float:
    """Of its lines, as a multiple of what was alive when it was walked to."""
    now = alive_of({site: heap.site_now(site) for site in history.sites})
    return now / max(alive_of(history.sites), 1)
