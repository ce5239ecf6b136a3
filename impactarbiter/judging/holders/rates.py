"""How fast a holder grows: as visits saw it, as the walk that found it did,
or as the graph that it carries on reaches back."""

from __future__ import annotations

from ...core.wire import PROBES_PER_DOUBLING
from .memory import HolderHistory
from .observation import Observation, growth

#: A container grows evenly where something came in this part of its steps:
#: between two visits lie as many gains as steps, however few.
EVEN = 0.8


def rate(history: HolderHistory, kind: int, attribute: str) -> float | None:
    """Growth per step of that kind since the first look; None before."""
    reached = history.reach.reached
    if attribute == "node_bytes" and reached is not None:
        # Between two probes nobody sees the graph grow.
        return growth(history.first, reached, kind, attribute)
    seen = growth(*_measured(history), kind, attribute)
    filled = history.growth.rates.filled
    if not seen and history.departures.lets_go and filled is not None:
        return growth(*filled, kind, attribute)
    return seen


def net(history: HolderHistory, kind: int, attribute: str) -> float | None:
    """The same of what takes in more than leaves it: since something left it
    first, and not since the last time, for it is emptied a little each time;
    None where that is not known, or half of the time or more came since."""
    before, first, last = (
        history.departures.before_first,
        history.first.at.now,
        history.last.at.now,
    )
    if before is None or 2 * (last - first) >= last - before.at.now:
        return None
    return growth(before, history.last, kind, attribute)


def carried(history: HolderHistory, kind: int, attribute: str) -> float | None:
    """The same of a graph that is carried from step to step: that is seen by
    walks only, and after a single one all that hangs on the graph is taken to
    be of this growth.  None for all else."""
    if not (history.recurs or history.graph_grows):
        return None
    seen = growth(history.first, history.walked, kind, attribute)
    if seen is not None:
        return seen
    return _on_its_graph(history, attribute) / _age(history)


def items_a_step(history: HolderHistory, kind: int) -> float | None:
    """How fast it gets longer, 0: what its items keep has grown; None for no
    container."""
    walked = history.walked
    if history.growth.gains and history.last.items == history.first.items:
        return None if history.last.items is None else 0.0
    if is_of_a_moment(history, kind) and walked.items and walked.storages:
        items = sum(one.branches for one in history.fellows)
        return history.growth.pace.storages * items / walked.storages
    return rate(history, kind, "items")


def is_of_a_moment(history: HolderHistory, kind: int) -> bool:
    """Whether visits have seen less of its growth than the walk that found
    it: what does not come at every step, or is in use beside, differs between
    two moments by more than a few steps leave behind."""
    pace = history.growth.pace
    even = history.length is not None and (
        history.graph_grows or EVEN * pace.steps <= history.generations
    )
    return (
        pace.kind == kind
        and pace.bytes > 0
        and _steps_seen(history, kind) < pace.steps
        and history.alike == max(len(history.fellows), 1)
        and history.held.root != "cycle"
        and not history.departures.lets_go
        and not history.growth.rates.resumed
        and not even
    )


def is_of_old_probes(history: HolderHistory, kind: int) -> bool:
    """Whether visits have seen fewer steps than lie between two probes of
    graphs, none of which has reached further: only probes see the graph
    behind as many items grow."""
    if history.reach.reached or history.last.items != history.first.items:
        return False
    pace = history.growth.pace
    between = history.last.at.steps(kind) / PROBES_PER_DOUBLING
    return pace.kind == kind and _steps_seen(history, kind) < min(
        between, pace.steps
    )


def nodes_as_walked(history: HolderHistory) -> float:
    """Bytes of nodes a step, by what a walk has measured: of a container,
    with the items of its warm-up, which were made in no step that counts; a
    graph that is carried on reaches further back than what it leads to first,
    of which something else may have all but the last; of what was measured
    with others that differ by an index, it leads to a part of the items."""
    walked, steps = history.walked, max(history.growth.pace.steps, 1)
    if history.recurs or history.graph_grows or walked.with_alike:
        return walked.node_bytes / max(steps, _age(history))
    counted = walked.ours / walked.items if walked.items else 1.0
    return walked.node_bytes * min(counted or 1.0, 1.0) / steps


def _age(history: HolderHistory) -> int:
    return max(history.walked.at.now - history.began, 1)


def _measured(history: HolderHistory) -> tuple[Observation, Observation]:
    """Between which two its growth was seen; of what has just let go, while
    it gathered what it let go of."""
    return history.growth.rates.measured(history.first, history.last)


def _steps_seen(history: HolderHistory, kind: int) -> int:
    first, last = _measured(history)
    return last.at.steps(kind) - first.at.steps(kind)


def _on_its_graph(history: HolderHistory, attribute: str) -> int:
    """The value itself, which is renewed from step to step, is not."""
    held: int = getattr(history.walked, attribute)
    if history.graph is None:
        return held
    saved = {
        "bytes": history.graph.bytes,
        "freed": history.graph.saved_tensors,
        "node_bytes": history.graph.node_bytes,
    }
    return min(held, saved[attribute])


def generations(
    history: HolderHistory, kind: int, first_step: int, last_step: int
) -> int:
    """How many of these steps have left something there: as much more as came
    since the walk that counted them, or all, where each had until then but the
    one in whose middle the walk was, and as many items came since as steps."""
    walked, last = history.walked, history.last
    steps = last_step - first_step + 1
    until = walked.at.steps(kind)
    items = (last.items or 0) - (walked.items or 0)
    if history.generations >= until - first_step and (
        items >= last_step - until > 0
    ):
        return steps
    return min(round(history.generations * last.scale), steps)
