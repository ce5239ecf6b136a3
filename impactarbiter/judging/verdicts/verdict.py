"""What is made of a holder's history: the case, and the finding."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

from ...base.records import replace
from ...core import frameworks, heap
from ...core.wire import CALLS, Status
from ...knowledge.advice import advise, slice_part
from ...model.finding import Cycle, Finding, GraphCost, Site
from ...model.path import Edge, Path
from ...model.words import is_confirmed
from ..holders.leaving import (
    come_in_turn,
    has_lone_keys,
    may_wait,
    only_seemed_to_outgrow,
    outgrows,
    pauses,
    seems_to_slow,
    slows,
    stand_full,
)
from ..holders.memory import HolderHistory, storages_at_tick
from ..holders.observation import Moment
from ..holders.rates import (
    carried,
    generations,
    is_of_a_moment,
    is_of_old_probes,
    items_a_step,
    net,
    nodes_as_walked,
    rate,
)
from ..program.limits import (
    End,
    ends,
    is_set_elsewhere,
    limit,
    names_grown,
    taken_out,
    taken_out_elsewhere,
)
from ..program.statement import last_name, names_of_holder
from ..program.uses import goes_through
from .forecast import Forecast, is_much
from .garbage import is_freed, waits_for_a_run, was_collected
from .rules import MAY_END, OUTGROWS, ROOTLESS, Case, Rule, judge
from .severity import DEFAULT_RULES


def case_of(
    history: HolderHistory,
    status: Status,
    forecast: Forecast,
    needed: int,
    old: bool,
    last_word: bool = True,
) -> Case:
    """All that the verdict is found from; ``old``: found now, and sure;
    ``last_word``: a report."""
    held, finding = history.held, history.finding
    assert finding is not None
    one_pass = _is_one_pass(history, status)
    in_turn = come_in_turn(history, needed)
    room = forecast.room_of(finding)
    much = is_much(history.last.bytes, room)
    # Reading the source takes time: only for what would be told.
    ends = not last_word or any(
        shows(history) for shows in (pauses, slows, stand_full)
    )
    asked = ends or seems_to_slow(history)
    asked = asked and history.growth.gains > 0 and history.age >= needed
    asked = asked and not history.departures.leads_back
    end = _end(history, room) if asked else None
    keys = end is not None and end.kind == "keys"
    if not (ends or keys):
        end = None
    return Case(
        root=held.root,
        is_cycle=held.cycle is not None and not history.died,
        died=history.died,
        forever=held.forever,
        collector=is_freed(history, status),
        collected=was_collected(history, status),
        in_time=waits_for_a_run(history, status, room) and not last_word,
        bounded=_fits(history, room) and not in_turn,
        graph_grows=history.graph_grows,
        # Nobody collects graphs, be it one for each item.
        fills=history.turnover.fills
        and not history.walked.nodes
        and history.walked.ours < (history.length or 0),
        limited=end is not None and end.kind == "length",
        # Whether keys come to an end, a program has shown where they paused,
        # or came ever more rarely.
        source_may_end=end is not None and (keys or not last_word),
        remade=history.is_remade,
        # The newest of them is in use.
        lets_go=(
            history.departures.lets_go
            and not (in_turn and history.departures.of_one)
        )
        or may_wait(history)
        or only_seemed_to_outgrow(history),
        # What leaves from below a new key is no answer to how many come.
        outgrows=not keys
        and (
            any(outgrows(history, since) for since in history.rising)
            or (
                last_word
                and history.departures.outgrew
                and not one_pass
                and not only_seemed_to_outgrow(history)
            )
        ),
        overdue=history.overdue(),
        gained=(history.growth.gains > 0 and not history.is_the_same) or old,
        one_pass=one_pass,
        collects=status.by_turns
        and last_word
        and not much
        and not _is_behind(finding)
        and (one_pass or _is_gone_through(history)),
        one_turn=_is_one_turn(
            history, one_pass and status.trained, room, last_word
        ),
        returned=history.broken_at is not None or history.died,
        last_word=last_word,
        age=history.age,
        needed=needed,
    )


def finding_of(
    history: HolderHistory,
    case: Case,
    status: Status,
    forecast: Forecast,
    steps_left: int | None,
) -> Finding | None:
    """The finding with its verdict and the figures of the last visit."""
    rule = judge(case)
    verdict = rule.verdict
    finding = history.finding
    assert finding is not None
    if verdict is None:
        return None
    kind = status.kind
    at = history.last.at
    settled = rule.name == MAY_END or is_confirmed(verdict)
    if settled and history.confirmed_at is None:
        history.confirmed_at = at
    holder = finding.holder
    if holder is not None:
        # Of several that are alike, one stands for all.
        each, full = items_a_step(history, kind), history.full_at
        if rule.name == OUTGROWS:
            each = net(history, kind, "items") or each
        holder = replace(
            holder,
            length=history.length,
            # One that is full grew until then.
            growth_per_step=(
                each / max(len(history.fellows), 1)
                if each is not None and full is None
                else None
            ),
            alike=history.alike,
            leads_back=history.departures.leads_back,
            full_since=None if full is None else full.seen[kind],
        )
    size = _rate(history, kind, "held", "bytes")
    count = _rate(history, kind, "storages", "freed")
    nodes = rate(history, kind, "node_bytes")
    nodes = nodes or carried(history, kind, "node_bytes")
    if case.is_cycle and not size:
        # Nobody visits garbage; a walk may come after the collector.
        size, count = history.growth.pace.bytes, history.growth.pace.storages
    elif is_of_a_moment(history, kind):
        size, count = history.growth.pace.bytes, history.growth.pace.storages
    if history.walked.node_bytes and is_of_old_probes(history, kind):
        nodes = nodes_as_walked(history)
    if rule.name == OUTGROWS:
        size = net(history, kind, "held") or size
        count = net(history, kind, "storages") or count
    confirmed = history.confirmed_at
    made = replace(
        finding,
        verdict=verdict,
        rule=rule.name,
        holder=holder,
        cycle=_cycle(history, case),
        grown_at=history.sightings.grown_at,
        grown_stack=history.sightings.grown_stack,
        bytes_per_step=finding.bytes_per_step if size is None else size,
        tensors_per_step=(
            finding.tensors_per_step if count is None else count
        ),
        graph_bytes_per_step=(
            nodes_as_walked(history) if nodes is None else nodes
        ),
        trains=_trains(history, status),
        retained_bytes=max(history.last.bytes, 0),
        **_more_than_walked(history, finding, kind),
        confirmed_step=(
            None if confirmed is None else max(confirmed.steps(kind), 1)
        ),
        ages=history.ages,
        confirmation=rule.words if verdict == "growing" else None,
        may_end_at=_end_site(history, rule, case.last_word, of_keys=False),
        asked_at=_end_site(history, rule, case.last_word, of_keys=True),
    )
    made = replace(
        made,
        object_bytes_per_step=_objects(history, made),
        shares=_shares(history),
        **_of_the_living(made),
    )
    seconds = status.elapsed_seconds / max(status.counts[kind], 1)
    made = forecast.apply(made, seconds)
    made = replace(made, advice=advise(made, carried=case.graph_grows))
    return DEFAULT_RULES.grade(made, steps_left)


def _of_the_living(finding: Finding) -> dict[str, Any]:
    """Of which steps there is something, where all that its lines made in the
    first of them is gone since the walk."""
    ages = finding.ages
    if ages is None:
        return {}
    alive = (s for s, n in zip(ages.steps, ages.alive, strict=True) if n)
    first = max(finding.first_step, next(alive, 0))
    last = max(finding.last_step, first)
    return {
        "first_step": first,
        "last_step": last,
        "generations": min(finding.generations, last - first + 1),
    }


def _objects(history: HolderHistory, finding: Finding) -> float:
    """Bytes a step of its tensors' own objects, of which several may show one
    storage; a graph's saved tensors have none in Python."""
    if not finding.tensors:
        return 0.0
    device = finding.tensors[0].device
    size = frameworks.object_bytes(device, not finding.graph)
    groups = [group for held in history.fellows for group in held.groups]
    count = sum(g.count for g in groups)
    each = sum(g.objects for g in groups) / count if count else 1.0
    return max(finding.tensors_per_step, 0.0) * max(each, 1.0) * size


def _shares(history: HolderHistory) -> tuple[tuple[str, float], ...]:
    """Of its bytes, what part lies on which of several devices."""
    sizes: dict[str, int] = {}
    for held in history.fellows:
        for name, size in held.on:
            sizes[name] = sizes.get(name, 0) + size
    whole = sum(sizes.values())
    if not whole or (len(sizes) == 1 and history.held.device in sizes):
        return ()
    most = sorted(sizes, key=lambda name: -sizes[name])
    return tuple((name, sizes[name] / whole) for name in most)


def _cycle(history: HolderHistory, case: Case) -> Cycle | None:
    finding = history.finding
    if case.died or finding is None or finding.cycle is None:
        return None
    in_time = case.collector and history.turnover.freed_in_time
    return replace(finding.cycle, freed_in_time=in_time)


def _trains(history: HolderHistory, status: Status) -> bool:
    """Whether it grew while the program trained: it did not where calls of
    modules have made it grow after that."""
    in_its_time = history.last.at.now <= status.until
    return status.trained and (status.kind not in CALLS or in_its_time)


def _rate(
    history: HolderHistory, kind: int, of_lines: str, by_cut: str
) -> float | None:
    """Growth per step: of what its lines have put there, or of all that
    cutting it would free where a graph is carried on."""
    seen = rate(history, kind, of_lines)
    known = (seen, carried(history, kind, by_cut))
    return max((one for one in known if one is not None), default=None)


def _more_than_walked(
    history: HolderHistory, finding: Finding, kind: int
) -> dict[str, Any]:
    """What a container has taken in since the last walk, counted alike."""
    last = history.last
    if last.scale == last.longer == 1 or history.growth.gained is None:
        return {}
    last_step = max(finding.last_step, history.growth.gained.steps(kind))
    return {
        "last_step": last_step,
        "generations": generations(
            history, kind, finding.first_step, last_step
        ),
        "retained_tensors": max(last.freed, 0),
        "graph": history.graph and _longer(history.graph, last.longer),
    }


def _longer(graph: GraphCost, factor: float) -> GraphCost:
    return GraphCost(
        nodes=round(graph.nodes * factor),
        saved_tensors=round(graph.saved_tensors * factor),
        bytes=round(graph.bytes * factor),
        biggest=tuple(
            (name, round(count * factor), round(size * factor))
            for name, count, size in graph.biggest
        ),
        node_bytes=round(graph.node_bytes * factor),
    )


#: A confirmed holder whose path broke is taken to have gone on where its lines
#: have gained so much of what its own growth until then makes likely.
GOES_ON = 0.5


def at_last_tick(history: HolderHistory) -> int:
    """Storages that a holder's lines had when the last tick ended."""
    return storages_at_tick({s: heap.site_now(s) for s in history.sites})


def stood_at_the_end(
    history: HolderHistory, status: Status, elsewhere: int
) -> bool:
    """Whether it was there until the last tick: its lines still had as many
    then as it was found with.

    A confirmed container whose path broke before, by a call that returned or
    a name that was given away, was there where its lines went on growing, by
    less what was seen ``elsewhere`` since, or where no step came after it:
    `train()` returns, and the model is tried.  A cycle that nothing led to
    does not go with the end: it was collected, and is worth a word only where
    it was seen to wait for that.  What else nothing led to may have been in a
    running call's hands.
    """
    broken, walked = history.broken_at, history.walked
    if broken is None:
        return False
    if history.held.root in ROOTLESS and history.confirmed_at is None:
        return False
    at_tick = at_last_tick(history)
    if broken.tick >= status.ticks and at_tick >= walked.storages:
        return True
    if history.confirmed_at is None or walked.items is None:
        return False
    if _came_after_the_last_step(broken, status) and not history.overdue():
        return True
    if broken.tick >= status.ticks or history.is_gone:
        return False
    last = history.last
    age = max(last.at.now - history.since, 1)
    more = GOES_ON * (status.now - last.at.now) / age
    return at_tick - elsewhere >= max(last.storages, 1) * (1 + more)


def _fits(history: HolderHistory, room: int | None) -> bool:
    """Whether the holder has a bound that memory can hold, or its items have
    where it is as long as it was: a list of ``deque(maxlen=10)``."""
    bound, items = history.held.bound, history.last.items
    if bound is None and items == history.first.items:
        bound, items = history.held.within, None
    elif bound is not None and items is None and history.generations > bound:
        return False  # blocks of a tee(): more have come since the walk
    if bound is None:
        return False
    held = history.last.bytes + history.last.node_bytes
    count = items or history.last.storages
    if room is None or not count:
        return True
    missing: float = max(bound - count, 0) * held / count
    return missing <= room


def _came_after_the_last_step(broken: Moment, status: Status) -> bool:
    """Whether only weaker events came since than those that make steps."""
    kind = status.strongest_kind
    stronger = status.counts[kind] > 0 and any(status.counts[kind + 1 :])
    return stronger and broken.counts[kind] == status.counts[kind]


def _end(history: HolderHistory, room: int | None) -> End | None:
    """How the source may end its growth, wherever it was seen to grow, or by
    its name seems to, or how its type may; where it holds much, memory may be
    short before that.
    """
    if is_much(history.last.bytes, room):
        return None
    found = _ends(history)
    return None if None in found else next(iter(found), None)


def _end_site(
    history: HolderHistory, rule: Rule, last_word: bool, *, of_keys: bool
) -> Site | None:
    """Where what may end it stands, if that is what is said of it; of a leak
    a report says where some of it may go, which is not all of it."""
    some = last_word and rule.verdict == "leak" and not of_keys
    if rule.name != MAY_END and not some:
        return None
    end = next((one for one in _ends(history) if one is not None), None)
    if end is None or (some and end.kind != "emptied"):
        return None
    return end.site if (end.kind == "keys") == of_keys else None


def _ends(history: HolderHistory) -> list[End | None]:
    """One for each place that it grows at."""
    if history.held.is_memo:
        ends: list[End | None] = [End("keys", None)]
    else:
        places = history.sightings.places(history.finding)
        ends = [_unless_at(places, _end_at(history, one)) for one in places]
    if not has_lone_keys(history):
        return ends
    return [None if one and one.kind == "keys" else one for one in ends]


def _unless_at(
    places: Collection[tuple[str, int]], end: End | None
) -> End | None:
    """What makes it grow does not end that: it gives a name to a longer one
    in place of the one before."""
    if end is None or end.kind != "emptied" or end.site is None:
        return end
    if (end.site.file, end.site.line) in places:
        return None
    return end


def _end_at(history: HolderHistory, place: tuple[str, int]) -> End | None:
    finding, held = history.finding, history.held
    if history.length is None and not history.last.is_plain:
        return limit(*place) or _taken_out(history, place)
    expression = ""
    if finding is not None and finding.holder is not None:
        expression = finding.holder.expression
    name = last_name(expression)
    owners = tuple(
        edge.name
        for edge in reversed(held.path.edges[: held.depth])
        if edge.kind == "attribute" and edge.name != name
    )
    is_dict = held.length is not None and not expression.endswith("]")
    return ends(*place, name, owners, name if is_dict else None) or _taken_out(
        history, place
    )


def _taken_out(history: HolderHistory, place: tuple[str, int]) -> End | None:
    """Where an item that leads to it is taken out of its container."""
    registries = registries_above(history.held.path, history.held.depth)
    if not registries or history.finding is None:
        return None
    return taken_out(*place, registries) or taken_out_elsewhere(
        history.sightings.files_of(history.finding), registries
    )


def registries_above(path: Path, depth: int) -> tuple[str, ...]:
    """Attributes that have a container of which one item leads to it, by what
    is that item's own: not over its class, or a function's module."""
    above = reversed(path.edges[:depth])
    own = [*itertools.takewhile(_is_own, above)]
    return tuple(
        edge.name
        for item, edge in itertools.pairwise(own)
        if edge.kind == "attribute" and item.is_item
    )


def _is_own(edge: Edge) -> bool:
    return edge.is_item or edge.kind == "attribute"


def _is_one_turn(
    history: HolderHistory,
    evaluates: bool,
    room: int | None,
    last_word: bool,
) -> bool:
    """Whether all that leads to it is a variable of a call that a loop makes,
    or of one pass after a training: what an epoch or an evaluation collects is
    let go with it, but graphs that are there at the end were collected for no
    purpose, much memory may not last until then, and what a turn hands to the
    next lasts."""
    if not (history.held.turn or evaluates):
        return False
    if last_word and history.walked.nodes:
        return False
    if history.turnover.carries_over or is_much(history.last.bytes, room):
        return False
    return evaluates or not any(
        is_set_elsewhere(*place)
        for place in history.sightings.places(history.finding)
    )


def _is_behind(finding: Finding) -> bool:
    """Whether its memory lies behind what a program collects: errors, whose
    frames nobody reads, or slices of what is larger."""
    return finding.is_in_frames_of_an_error or slice_part(finding) is not None


def _is_gone_through(history: HolderHistory) -> bool:
    """Whether the source goes through all of it anywhere."""
    finding = history.finding
    if finding is None or finding.holder is None or history.held.is_memo:
        return False
    if history.length is None or history.held.root == "cycle":
        return False
    names = names_of_holder(finding)
    for place in history.sightings.places(finding):
        names |= names_grown(*place)
    above = reversed(history.held.path.edges[: history.held.depth])
    depth = sum(1 for _ in itertools.takewhile(lambda e: e.is_item, above))
    return goes_through(names, history.sightings.files_of(finding), depth)


def _is_one_pass(history: HolderHistory, status: Status) -> bool:
    """Whether it is a variable of the loop that fills it, and nothing but
    calls of modules comes: one pass over data that collects its answers looks
    the same as a service that keeps them.  What grows without getting longer,
    as a tuple that leads to the one before, collects nothing."""
    held = history.held
    if history.growth.gains and history.last.items == history.first.items:
        return False
    if status.kind not in CALLS:
        return False
    if status.counts.manual or held.depth != 1 or held.length is None:
        return False
    if held.bound is not None or held.is_memo:
        return False  # nobody reads a cache when the pass is over
    owner = held.path.root.removesuffix("()")
    owner = "<module>" if held.root == "module" else owner
    functions = history.sightings.functions
    return owner in functions if functions else held.root == "frame"
