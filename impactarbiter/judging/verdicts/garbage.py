"""What the collector does to garbage that was found."""

from __future__ import annotations

from ...core import heap
from ...core.wire import AGE_TO_TELL, Status
from ..holders.memory import HolderHistory
from ..program.collector import collects
from .forecast import is_much
from .rules import UNSURE


def is_freed(history: HolderHistory, status: Status) -> bool:
    """Whether the collector frees all of it in time if it is garbage: nothing
    in it is older than what goes."""
    since = status.freed_from
    return since is not None and history.eldest >= since


def was_collected(history: HolderHistory, status: Status) -> bool:
    """Whether garbage of its lines was seen to be freed, or none is left of
    what there was before a run that does free it."""
    if history.held.cycle is None:
        return False
    if history.was_collected or any(
        heap.site_now(site).cycle_bytes for site in history.sites
    ):
        return True
    return history.began < (status.freed_from or 0) <= history.eldest


def waits_for_a_run(
    history: HolderHistory, status: Status, room: int | None
) -> bool:
    """Whether a run of the collector that frees all of it is still to come;
    or one has come while that was so, and no walk has seen what it left: what
    is so at a walk is noted when it is asked first after that."""
    if history.held.cycle is None or history.held.forever:
        return False
    runs, walk = heap.collections(), history.walked.at.tick
    waits = _is_to_come(history, status, room, runs)
    if history.awaited[0] != walk:
        history.awaited = (walk, waits or is_freed(history, status), runs)
    _walk, awaited, then = history.awaited
    return waits or (awaited and runs != then)


def _is_to_come(
    history: HolderHistory,
    status: Status,
    room: int | None,
    runs: tuple[int, ...],
) -> bool:
    """Whether one comes by itself, or as the program or its source asks for
    it, that has not since a walk found it; memory will hold until then."""
    if is_much(history.last.bytes, room) or runs[-1] != history.runs[-1]:
        return False
    asks = status.freed_from is None and status.collects
    if asks and status.now - history.since < UNSURE * AGE_TO_TELL:
        return True
    if history.turnover.freed_in_time:
        return False
    if is_freed(history, status):
        return True
    generation = _collected_by_source(history)
    return generation is not None and (
        runs[generation:] == history.runs[generation:]
    )


def _collected_by_source(history: HolderHistory) -> int | None:
    """The oldest generation that a file that its allocation is called in has
    the collector run through, more than once or maybe so."""
    finding = history.finding
    calls = (finding.allocated_at, *finding.stack) if finding else ()
    found = [collects(file) for file in {one.file for one in calls if one}]
    return max((one for one in found if one is not None), default=None)
