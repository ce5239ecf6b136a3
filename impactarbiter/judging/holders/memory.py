"""What is remembered of one holder, from the walk that found it on.

A walk finds a holder and measures what it keeps; visits, some microseconds
each, say from then on how long it is, what its first item is, and that it is
still there.  Everything that a verdict needs of the past is in here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field

from ...base.records import Changing, dataclass, replace
from ...core.wire import Held, SiteNow, Visit
from ...model.finding import Finding, GraphCost
from ...model.history import Ages
from .departures import Departures
from .growth import Growth
from .observation import (
    Moment,
    Observation,
    alive_of,
    dated,
    observed,
    visited,
)
from .reach import Reach
from .scaled import scaled
from .siblings import (
    Siblings,
    count_of,
    died_at_once,
    stands_for,
    told_as_one,
)
from .sightings import Sightings
from .turnover import Turnover


@dataclass
class HolderHistory(Changing):
    """One holder from look to look.

    ``last`` is the last look, and ``first`` the one that rates are counted
    from: what was before that says nothing of them.
    """

    signature: str
    held: Held  # as the last walk saw it
    since: int  # position or tick since which its line keeps what it makes
    first: Observation
    last: Observation

    # What looks have seen of it.
    turnover: Turnover  # of what the last walk saw
    growth: Growth = field(default_factory=Growth)
    reach: Reach = field(default_factory=Reach)
    departures: Departures = field(default_factory=Departures)
    sightings: Sightings = field(default_factory=Sightings)

    # What the last walk found.
    # All that were told singly and are this one holder, `held` among them.
    fellows: Sequence[Held] = ()
    siblings: Sequence[tuple[Held, Finding]] = ()  # with their findings
    alike: int = 1  # with those that were too many for it
    generations: int = 0  # steps that have left something there
    retained: int = 0  # storages that were freed with it
    graph: GraphCost | None = None  # likewise
    measured: bool = False  # by a walk over the whole heap, this or another
    beside: tuple[str, ...] = ()  # tensors on the same graph
    one_of_many: bool = False  # of lines that keep ever more
    only_larger: bool = False  # there is no more of it
    grew_inside: bool = False  # with as many items

    # Its lines.
    sites: Mapping[int, SiteNow] = field(default_factory=dict)  # as walked to
    rising: Sequence[int] = ()  # since when they do, steadily
    rise_is_others: bool = False  # siblings keep what its lines keep
    lived: int = 0  # the longest lifetime of theirs that ended
    # Of each time some survives, and what lived for half of it never ended.
    keeps_old: bool = False
    ages: Ages | None = None  # when it was judged last

    # Whether it is there still, and what it is.
    broken_at: Moment | None = None  # a tick at which its path did not hold
    # Nothing is alive of what the last walk saw: that went with its path.
    is_gone: bool = False
    # Its path held again after that, or not while its statement was sought.
    comes_and_goes: bool = False
    recurs: bool | None = None  # a tensor made from the one before it
    bound: int | None = None  # the most items by its type
    full_at: Moment | None = None  # since when it was seen at its bound
    # Garbage like it, which a walk had seen, was gone at a later one.
    was_collected: bool = False
    # Runs of the collector, when it was found: `heap.collections`.
    runs: tuple[int, ...] = (0,)
    # Of garbage: whether one was to free it, and how many had come, when it
    # was judged first after the walk of that tick.
    awaited: tuple[int, bool, tuple[int, ...]] = (0, False, ())

    # What was said of it.
    finding: Finding | None = None
    confirmed_at: Moment | None = None
    told: str | None = None  # the verdict that was announced
    began: int = field(init=False)  # `since`, as it was found with

    def __post_init__(self) -> None:
        self.began = self.since
        self._note_fullness(self.last, self.last.at)

    @property
    def walked(self) -> Observation:
        """The last that a walk measured."""
        return self.turnover.walked

    @property
    def eldest(self) -> int:
        """When the first of it was made, as the last walk saw it."""
        return min((held.eldest for held in self.fellows), default=0)

    @property
    def visitable(self) -> bool:
        """Whether its path can be followed without a walk."""
        return bool(self.fellows) and all(one.visit for one in self.fellows)

    @property
    def paths(self) -> list[int]:
        """By which it is visited, where it is."""
        return [one.visit for one in self.fellows if one.visit]

    @property
    def length(self) -> int | None:
        """Items of the one that stands for all that are alike."""
        now, then = self.last.items, self.walked.items
        if len(self.fellows) == 1 or not now or not then:
            return now
        return round((self.held.length or 0) * now / then)

    def length_of(self, held: Held) -> int:
        """Items that it had, or the one of those that are alike."""
        if len(self.fellows) == 1:
            return self.last.items or 0
        same = self.fellow(held)
        return (same.length or 0) if same is not None else 0

    def fellow(self, held: Held) -> Held | None:
        """The same object, as the last walk saw it."""
        same = (one for one in self.fellows if one.owners[0] == held.owners[0])
        return next(same, None)

    def move(self, seen: Iterable[Visit]) -> list[tuple[Held, int]]:
        """Takes in where visits saw its containers, which may have been made
        anew; those that lay elsewhere, and where they lie now."""
        moved = [
            (one, visit.value)
            for one, visit in zip(self.fellows, seen, strict=True)
            if visit.state == "intact" and visit.length is not None
            if visit.value != one.owners[0]
        ]
        if moved:
            at = {one.owners[0]: value for one, value in moved}
            self.held = _at(at, self.held)
            self.fellows = [_at(at, one) for one in self.fellows]
            self.siblings = [(_at(at, one), f) for one, f in self.siblings]
        return moved

    @property
    def died(self) -> bool:
        """Whether it is garbage that came about at once."""
        return died_at_once(self.fellows)

    @property
    def frees_nodes(self) -> bool:
        """Whether a cut at it alone, as a walk measured, frees a graph."""
        return self.walked.nodes > 0 and not self.held.shared

    @property
    def graph_grows(self) -> bool:
        """Whether the graph behind it reaches further back than it did."""
        grows = self.reach.grows(
            self.first, self.last, by_graph=self._leads_there_by_a_graph
        )
        return grows and not self._has_nothing_old()

    @property
    def _leads_there_by_a_graph(self) -> bool:
        """Whether it keeps what its lines make by graphs alone, and not in
        containers that its items have, each with a graph of its own."""
        way = self.held.path.edges[self.held.depth :]
        items = sum(edge.is_item for edge in way)
        return items < 2 or any(edge.kind == "node" for edge in way)

    def _has_nothing_old(self) -> bool:
        """Whether all that it holds, graphs with saved tensors among it, was
        made since it was found: these lead back to nothing that was there
        then, though each may be larger than those that were."""
        groups = [group for held in self.fellows for group in held.groups]
        items = self.walked.items or 1
        return (
            sum(group.count for group in groups) > 2 * items
            and min(group.first for group in groups) > self.reach.found
        )

    def is_suspect(self, sites: Container[int]) -> bool:
        """Whether one of its lines is among these."""
        return any(site in sites for site in self.sites)

    def shares_a_way_with(self, other: HolderHistory) -> bool:
        """Whether one of the two holders lies in the other."""
        ours, theirs = self.held, other.held
        return ours.lies_in(theirs) or theirs.lies_in(ours)

    @property
    def known_at(self) -> Moment:
        """As of when its figures are: of several that are alike, those that
        began after the walk are in none."""
        gained = self.growth.gained if len(self.fellows) > 1 else None
        return gained or self.last.at

    @property
    def is_remade(self) -> bool:
        """Whether it is one value in place of another, as far as is known."""
        if self.recurs is not None:
            return not self.recurs
        return self.one_of_many or (
            (self.only_larger or self._has_as_many_anew)
            and not self.sightings.renew(self.finding)
        )

    @property
    def _has_as_many_anew(self) -> bool:
        """Whether it is no container, and all that it has is made anew each
        time, no more than at first: it can only have become larger."""
        return (
            self.held.length is None
            and self.turnover.renews
            and self.last.storages <= self.first.storages
        )

    @property
    def is_the_same(self) -> bool:
        """Whether it is a tensor with a graph that was not seen replaced:
        what its line has made since may be anybody's."""
        return self.last.graph != 0 and self.recurs is None

    @property
    def grows_inside(self) -> bool:
        """Whether a container has gained, as walks measured, while it had as
        many items: each visit sees it as it was."""
        return self.grew_inside and self.last.items == self.first.items

    @property
    def age(self) -> int:
        """Positions or ticks that it has gathered for."""
        return self.last.at.now - self.since

    def storages_by(self, now: int) -> float:
        """As many as its lines have there by then, if it goes on as it did."""
        since = now - self.last.at.now
        return self.last.storages * (1 + since / max(self.age, 1))

    def storages_of(self, sites: Container[int]) -> int:
        """Of what it has, as many as are these lines': by the parts that the
        last walk has found."""
        groups = [group for held in self.fellows for group in held.groups]
        count = sum(group.count for group in groups)
        theirs = sum(g.count for g in groups if g.site in sites)
        return self.last.storages * theirs // max(count, 1)

    def observe(self, now: Observation, made: int | None = None) -> None:
        """Takes in what a walk or a visit saw; ``made``: when the youngest of
        what a walk has found there was."""
        before, seen_at = self.last, now.at
        self.last = now = dated(self.reach.own(now), before)
        self._note_fullness(now, seen_at)
        self.growth.see_size(now)
        self.reach.observe(now, before)
        if now.exceeds(before):
            paused = self.overdue() and now.at.now - self.growth.gained_at
            if paused:
                self.sightings.resume()
            self.growth.add(now, before, made, paused)
            self.grew_inside |= now.grew_inside(before)
        if self.turnover.observe(now):
            self.counts_from(now)
        left = self.departures
        if left.observe(
            now,
            before,
            graph_grows=self.graph_grows,
            alike=len(self.fellows) or 1,
        ):
            self.confirmed_at, self.grew_inside = None, False
            if before is not self.first:
                self.growth.rates.let_go(self.first, before)
            self.counts_from(now)
        elif left.lets_go and now.at.now - self.first.at.now > 2 * (
            self.first.at.now - self.since
        ):
            # It did let go once: what has gathered for twice as long since
            # is not waiting for its turn.
            self.waits_no_more(self.first.at.now)

    def _note_fullness(self, now: Observation, at: Moment) -> None:
        alike, items = max(len(self.fellows), 1), now.items or 0
        full = self.bound is not None and items >= self.bound * alike
        self.full_at = (self.full_at or at) if full else None

    @property
    def _counted_anew(self) -> bool:
        """Whether rates are counted from a look after the last walk."""
        return self.first.at.tick > self.walked.at.tick

    def _as_old_as_walked(self, older: Callable[[int, int], int]) -> int:
        """Storages of its lines that were there when it was walked to."""
        tick = self.turnover.old_at
        return sum(older(site, tick) for site in self.sites)

    def has_died(self, older: Callable[[int, int], int]) -> bool:
        """Whether its lines have nothing alive of what they had when it was
        walked to; ``older`` is asked as by ``told_apart``."""
        return not self._as_old_as_walked(older)

    def told_apart(
        self,
        now: Observation,
        lines: Mapping[int, SiteNow],
        older: Callable[[int, int], int],
    ) -> Observation:
        """What is seen now, with what is gone of what the last walk saw;
        ``older(site, tick)`` counts what has not died."""
        return self.turnover.told_apart(
            now,
            self.last,
            alive_of(lines),
            sum(line.live_bytes for line in lines.values()),
            self._as_old_as_walked(older),
            gone=self.is_gone,
            counted_anew=self._counted_anew,
            of_a_turn=self.held.turn,
        )

    def walked_again(
        self,
        held: Held,
        fellows: Sequence[Held],
        now: Observation,
        made: int | None = None,
        *,
        leads_back: bool = False,
        in_use: bool = False,
    ) -> None:
        """Takes in a walk, which may call the holder by another name; ``made``
        as by ``observe``; ``leads_back``: what had left it is led to;
        ``in_use``: a step has not ended that works with what its lines make.
        """
        if self.comes_and_goes:
            self.sightings.forget_watches()
        self.last = self._compared_with(fellows, now)
        self.turnover.carries_over |= self._was_handed_on(held)
        if count_of(fellows) > self.alike:
            made = None  # there are more: the youngest may not be told
        self.held = held
        self.fellows = fellows
        self.broken_at, self.is_gone = None, False
        self.comes_and_goes = False
        shared = now.nodes < self.last.nodes and self.graph_grows
        copied = self.turnover.carries_over and self._counted_anew
        self.departures.walked_again(leads_back=leads_back)
        if leads_back:
            self.counts_from(self.walked)
            self.growth.went_on(now.at.now, gains=1)
        self.observe(now, made)
        if shared or copied:
            # Something else has a part of its graph since then; copies are
            # none of its lines' storages.
            self.counts_from(now)
        self.growth.walked_again(self.walked, now, in_use=in_use)
        self.turnover.walked_again(now)

    def _was_handed_on(self, held: Held) -> bool:
        """Whether a turn's variable has another value by now, and that has the
        first that was there."""
        return (
            held.turn
            and held.length is None
            and held.owners[0] != self.held.owners[0]
            and held.eldest <= self.eldest
        )

    def _compared_with(
        self, fellows: Sequence[Held], now: Observation
    ) -> Observation:
        """The last look, as far as it says what has left since of these."""
        more = len(fellows) - len(self.fellows)
        if more == 0 and not _are_others(fellows, self.fellows):
            return self.last
        # What is first, or eldest, in others is nothing that left.
        last = replace(self.last, first=0, eldest=0)
        if more > 0 or (more < 0 and count_of(fellows) < self.alike):
            return last
        # Nor are there fewer items where some of them stand for all.
        return replace(last, items=now.items)

    def consists_of(
        self,
        siblings: Siblings,
        walked: Observation,
        size: float,
        count: float,
    ) -> None:
        """These are the holder, and grew by so many bytes and storages a step
        until they were ``walked`` to; one stands for all."""
        self.held, _finding = stands_for(siblings)
        self.siblings = siblings
        self.fellows = [held for held, _finding in siblings]
        self.alike = count_of(self.fellows)
        verdict = self.finding.verdict if self.finding else "growing"
        told = told_as_one(siblings, walked, size, count, verdict)
        self.finding, self.graph = told, told.graph
        self.generations = told.generations
        self.retained = told.retained_tensors

    def takes_over(self, part: HolderHistory) -> None:
        """That was taken for the holder until a walk found this on its way.
        Where this lies in it and has more of its lines than it had, what it
        was sure to keep has grown."""
        self.told = self.told or part.told
        if part.held.lies_in(self.held):
            self.sightings.inherit(part.sightings)
        elif (
            part.confirmed_at
            and self.storages_of(part.sites) > part.walked.storages
        ):
            self.confirmed_at = part.confirmed_at
            self.since = min(self.since, part.since)
            self.growth.went_on(self.last.at.now, part.growth.gains)
            # Of its own items nobody knows how many there were.
            self.first = replace(part.first, items=None)

    def parted(
        self,
        signature: str,
        siblings: Siblings,
        visit: Visit,
        at: Moment,
        lines: dict[int, SiteNow],
    ) -> HolderHistory:
        """The past of some that were told with others, of whom only the last
        walk has measured each: ``visit`` is what they alone are now.  Their
        growth is counted from now on."""
        fellows = [held for held, _finding in siblings]
        sites = {group.site for held in fellows for group in held.groups}
        then = {s: line for s, line in self.sites.items() if s in sites}
        walked = observed(fellows, visit, self.walked.at, then)
        share = walked.held / max(self.walked.held, 1)
        growth = self.growth.of_a_part(share)
        part = replace(
            self.copied(),
            signature=signature,
            told=self.told if signature == self.signature else None,
            last=walked,
            turnover=replace(self.turnover, walked=walked),
            sites=then,
        )
        part.began = self.began
        size, count = growth.pace.bytes, growth.pace.storages
        part.consists_of(siblings, walked, size, count)
        part.last = part._scaled(visited(walked, visit, at, lines), lines)
        part.counts_from(part.last)
        part.growth = growth
        part.departures.has_at_most(part.last.items or 0)
        return part

    def starts_over(self, let_go_at: int) -> None:
        """Its past says nothing; it let go then, or 0: never."""
        self.confirmed_at = None
        self.since = self.began
        self.departures.starts_over(let_go_at)

    def waits_no_more(self, since: int) -> None:
        """What it has gathered ``since`` then is not let go in its turn."""
        self.departures.waits_no_more()
        self.since = since

    def counts_from(self, now: Observation) -> None:
        """Rates are counted anew."""
        self.first = now
        self.growth.restart()
        self.reach.restart()

    def seen(
        self,
        visit: Visit,
        at: Moment,
        lines: dict[int, SiteNow],
        older: Callable[[int, int], int],
    ) -> None:
        """Takes in a visit; ``lines`` are its lines' storages now, and
        ``older`` is asked as by ``told_apart``."""
        if visit.state == "unknown":
            return
        if visit.state != "intact" or self._went_with_the_end(visit, lines):
            self.broken_at = self.broken_at or at
            # Where lines have as many as at the tick the program goes on.
            if alive_of(lines) >= storages_at_tick(lines):
                old = self._as_old_as_walked(older)
                self.is_gone |= not old and self.turnover.remaining > 0
            return
        self.comes_and_goes |= self.broken_at is not None
        if visit.recurs is not None:
            self.recurs = visit.recurs
        now = visited(self.walked, visit, at, lines)
        now = self.told_apart(now, lines, older)
        self.broken_at, self.is_gone = None, False
        self.observe(self._scaled(now, lines))

    def _scaled(
        self, now: Observation, lines: Mapping[int, SiteNow]
    ) -> Observation:
        return scaled(
            now,
            self.walked,
            self.fellows,
            self.sites,
            lines,
            self.recurs,
            self.growth.each,
            inside=self.grows_inside,
        )

    def sees(
        self,
        lines: Mapping[int, SiteNow],
        older: Callable[[int, int], int],
    ) -> None:
        """Takes in what is alive of the lines of garbage."""
        old = self._as_old_as_walked(older)
        self.turnover.collected(alive_of(lines), old)

    def _went_with_the_end(
        self, visit: Visit, lines: Mapping[int, SiteNow]
    ) -> bool:
        """Whether what is gone was all there when the last tick ended: no
        turn of the program let go of it, its end did."""
        shorter = (visit.length or 0) < (self.last.items or 0)
        return shorter and storages_at_tick(
            lines
        ) >= self.last.storages > alive_of(lines)

    @property
    def gains_by_births(self) -> bool:
        """Whether it cannot gain without that something is made for it: a
        tensor, or a container for each of whose items its lines have one,
        those of the warm-up, which no walk counts, among them."""
        last = self.last
        return last.is_plain or (
            not self.graph_grows and 0 < (last.items or 0) <= last.alive
        )

    def lasts(self, until: Moment, at_tick: int) -> None:
        """It went with the end, which came then; its lines had so many
        storages at the last tick.  Where these are as many as when it was
        seen, nothing has come to it since."""
        if self.gains_by_births and at_tick == self.last.alive:
            self.last = replace(self.last, at=until)

    def overdue(self) -> bool:
        """Whether it has not gained for longer than a third of its age: as
        the criterion asks it of a line."""
        return 3 * (self.last.at.now - self.growth.gained_at) > self.age


def _at(places: Mapping[int, int], held: Held) -> Held:
    """Where it lies now, of those that lay elsewhere."""
    if held.owners[0] not in places:
        return held
    return replace(held, owners=(places[held.owners[0]], *held.owners[1:]))


def _are_others(ones: Iterable[Held], theirs: Iterable[Held]) -> bool:
    """Whether they are neither the same objects nor in the same places."""
    objects = {held.owners[0] for held in theirs}
    if any(held.owners[0] in objects for held in ones):
        return False
    places = {held.place for held in theirs}
    return all(held.place not in places for held in ones)


def in_use(lines: Mapping[int, SiteNow]) -> bool:
    """Whether lines have more than when the last tick ended."""
    return alive_of(lines) > storages_at_tick(lines)


def storages_at_tick(lines: Mapping[int, SiteNow]) -> int:
    """Storages that lines had when the last tick ended."""
    return sum(line.at_tick for line in lines.values())
