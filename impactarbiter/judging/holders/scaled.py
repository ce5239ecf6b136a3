"""What only walks measure, as large as a visit makes it likely.

A visit sees a holder's length and its lines' storages.  What cutting it would
free, a walk has measured once: the items, storages and nodes that came since
are taken to be like those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.records import replace
from ...core.wire import Held, SiteNow
from .observation import Observation, alive_of

#: The part of what is alive of its lines from which on they are a holder's
#: own: a value or two may be in use beside.  Their bytes may be others by now,
#: so they are to be few beside what the lines have gained.
OWN = 0.8


def scaled(
    now: Observation,
    walked: Observation,
    fellows: Sequence[Held],
    before: Mapping[int, SiteNow],
    lines: Mapping[int, SiteNow],
    recurs: bool | None,
    each: Mapping[str, float] | None = None,
    *,
    inside: bool = False,
) -> Observation:
    """What a visit saw ``now`` of ``fellows`` that were ``walked`` to.

    ``lines`` are their lines' storages, and ``before`` those of then;
    ``recurs``: a tensor that is made from the one before it; ``each``: what
    came with an item between two walks; ``inside``: it has grown from walk to
    walk with as many items.
    """
    if walked.with_alike:
        return _as_all_alike(now, walked, before, lines)
    known = any(one.branches for one in fellows)
    if now.items not in (None, walked.items) and known:
        more = _as_its_items(now, walked, fellows, now.items or 0, lines, each)
        return _as_large(more, now, walked, fellows, before, lines)
    if now.is_plain and walked.is_plain and now.items is None:
        # Its own size is seen, whatever else its line has alive; those that
        # were too many to be visited have grown like the others.
        grown = now.size - walked.size
        if any(one.others for one in fellows):
            grown = round(grown * walked.held / walked.size)
        return replace(now, held=now.held + grown, bytes=now.bytes + grown)
    now = _as_its_lines(now, walked, before, lines, inside)
    return _as_its_graph(now, walked, recurs)


def _as_all_alike(
    now: Observation,
    walked: Observation,
    before: Mapping[int, SiteNow],
    lines: Mapping[int, SiteNow],
) -> Observation:
    """Of what was measured with others that differ by an index, some of which
    came since: as much more as is alive of their lines."""
    then = sum(before[s].live_count for s in lines if s in before)
    if then == 0:
        return now
    factor = sum(lines[s].live_count for s in lines if s in before) / then
    return replace(
        _longer(now, walked, factor),
        storages=round(walked.storages * factor),
        held=round(walked.held * factor),
    )


def _as_its_items(
    now: Observation,
    walked: Observation,
    fellows: Sequence[Held],
    items: int,
    lines: Mapping[int, SiteNow],
    each: Mapping[str, float] | None,
) -> Observation:
    """Of a container: each item as those that came between two walks, or as
    all that the one has measured.

    Its lines would not do: what they make is in use elsewhere, too, and
    may go into several containers.  But it has no more than they have alive,
    where many items are views of one storage.
    """
    known = walked.items or items or 1
    ours = sum(one.branches for one in fellows)
    older = sum(one.older for one in fellows)
    alone = sum(one.alone * (one.length or 0) for one in fellows)
    alive = alive_of(lines)
    scale = 1 + (items - known) / ours
    most = max(alive / max(now.storages, 1), 1)
    part = (most - 1) / (scale - 1) if scale > most else 1.0
    scale = min(scale, most)
    # Where most items are of its lines, or more are older than the watch,
    # the others are like them; cutting it frees what those keep that
    # nothing else has.
    alike = 2 * ours >= known or older > ours
    freed = alone if alike else ours
    longer = max(1 + part * (items - known) / freed, 0) if freed else scale
    # No more is freed than came: an item may stand there many times.
    came = max(alive - now.storages, 0)
    if freed and now.storages:
        longer = min(longer, 1 + came / now.storages * ours / freed)
    if each is not None and items > known:
        more = now.with_more(part * (items - known), each)
        return replace(now, scale=scale, longer=longer, **more)
    return replace(
        _longer(now, walked, longer),
        scale=scale,
        storages=round(now.storages * scale),
        held=round(now.held * scale),
    )


def _as_large(
    grown: Observation,
    now: Observation,
    walked: Observation,
    fellows: Sequence[Held],
    before: Mapping[int, SiteNow],
    lines: Mapping[int, SiteNow],
) -> Observation:
    """With what came to the items as large as what its lines have gained,
    where they make little for others: a line may make a loss of four bytes
    and a hidden state, each for a list of its own, or few large values that
    are in use beside many small ones."""
    pairs = [(before.get(s, line), line) for s, line in lines.items()]
    had = sum(then.live_count for then, _now in pairs)
    count = sum(line.live_count for _then, line in pairs) - had
    size = sum(b.live_bytes - a.live_bytes for a, b in pairs)
    # Those of the warm-up are alive, too, and of no group.
    counted = sum(one.branches for one in fellows)
    ours = (walked.items or 0) / max(counted, 1)
    others = sum(then.live_bytes for then, _now in pairs) - now.held * ours
    if now.storages * ours < OWN * had or others > (1 - OWN) * size:
        return grown
    came = grown.storages - now.storages
    if came <= 0 or not came <= count <= came / OWN:
        return grown
    more = round(size * came / count) - (grown.held - now.held)
    # What others hold, too, cutting it would not free.
    freed = min(walked.bytes / walked.held, 1) if walked.held else 1.0
    return replace(
        grown,
        held=grown.held + more,
        bytes=grown.bytes + round(more * freed),
    )


def _as_its_lines(
    now: Observation,
    walked: Observation,
    before: Mapping[int, SiteNow],
    lines: Mapping[int, SiteNow],
    inside: bool,
) -> Observation:
    """Of no container, or of one that is as long as it was while the
    graph behind it may grow: as much more as is alive of its lines, where
    it had the most of that when it was walked to; else it may be
    anybody's.
    """
    pairs = [(before.get(s, line), line) for s, line in lines.items()]
    if 2 * now.storages <= sum(then.live_count for then, _now in pairs):
        return now
    grown = sum(b.live_bytes - a.live_bytes for a, b in pairs)
    count = sum(b.live_count - a.live_count for a, b in pairs)
    now = replace(now, storages=now.storages + count, held=now.held + grown)
    if now.items is not None and not inside:
        return now
    # What cutting it frees grows with that.
    return _longer(now, walked, now.held / max(now.held - grown, 1))


def _as_its_graph(
    now: Observation, walked: Observation, recurs: bool | None
) -> Observation:
    """Where a graph is carried on, by a tensor or by a container that is
    as long as it was: each node behind its line's newest tensor as those
    that the walk has measured, be that a part of them, which nothing else
    had."""
    known = walked.probed
    factors = [
        1 + (n - known[s]) / min(known[s], walked.nodes or known[s])
        for s, n in now.probed.items()
        if known.get(s)
    ]
    longer = max(factors, default=1.0)
    if longer <= 1 or not (recurs or now.items is not None):
        return now
    return _longer(now, walked, longer)


def _longer(
    now: Observation, walked: Observation, factor: float
) -> Observation:
    """With so many times what cutting the holder would have freed when it
    was walked to."""
    if factor <= 0 or factor == 1:
        return now
    return replace(
        now,
        scale=factor,
        longer=factor,
        bytes=round(walked.bytes * factor),
        freed=round(walked.freed * factor),
        nodes=round(walked.nodes * factor),
        node_bytes=round(walked.node_bytes * factor),
    )
