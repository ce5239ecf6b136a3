"""What a walk or a visit saw of a holder, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.records import dataclass, replace
from ...core.wire import Counts, Held, SiteNow, Status, Visit


@dataclass(frozen=True)
class Moment:
    """When something was seen: ``now`` is position or tick, as ages are;
    ``until`` and ``then`` are as of the last of the strongest kind of events.
    ``ends_step``: not where a report asks, maybe in the middle of one.
    ``seen`` are all events, also those that no position counts.
    """

    tick: int
    now: int
    counts: Counts
    until: int
    then: Counts
    seen: Counts
    ends_step: bool = True

    def steps(self, kind: int) -> int:
        """Events of one kind until then."""
        return self.counts[kind]

    def at_the_end(self) -> Moment:
        """As of the last event of the strongest kind."""
        return replace(self, now=self.until, counts=self.then)


def moment(status: Status) -> Moment:
    """This one."""
    then = status.then
    counts = then if status.now == status.until else status.counts
    return Moment(
        status.ticks,
        status.now,
        counts,
        status.until,
        then,
        status.counts,
        not status.asked,
    )


#: What only a walk measures of a holder: what its lines have put there, and
#: what cutting it would free.
OF_LINES = ("storages", "held")
MEASURED = (*OF_LINES, "bytes", "freed", "nodes", "node_bytes")


@dataclass(frozen=True)
class Observation:
    """What was seen of a holder at one moment.

    ``items`` is None for no container.  ``storages`` and ``held`` (bytes) are
    what the suspect lines have put there, ``first``, ``eldest`` (items) and
    ``value`` addresses to compare, ``size`` the memory of a holder that is a
    tensor.  ``emptied``: nothing is alive of what the last walk saw in it;
    ``thinned``: less than at the look before; ``carried_over``: nothing is,
    and its items are copies.  ``alive`` is all that those lines had alive,
    in it or not.
    ``bytes`` in ``freed`` storages, ``nodes`` and ``node_bytes`` are what
    cutting the holder would free, as the last walk before it measured them;
    ``shared``: cutting whatever holds the same, its lines' all;
    ``with_alike``: all that differ by an index, known or not.
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
    eldest: int = 0
    emptied: bool = False
    thinned: bool = False
    carried_over: bool = False
    scale: float = 1.0  # storages as a multiple of those that a walk has seen
    longer: float = 1.0  # likewise of what cutting it would free
    freed: int = 0
    shared: bool = False
    with_alike: bool = False
    ours: int = 0  # items that a walk found its lines' storages by
    alive: int = 0

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
                and not self.is_of_others(older)
                and (self.nodes > older.nodes or self.bytes > older.bytes)
            )
        if self.is_plain and older.is_plain:
            return self.size > older.size
        return (
            self.storages > older.storages
            or self.has_more_nodes(older)
            or self.reaches_further(older.probed)
            or self.bytes > older.bytes
            or self.held > older.held
        )

    def is_of_others(self, older: Observation) -> bool:
        """Whether what cutting it would free was measured with what others
        have: that grows as they do."""
        return self.shared or older.shared

    def has_more_nodes(self, older: Observation, than: float = 0) -> bool:
        """Whether it has so many more, that are its own."""
        more = self.nodes > older.nodes + than
        return more and not self.is_of_others(older)

    def grew_inside(self, older: Observation) -> bool:
        """Whether a container is as long as it was, and no graph that it
        carries on says that it has grown: what its items keep does."""
        return (
            self.items is not None
            and self.items == older.items
            and not self.reaches_further(older.probed)
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is a tensor without a graph: its size says all."""
        return self.size > 0 and self.graph == 0

    @property
    def has_no_length(self) -> bool:
        """Whether it is neither a container nor a tensor: an object that has
        its tensors by attributes."""
        return self.items is None and self.size == 0 and self.graph == 0

    def lost_some(self, older: Observation) -> bool:
        """Whether something that it held then is gone."""
        if self.items is None:
            return self.is_plain and older.is_plain and self.size < older.size
        if self.items != (older.items or 0) and self.eldest and older.eldest:
            # The item that a list shows first is its newest.
            shorter = self.items < (older.items or 0)
            return shorter or self.lost_its_eldest(older)
        # An address that is not known is 0.
        other = 0 != self.first != older.first != 0
        return other or self.items < (older.items or 0)

    def lost_its_eldest(self, older: Observation) -> bool:
        """Whether what was in it for longest is gone, however much came."""
        return 0 != self.eldest != older.eldest != 0

    def measured(self, before: Observation, now: Observation) -> Observation:
        """This, of a container, seen between two walks: what only those
        measure grew as its items did from the one to the other."""
        first, last, items = before.items, now.items, self.items
        if first is None or last is None or items is None:
            return self
        if not (first < items <= last and before.at.tick < self.at.tick):
            return self
        each = _each(before, now, last - first)
        return replace(self, **now.with_more(items - last, each))

    def each_since(self, before: Observation) -> dict[str, float] | None:
        """What came with each item from one walk to this; None where there
        are no more, or something is gone.  Those that something else led to
        first, as a slice that was in use just then, are not measured.

        Where cutting it would have freed less of what its lines had put there
        than it would now, some of that was in use: it did not come since."""
        more = self.ours - before.ours
        if not before.items or more <= 0 or self.lost_its_eldest(before):
            return None
        each = _each(before, self, more)
        if self.bytes * before.held > before.bytes * self.held > 0:
            each["bytes"] = each["held"] * self.bytes / self.held
            each["freed"] = each["storages"] * self.freed / self.storages
        return each if min(each.values()) >= 0 else None

    def with_more(
        self, items: float, each: Mapping[str, float]
    ) -> dict[str, Any]:
        """What a walk has measured, with what came with so many items."""
        return {
            name: getattr(self, name) + round(items * one)
            for name, one in each.items()
        }

    def reaches_further(self, before: Mapping[int, int]) -> bool:
        """Whether a line's newest tensor has a larger graph than it had."""
        return any(
            nodes > before.get(site, nodes) > 0
            for site, nodes in self.probed.items()
        )


def _each(
    before: Observation, now: Observation, items: int
) -> dict[str, float]:
    """What came with each of so many items.  Where more lines are suspect
    than then, what these have put there before is none of it."""
    each = {
        name: (getattr(now, name) - getattr(before, name)) / items
        for name in MEASURED
    }
    if now.probed.keys() != before.probed.keys() and now.ours:
        each |= {name: getattr(now, name) / now.ours for name in OF_LINES}
    return each


def dated(now: Observation, before: Observation) -> Observation:
    """What has not gained since the strongest kind of events fell silent is as
    of then: what training has gathered is not let go by a service's calls.

    A gain of which nobody knows on which side it was counts as training's.
    """
    until = now.at.until
    is_new = before.at.now >= until and now.exceeds(before)
    if before.at.now > until or is_new:
        return now
    return replace(now, at=now.at.at_the_end())


def observed(
    siblings: Sequence[Held],
    visit: Visit,
    at: Moment,
    lines: Mapping[int, SiteNow],
) -> Observation:
    """What a walk saw; siblings (``history[0]``, ``[1]``) are one holder.

    The visit comes after it: another thread may have gone on meanwhile.
    """
    groups = [group for held in siblings for group in held.groups]
    if max((group.last for group in groups), default=at.now) < at.until:
        at = at.at_the_end()
    lengths = [held.length for held in siblings if held.length is not None]
    items = sum(lengths) if len(lengths) == len(siblings) else None
    charged = charged_once(siblings)
    if visit.length != items:
        # What it shows first by now came after what the walk has counted.
        visit = visit._replace(first=0)
    return Observation(
        at=at,
        items=items,
        storages=sum(group.count for group in groups)
        + sum(held.others_storages for held in siblings),
        held=sum(group.bytes for group in groups)
        + sum(held.others_bytes for held in siblings),
        bytes=sum(held.bytes for held in charged),
        nodes=sum(held.nodes for held in charged),
        node_bytes=sum(held.node_bytes for held in charged),
        **_seen_by(visit, lines),
        freed=sum(held.storages for held in charged),
        shared=any(held.shared for held in siblings),
        with_alike=any(held.with_alike for held in siblings),
        ours=sum(held.branches for held in siblings),
    )


def charged_once(siblings: Sequence[Held]) -> Sequence[Held]:
    """One of those that hang on one graph: each is charged with what cutting
    all of them frees."""
    return list({held.together: held for held in siblings}.values())


def visited(
    walked: Observation,
    visit: Visit,
    at: Moment,
    lines: Mapping[int, SiteNow],
) -> Observation:
    """What a visit saw of what was ``walked`` to before: what only walks
    measure is as it was then."""
    return replace(
        walked,
        at=at,
        items=visit.length,
        **_seen_by(visit, lines),
    )


def alive_of(lines: Mapping[int, SiteNow]) -> int:
    """Storages that lines have alive, whoever holds them."""
    return sum(line.live_count for line in lines.values())


def _seen_by(visit: Visit, lines: Mapping[int, SiteNow]) -> dict[str, Any]:
    """What a visit sees of a holder besides its length, what its lines have
    alive, and what their newest tensors reach."""
    return {
        "probed": {s: line.graph_nodes for s, line in lines.items()},
        "alive": alive_of(lines),
        "first": visit.first,
        "value": visit.value,
        "graph": visit.graph,
        "size": visit.bytes,
        "eldest": visit.eldest,
    }


def growth(
    first: Observation, last: Observation, kind: int, attribute: str
) -> float | None:
    """Growth of an attribute per step of that kind; None where none passed."""
    steps = last.at.steps(kind) - first.at.steps(kind)
    now: int | None = getattr(last, attribute)
    then: int | None = getattr(first, attribute)
    if steps <= 0 or now is None or then is None:
        return None
    return max(now - then, 0) / steps
