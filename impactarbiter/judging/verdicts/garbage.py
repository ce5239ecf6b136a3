"""What the collector does to garbage that was found."""

from __future__ import annotations

from ...core import heap
from ...core.wire import Status
from ..holders.memory import HolderHistory
from ..program.collector import collects
from .forecast import is_much


def is_freed(history: HolderHistory, status: Status) -> bool:
    """Whether the collector frees all of it in time if it is garbage: older
    garbage goes, too, or nothing in it is older than the newest run."""
    since = status.freed_from
    return since is not None and (not since or history.oldest >= since)


def was_collected(history: HolderHistory, status: Status) -> bool:
    """Whether garbage of its lines was seen to be freed, or none is left of
    what there was before a run that does free it."""
    if history.held.cycle is None:
        return False
    if history.was_collected or any(
        heap.site_now(site).cycle_bytes for site in history.sites
    ):
        return True
    return history.began < (status.freed_from or 0) <= history.oldest


def waits_for_a_run(
    history: HolderHistory, status: Status, room: int | None
) -> bool:
    """Whether the collector has not yet gone through what was young when a
    walk found it, runs by itself or as the source asks for it, and memory will
    hold until then; or no walk has seen what its newest run has left."""
    if history.held.cycle is None or history.held.forever:
        return False
    if status.freed_from and status.freed_from >= history.walked.at.now:
        return True
    if history.turnover.freed_in_time or is_much(history.last.bytes, room):
        return False
    runs = heap.collections()
    if is_freed(history, status):
        return runs[-1] == history.runs[-1]
    return runs == history.runs and _is_collected_by_source(history)


def _is_collected_by_source(history: HolderHistory) -> bool:
    """Whether a file that its allocation is called in has the collector run,
    more than once or maybe so."""
    finding = history.finding
    calls = (finding.allocated_at, *finding.stack) if finding else ()
    return any(collects(file) for file in {one.file for one in calls if one})
