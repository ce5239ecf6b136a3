"""Whether what a holder has leaves it, as its past shows: whether nothing
comes any more, or ever less, whether some of it may wait for its turn, and
whether less leaves than comes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...core.wire import AGE_TO_TELL, Group, Held, SiteNow
from .memory import HolderHistory
from .observation import Observation
from .scaled import OWN

#: So many times the mean time between two things that came: once in three
#: thousand such times where they come by chance.
PAUSE = 8

#: Of as many throws of a coin fewer heads than that, in standard deviations,
#: come once in a thousand times, or once in forty.
THREE_SIGMA = 3
TWO_SIGMA = 2


def pauses(history: HolderHistory) -> bool:
    """Whether nothing has come to it for far longer than before: what
    comes at the pace of what it has is not away for so long."""
    groups = _groups(history)
    first, last = _came(groups)
    count = sum(group.count for group in groups)
    since = history.last.at.now - max(last, history.growth.gained_at)
    return count > 1 and since > max(
        PAUSE * (last - first) / (count - 1), 2 * history.growth.waited
    )


def had_paused(history: HolderHistory) -> bool:
    """The same of one that a walk has just found: by what it has alone, what
    came in one step together."""
    groups, turns = _groups(history), history.generations - 1
    first, last = _came(groups)
    since = history.last.at.now - last
    return (
        bool(groups) and turns > 0 and since > PAUSE * (last - first) / turns
    )


def _groups(history: HolderHistory) -> list[Group]:
    """What its lines have put there."""
    return [group for one in history.fellows for group in one.groups]


def _came(groups: list[Group]) -> tuple[int, int]:
    """When the first and the last of it came."""
    return (
        min((group.first for group in groups), default=0),
        max((group.last for group in groups), default=0),
    )


def slows(history: HolderHistory) -> bool:
    """Whether far less of it came in the later half of its time than an
    even pace would have brought: what ever fewer keys are new to."""
    if history.last.is_plain:
        return _gets_slower(history.growth.sizes)
    return _gets_rarer(history, THREE_SIGMA)


def seems_to_slow(history: HolderHistory) -> bool:
    """Whether so few may be chance: with what else is known they say that it
    comes to an end, as where a program asks for a key before it sets it."""
    return not history.last.is_plain and _gets_rarer(history, TWO_SIGMA)


def stand_full(history: HolderHistory) -> bool:
    """Whether it is several that are alike and all of one length, as they were
    when they were found: that is theirs by whatever tests it.  What grows is
    how many they are, seen no more often than they came."""
    lengths = {held.length for held in history.fellows}
    few = 1 < len(history.fellows) < AGE_TO_TELL
    return few and lengths == {history.length}


def come_in_turn(history: HolderHistory, enough: int) -> bool:
    """Whether it is in as many calls of one function as are enough, as of
    threads that nobody reads from any more, each filled after the one before,
    and all have what a walk saw in them then.  That each has a bound says
    nothing of how many there are."""
    held = history.held
    if held.root != "frame" or history.last.items != history.walked.items:
        return False
    if any(edge.is_item for edge in held.path.edges[: held.depth]):
        return False  # how many stand there, that container shows
    return held.sort.members >= enough and held.sort.in_turn


def _gets_slower(sizes: Sequence[tuple[int, int]]) -> bool:
    """Of a tensor that is made longer: less than half of what is even."""
    if len(sizes) < 3:
        return False
    (begin, least), (end, most) = sizes[0], sizes[-1]
    at, size = min(sizes[1:-1], key=lambda one: abs(2 * one[0] - begin - end))
    part = (end - at) / max(end - begin, 1)
    return 2 * (most - size) < part * (most - least)


def _gets_rarer(history: HolderHistory, sigmas: int) -> bool:
    """What came in one step came together."""
    ages = history.ages
    if ages is None or len(ages.steps) < 2:
        return False
    begins, alive, end = ages.steps, ages.alive, ages.end
    half = (begins[0] + end) / 2
    at = min(range(1, len(begins)), key=lambda i: abs(begins[i] - half))
    part = (end - begins[at]) / max(end - begins[0], 1)
    together = max(history.retained / max(history.generations, 1), 1)
    count, late = sum(alive) / together, sum(alive[at:]) / together
    spread = math.sqrt(count * part * (1 - part))
    return late < count * part - sigmas * spread


def may_wait(history: HolderHistory) -> bool:
    """Whether what a container has may wait for its turn to leave, which
    nobody saw yet: others that its lines made have died at half its age,
    and these do not rise steadily."""
    return (
        history.length is not None
        and not history.graph_grows
        and not history.rising
        and history.age <= 2 * history.lived
    )


def outgrows(history: HolderHistory, since: int) -> bool:
    """Whether it lets go of less than comes: its own line's least rises
    steadily ``since`` then, and it is longer than ever, again and again."""
    return not history.rise_is_others and history.departures.are_outgrown(
        since, history.began, history.last.at.now
    )


def only_seemed_to_outgrow(history: HolderHistory) -> bool:
    """Whether something left it once, few looks have seen none leave since,
    and its lines say that nothing is kept: their least does not rise, and
    what they made goes at any age."""
    kept = history.rising or history.keeps_old
    return history.departures.outgrew and not kept


def leads_back(
    history: HolderHistory,
    held: Held,
    fellows: Sequence[Held],
    now: Observation,
    lines: Mapping[int, SiteNow],
) -> bool:
    """Whether what has left it since the walk before is led to by what it has
    ``now``: it is no longer than it was, nothing that it led to then has died,
    and most of what its lines have gained hangs on it.  Nobody knows of
    ``fellows`` that were others then."""
    then = history.walked
    several = len(fellows) + len(history.fellows) > 2
    if several and _places(fellows) != _places(history.fellows):
        return False
    if now.items is None or not then.items or now.items > then.items:
        return False
    if now.thinned or history.turnover.is_thinner:
        return False
    left = history.departures
    if left.let_go_at < then.at.now and not now.lost_some(history.last):
        return left.leads_back  # nothing has left since
    if held.eldest != history.held.eldest:
        return False
    gained = sum(
        line.live_count - history.sites[site].live_count
        for site, line in lines.items()
        if site in history.sites
    )
    return 2 * (now.storages - then.storages) > gained > 0


def _places(fellows: Sequence[Held]) -> set[str]:
    return {held.place for held in fellows}


def has_lone_keys(history: HolderHistory) -> bool:
    """Whether nobody can ask again for its keys, but for those in use: they
    are tensors, say, that nothing else has."""
    return history.held.lone_keys > OWN * (history.held.length or 0)


def has_just_gone(history: HolderHistory, now: int) -> bool:
    """Whether a graph that reached ever further back went with its
    owner, and not long ago beside how long it grew: nobody collects a
    graph for a purpose."""
    if history.broken_at is None or not history.recurs:
        return False
    return 3 * (now - history.broken_at.now) <= history.age
