"""What is remembered of one holder, from the walk that found it on.

A walk finds a holder and measures what it keeps; visits, some microseconds
each, say from then on how long it is, what its first item is, and that it is
still there.  Everything that a verdict needs of the past is in here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.wire import Counts, Held, SiteNow, Statement, Visit
from ..model.finding import Finding, GraphCost
from ..model.history import Ages


@dataclass(frozen=True)
class Moment:
    """When something was seen: ``now`` is position or tick, as ages are."""

    tick: int
    now: int
    counts: Counts

    def steps(self, kind: int) -> int:
        """Events of one kind until then."""
        return self.counts[kind]


@dataclass(frozen=True)
class Observation:
    """What was seen of a holder at one moment.

    ``items`` is None for no container.  ``storages`` and ``held`` (bytes) are
    what the suspect lines have put there, ``first`` and ``value`` addresses
    to compare, ``size`` the memory of a holder that is a tensor.  ``emptied``:
    nothing is alive of what the last walk saw in it.  ``bytes`` in ``freed``
    storages, ``nodes`` and ``node_bytes`` are what cutting the holder would
    free, as the last walk before it measured them.
    """

    at: Moment
    items: int | None
    storages: int
    held: int
    bytes: int
    nodes: int
    node_bytes: int
    probed: Mapping[int, int]  # nodes behind its lines' newest tensors
    first: int
    value: int
    graph: int
    size: int = 0
    emptied: bool = False
    scale: float = 1.0  # storages as a multiple of those that a walk has seen
    longer: float = 1.0  # likewise of what cutting it would free
    freed: int = 0

    def exceeds(self, older: Observation) -> bool:
        """Whether the holder has gained anything since."""
        if self.items is not None and older.items is not None:
            if self.items != older.items:
                return self.items > older.items
            # As many of new ones in place of old ones are no growth, but
            # what each of them keeps may grow, where both were measured.
            measured = self.longer == older.longer == 1.0
            return self.reaches_further(older.probed) or (
                measured
                and (self.nodes > older.nodes or self.bytes > older.bytes)
            )
        if self.is_plain and older.is_plain:
            return self.size > older.size
        return (
            self.storages > older.storages
            or self.nodes > older.nodes
            or self.reaches_further(older.probed)
            or self.bytes > older.bytes
            or self.held > older.held
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is a tensor without a graph: its size says all."""
        return self.size > 0 and self.graph == 0

    def lost_some(self, older: Observation) -> bool:
        """Whether something that it held then is gone."""
        if self.items is None:
            return self.is_plain and older.is_plain and self.size < older.size
        # An address that is not known is 0.
        other = 0 != self.first != older.first != 0
        return other or self.items < (older.items or 0)

    def reaches_further(self, before: Mapping[int, int]) -> bool:
        """Whether a line's newest tensor has a larger graph than it had."""
        return any(
            nodes > before.get(site, nodes) > 0
            for site, nodes in self.probed.items()
        )


def observed(
    siblings: Sequence[Held],
    visit: Visit,
    at: Moment,
    lines: dict[int, SiteNow],
) -> Observation:
    """What a walk saw; siblings (``history[0]``, ``[1]``) are one holder."""
    groups = [group for held in siblings for group in held.groups]
    lengths = [held.length for held in siblings if held.length is not None]
    return Observation(
        at=at,
        items=sum(lengths) if len(lengths) == len(siblings) else None,
        storages=sum(group.count for group in groups)
        + sum(held.others_storages for held in siblings),
        held=sum(group.bytes for group in groups)
        + sum(held.others_bytes for held in siblings),
        bytes=sum(held.bytes for held in siblings),
        nodes=sum(held.nodes for held in siblings),
        node_bytes=sum(held.node_bytes for held in siblings),
        probed={s: line.graph_nodes for s, line in lines.items()},
        first=visit.first,
        value=visit.value,
        graph=visit.graph,
        size=visit.bytes,
        freed=sum(held.storages for held in siblings),
    )


@dataclass
class HolderHistory:
    """One holder from look to look."""

    signature: str
    held: Held  # as the last walk saw it
    since: int  # position or tick since which its line keeps what it makes
    first: Observation
    last: Observation
    walked: Observation  # the last that a walk measured
    sites: dict[int, SiteNow] = field(default_factory=dict)
    siblings: int = 1  # that were told singly
    alike: int = 1  # with those that were too many for it
    generations: int = 0  # as the last walk saw them
    retained: int = 0  # storages that were freed with it, by the last walk
    graph: GraphCost | None = None  # likewise
    base: Observation | None = None  # what rates are counted from, and to:
    top: Observation | None = None  # a container's first and last gain
    # The same of what it had gathered until it was last seen to let go.
    filled: tuple[Observation, Observation] | None = None
    # Nodes behind its lines' newest tensors when it was found.
    probed: Mapping[int, int] = field(default_factory=dict)
    # Bytes and storages a step, by the walk that saw the most.
    pace: tuple[float, float] = (0.0, 0.0)
    gained_at: int = 0  # `now` of the last gain
    gained: Moment | None = None  # of the last gain that was seen
    gains: int = 0  # times that it was seen grown
    peak: int = 0  # most items so far
    lets_go: bool = False  # all that was there was seen replaced
    broken_at: Moment | None = None  # a tick at which its path did not hold
    # Its path held again after that, or not while its statement was sought.
    comes_and_goes: bool = False
    confirmed_at: Moment | None = None
    told: str | None = None  # the verdict that was announced
    statements: dict[tuple[str, int, str], int] = field(default_factory=dict)
    # How often a statement ran for nothing, for each time that it grew this.
    idle: dict[tuple[str, int, str], float] = field(default_factory=dict)
    watched: int = 0  # times that its statement was looked for
    remade: bool = False  # one value in place of another, as far as is known
    recurs: bool | None = None  # a tensor made from the one before it
    graph_is_others: bool = False  # its lines' graph, where that grows
    seen_age: int = 0  # how old it was at the last of them
    census: dict[Any, int] | None = None  # what its items were, when seen
    finding: Finding | None = None
    ages: Ages | None = None  # of its lines, when it was judged last
    began: int = field(init=False)  # `since`, as it was found with

    def __post_init__(self) -> None:
        self.began = self.since

    @property
    def visitable(self) -> bool:
        """Whether its path can be followed without a walk."""
        return bool(self.held.visit) and self.alike == 1

    @property
    def graph_grows(self) -> bool:
        """Whether the graph behind it reaches further back than it did."""
        last, first = self.last, self.first
        if self.graph_is_others:
            return False
        return last.reaches_further(self.probed) or (
            last.nodes > first.nodes and last.items == first.items
        )

    def is_suspect(self, sites: Container[int]) -> bool:
        """Whether one of its lines is among these."""
        return any(site in sites for site in self.sites)

    def shares_a_way_with(self, other: HolderHistory) -> bool:
        """Whether one of the two holders lies in the other."""
        ours, theirs = self.held, other.held
        return ours.lies_in(theirs) or theirs.lies_in(ours)

    @property
    def is_remade(self) -> bool:
        """Whether it is one value in place of another."""
        return self.remade if self.recurs is None else not self.recurs

    @property
    def is_the_same(self) -> bool:
        """Whether it is a tensor with a graph that was not seen replaced:
        what its line has made since may be anybody's."""
        return self.last.graph != 0 and self.recurs is None

    @property
    def age(self) -> int:
        """Positions or ticks that it has gathered for."""
        return self.last.at.now - self.since

    def observe(self, now: Observation) -> None:
        """Takes in what a walk or a visit saw."""
        if self.graph_is_others:
            now = replace(now, probed={})
        before, self.last = self.last, now
        if now.exceeds(before):
            self.gained_at, self.gained = now.at.now, now.at
            self.gains += 1
            if now.items:
                # Between two gains that were just seen lie whole steps.
                self.base, self.top = self.base or now, now
        items = now.items or 0
        left = now.lost_some(before) and items <= self.peak
        if (left or now.emptied) and not self.graph_grows:
            # What leaves a holder is what judges it; one that takes in more
            # than leaves, and is longer than ever, does not let go.
            self.lets_go = True
            self.confirmed_at = None
            if before is not self.first:
                self.filled = self.base or self.first, self.top or before
            self.first = now
            self.base = self.top = None
        elif self.lets_go and now.at.now - self.first.at.now > 2 * (
            self.first.at.now - self.since
        ):
            # It did let go once: what has gathered for twice as long since
            # is not waiting for its turn.
            self.lets_go = False
            self.since = self.first.at.now
        self.peak = max(self.peak, items)

    def is_emptied(
        self,
        items: int | None,
        lines: Mapping[int, SiteNow],
        older: Callable[[int, int], int],
    ) -> bool:
        """Whether all that the last walk saw in it has died since, and what it
        has now, be it more, was made by its ``lines`` since then;
        ``older(site, tick)`` counts what has not died.

        As many items as then may each be made anew from the one before, and
        what comes from elsewhere may be the old ones' copies.
        """
        walked = self.walked
        if items is None or walked.items in (None, items):
            return False
        if not walked.storages or self.first.at.tick > walked.at.tick:
            return False  # nothing to go by, or that was seen already
        if sum(line.live_count for line in lines.values()) < items:
            return False
        return not any(older(site, walked.at.tick) for site in self.sites)

    def walked_again(
        self, held: Held, siblings: int, now: Observation
    ) -> None:
        """Takes in a walk, which may call the holder by another name."""
        if self.comes_and_goes:
            self.watched = 0  # by a name that may last
        self.held = held
        self.siblings = siblings
        self.broken_at, self.comes_and_goes = None, False
        self.observe(now)
        self.walked = now

    def seen(
        self,
        visit: Visit,
        at: Moment,
        lines: dict[int, SiteNow],
        emptied: bool = False,
    ) -> None:
        """Takes in a visit; ``lines`` are its lines' storages now."""
        if visit.state != "intact" or self._went_with_the_end(visit, lines):
            self.broken_at = self.broken_at or at
            return
        self.comes_and_goes |= self.broken_at is not None
        self.broken_at = None
        if visit.recurs is not None:
            self.recurs = visit.recurs
        now = replace(
            self.walked,
            at=at,
            items=visit.length,
            probed={s: line.graph_nodes for s, line in lines.items()},
            first=visit.first,
            value=visit.value,
            graph=visit.graph,
            size=visit.bytes,
            emptied=emptied,
        )
        items, known = visit.length, self.held.branches > 0
        if items is not None and items != self.walked.items and known:
            now = self._as_its_items(now, items)
        else:
            now = self._as_its_lines(now, lines)
        self.observe(now)

    def _went_with_the_end(
        self, visit: Visit, lines: Mapping[int, SiteNow]
    ) -> bool:
        """Whether what is gone was all there when the last tick ended: no
        turn of the program let go of it, its end did."""
        shorter = (visit.length or 0) < (self.last.items or 0)
        then = sum(line.at_tick for line in lines.values())
        now = sum(line.live_count for line in lines.values())
        return shorter and then >= self.last.storages > now

    def _as_its_items(self, now: Observation, items: int) -> Observation:
        """Of a container: each item as those that a walk has measured.

        Its lines would not do: what they make is in use elsewhere, too, and
        may go into several containers.
        """
        known = self.walked.items or items or 1
        ours = self.held.branches
        scale = 1 + (items - known) / ours
        # Where most items are of its lines, or more are older than the watch,
        # the others are like them; cutting it frees what those keep that
        # nothing else has.
        alike = 2 * ours >= known or self.held.older > ours
        freed = self.held.alone * known if alike else ours
        longer = max(1 + (items - known) / freed, 0) if freed else scale
        return replace(
            now,
            scale=scale,
            longer=longer,
            storages=round(now.storages * scale),
            held=round(now.held * scale),
            bytes=round(now.bytes * longer),
            freed=round(now.freed * longer),
            nodes=round(now.nodes * longer),
            node_bytes=round(now.node_bytes * longer),
        )

    def _as_its_lines(
        self, now: Observation, lines: dict[int, SiteNow]
    ) -> Observation:
        """Of no container, or of one that is as long as it was while the
        graph behind it may grow: as much more as is alive of its lines, where
        it had the most of that when it was walked to; else it may be
        anybody's.
        """
        pairs = [(self.sites.get(s, line), line) for s, line in lines.items()]
        if 2 * now.storages <= sum(then.live_count for then, _now in pairs):
            return now
        grown = sum(b.live_bytes - a.live_bytes for a, b in pairs)
        count = sum(b.live_count - a.live_count for a, b in pairs)
        return replace(
            now, storages=now.storages + count, held=now.held + grown
        )

    def saw(self, statements: Sequence[Statement]) -> None:
        """Takes in the statements that a watched tick has shown."""
        for s in statements:
            key = (s.file, s.line, s.function)
            self.statements[key] = self.statements.get(key, 0) + s.items
            # Once shows too little of what else the statement grows.
            ratio = s.idle / s.times if s.times > 1 else s.idle * math.inf
            self.idle[key] = max(
                self.idle.get(key, 0.0), ratio if s.idle else 0
            )

    def overdue(self) -> bool:
        """Whether it has not gained for longer than a third of its age: as
        the criterion asks it of a line."""
        return 3 * (self.last.at.now - self.gained_at) > self.age

    def has_just_gone(self, now: int) -> bool:
        """Whether a graph that reached ever further back went with its
        owner, and not long ago beside how long it grew: nobody collects a
        graph for a purpose."""
        if self.broken_at is None or not self.recurs:
            return False
        return 3 * (now - self.broken_at.now) <= self.age

    # -- rates --------------------------------------------------------------

    def rate(self, kind: int, attribute: str) -> float | None:
        """Growth per step of that kind since the first look; None before.

        Of what has just let go, while it gathered what it let go of.
        """
        first, last = self.first, self.last
        if self.base is not None and self.top is not self.base:
            first, last = self.base, self.top or last
        rate = _rate(first, last, kind, attribute)
        if not rate and self.lets_go and self.filled is not None:
            return _rate(*self.filled, kind, attribute)
        return rate

    def carried(self, kind: int, attribute: str) -> float | None:
        """The same of a graph that is carried from step to step: that is seen
        by walks only, and after a single one all of it is taken to be of this
        growth.  None for all else."""
        if not (self.recurs or self.graph_grows):
            return None
        rate = _rate(self.first, self.walked, kind, attribute)
        if rate is not None:
            return rate
        held: int = getattr(self.walked, attribute)
        return held / max(self.walked.at.now - self.began, 1)


def _rate(
    first: Observation, last: Observation, kind: int, attribute: str
) -> float | None:
    steps = last.at.steps(kind) - first.at.steps(kind)
    now: int | None = getattr(last, attribute)
    then: int | None = getattr(first, attribute)
    if steps <= 0 or now is None or then is None:
        return None
    return max(now - then, 0) / steps
