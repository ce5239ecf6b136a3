"""Findings of all holders that are known, each by the table of rules."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.records import dataclass, replace
from ...core.wire import GROWS_STEADILY, Status, Suspect
from ...model.finding import Finding
from ..holders.known import KnownHolders
from ..holders.leaving import had_paused, has_just_gone
from ..holders.memory import HolderHistory
from ..holders.observation import Moment, moment
from ..sums import curves
from .forecast import Forecast
from .verdict import at_last_tick, case_of, finding_of, stood_at_the_end

#: Bytes a step that are worth a word: a program that ends within a million
#: steps never has a megabyte of less.
LEAST_RATE = 1.0


@dataclass(frozen=True)
class Judge:
    """Judges what is ``known`` at one moment.

    ``long_enough``: positions after which one look, at a report, is enough;
    ``steps_left``: optimizer steps that the planned run has still to do.
    """

    known: KnownHolders
    status: Status
    forecast: Forecast
    long_enough: int
    steps_left: int | None

    def findings(
        self,
        suspects: Mapping[int, Suspect],
        needed: int,
        *,
        last_word: bool = False,
    ) -> list[Finding]:
        """Of all holders whose lines are suspect, or were, and have grown for
        so many positions as are ``needed``; ``last_word``: for a report."""
        found = []
        for history in self.known.values():
            if history.finding is None or history.broken_at is not None:
                continue
            self._see_lines(history, suspects)
            suspect = history.is_suspect(suspects)
            grows = history.growth.gains > 0 and not history.overdue()
            if not (suspect or grows or history.confirmed_at):
                continue
            sure = last_word and suspect
            finding = self._finding(history, needed, sure, last_word)
            if finding is None:
                continue
            history.finding = finding
            if not 0 < finding.cost_per_step < LEAST_RATE:
                found.append(finding)
        return found

    def released(self, needed: int) -> list[Finding]:
        """Leaks that stood at the last tick, and were let go with the end."""
        found = []
        for history in self.known.values():
            if history.broken_at is None or history.finding is None:
                continue
            elsewhere = self.known.held_elsewhere(history)
            if not (
                stood_at_the_end(history, self.status, elsewhere)
                or has_just_gone(history, self.status.now)
            ):
                continue
            self._see_the_end(history, history.broken_at)
            made = self._finding(history, needed, True, True)
            # What is gone and was never seen to grow was in passing: a value
            # that a thread holds while others make steps.
            if made is None or made.cost_per_step < LEAST_RATE:
                continue
            last = history.known_at.steps(self.status.kind)
            history.finding = replace(
                made, note=f"released by now: figures as of step {last}"
            )
            found.append(history.finding)
        return found

    def _see_the_end(self, history: HolderHistory, broken: Moment) -> None:
        """Of what went with the end alone: what a call that returned has
        dropped may have grown until then."""
        status = self.status
        if broken.tick < status.ticks:
            return
        ended = moment(replace(status, asked=False))
        if history.last.at.now <= status.until:
            ended = ended.at_the_end()  # no call after training is its time
        history.lasts(ended, at_last_tick(history))

    def _see_lines(
        self, history: HolderHistory, suspects: Mapping[int, Suspect]
    ) -> None:
        """What a holder's lines say of it: when what they have was made, since
        when those of them rise whose least does so steadily, how long what
        they made has lived, and whether they keep what is older."""
        status = self.status
        ages = curves.ages(history.sites, status, status.kind)
        history.ages = ages or history.ages
        if history.gains_by_births:
            history.growth.was_made(curves.made_by(history.sites))
        lines = [suspects[site] for site in history.sites if site in suspects]
        if (
            lines
            and (
                len(history.fellows) > 1
                or history.walked.with_alike
                or history.grows_inside
            )
            and history.growth.goes_on_unseen(*self.known.unseen(history))
        ):
            # Those that began since the walk nobody visits, nor what is in
            # the items of one.
            history.growth.went_on(status.now)
        history.rising = [s.since for s in lines if s.kinds & GROWS_STEADILY]
        if lines:
            history.lived = max(s.life for s in lines)
            history.keeps_old = any(s.keeps_old(status.now) for s in lines)

    def _finding(
        self,
        history: HolderHistory,
        needed: int,
        sure: bool,
        last_word: bool,
    ) -> Finding | None:
        """The holder's finding; ``sure``: what its lines say is known."""
        # Found at this very report: what its lines say is all there is, but of
        # what others have as well and to which nothing has come for long, and
        # of garbage that will not grow, what it has.
        lasted = history.generations if history.died else history.age
        old = (
            sure
            and min(lasted, history.age) >= self.long_enough
            and history.first.at.tick == history.last.at.tick
            and not (history.held.shared and had_paused(history))
        )
        status, forecast = self.status, self.forecast
        case = case_of(history, status, forecast, needed, old, last_word)
        return finding_of(history, case, status, forecast, self.steps_left)
