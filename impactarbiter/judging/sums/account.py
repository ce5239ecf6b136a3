"""What the process gained besides tensors: two weighings, and what lies
between them."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.records import dataclass
from ...core import ledger
from ...core.wire import Counts, OfType, ProcessMemory, Tally, Totals
from ...model.devices import is_on_host, noun_of
from ...model.growth import ProcessGrowth, TypeGrowth
from ...model.path import Path

#: Types that are told, and the part of all Python objects' growth from which
#: one is.
MOST_TYPES = 8
LEAST_PART = 0.02
#: Steps between two weighings from which a rate is one.
LEAST_STEPS = 8
#: Where more than this part of what the process gained was let go of since the
#: last tick, what it has now is not what grew.
MOST_LET_GO = 0.5


@dataclass(frozen=True)
class Weighing:
    """One moment: what the process has, and what the ledger and a walk know.

    ``tally`` is None where no walk was made.
    """

    counts: Counts
    memory: ProcessMemory
    tensors: int
    arrays: int
    watching: int
    tally: Tally | None


def weigh(counts: Counts, tally: Tally | None) -> Weighing:
    """Of this moment, when a walk has just been made, or none."""
    totals = ledger.totals()
    return Weighing(
        counts=counts,
        memory=ledger.process_memory(),
        tensors=_on_host(totals, "tensor"),
        arrays=_on_host(totals, "array"),
        watching=totals.ledger_bytes,
        tally=tally,
    )


def _on_host(totals: Totals, noun: str) -> int:
    """Live bytes in the process's own memory."""
    return sum(
        now.live
        for device, now in totals.devices.items()
        if is_on_host(device) and noun_of((device,)) == noun
    )


def is_gone(first: Weighing, last: Weighing, host: int, in_use: bool) -> bool:
    """Whether most of what the process gained between two weighings is gone
    again: a program that ends drops what it kept.

    ``host``: what tensors and arrays had of the process's own memory at the
    last tick.  ``in_use``: of what is in use alone, for resident memory says
    too little.
    """
    let_go = _let_go(last, host)
    now, then = last.memory, first.memory
    gained = now.resident - then.resident
    if in_use and now.heap_used is not None and then.heap_used is not None:
        gained = now.heap_used - then.heap_used + let_go
        gained -= last.watching - first.watching
    return let_go > MOST_LET_GO * (gained + let_go)


def _let_go(last: Weighing, host: int) -> int:
    return host - last.tensors - last.arrays


def growth(
    first: Weighing,
    last: Weighing,
    kind: int,
    host: int = 0,
    in_use: bool = False,
) -> ProcessGrowth | None:
    """Between two weighings; None where too little lies between them.

    ``host`` and ``in_use`` as above.
    """
    steps = last.counts[kind] - first.counts[kind]
    if steps < LEAST_STEPS or not first.memory.resident:
        return None
    now, then = last.memory, first.memory
    tensors = last.tensors - first.tensors
    arrays = last.arrays - first.arrays
    watching = last.watching - first.watching
    tallies = _both(first.tally, last.tally)
    nodes = objects = small = None
    own = 0
    types: tuple[TypeGrowth, ...] = ()
    if tallies:
        before, after = tallies
        objects = after.bytes - before.bytes
        own = after.own - before.own
        small = after.malloc - before.malloc
        small += after.own_malloc - before.own_malloc
        nodes = after.nodes - before.nodes
        arrays += after.arrays - before.arrays
        types = _types(before.types, after.types, objects, steps)
    files, shared = now.files - then.files, now.shared - then.shared
    heap = kept = None
    # Without the walks nodes and objects are not told from C's own.
    if tallies and now.heap_used is not None and then.heap_used is not None:
        known = tensors + arrays + watching + (nodes or 0) + (small or 0)
        heap = now.heap_used - then.heap_used - known
    if now.heap_free is not None and then.heap_free is not None:
        kept = now.heap_free - then.heap_free
    if heap is not None and heap < 0:
        # Tensors that lie in files or in shared memory, not in the heap.
        heap, shared, files = _elsewhere(heap, shared, files)
    process = now.resident - then.resident
    watching += own  # what of it is malloc's is known already
    if in_use:
        tensors += _let_go(last, host)
        kept, files, shared, watching = None, 0, 0, 0
        process = sum(k or 0 for k in (tensors, arrays, nodes, objects, heap))
    told = (tensors, arrays, nodes, objects, heap, kept, files, shared)
    rest = process - watching - sum(kind or 0 for kind in told)

    def rate(kind: int | None) -> float | None:
        return None if kind is None else kind / steps

    return ProcessGrowth(
        first_step=first.counts[kind],
        last_step=last.counts[kind],
        process=process / steps,
        tensors=tensors / steps,
        arrays=arrays / steps,
        nodes=rate(nodes),
        objects=rate(objects),
        types=types,
        heap=rate(heap),
        kept=rate(kept),
        files=files / steps,
        shared=shared / steps,
        watching=watching / steps,
        rest=rest / steps,
    )


def _both(
    first: Tally | None, last: Tally | None
) -> tuple[Tally, Tally] | None:
    return (first, last) if first is not None and last is not None else None


def _elsewhere(heap: int, shared: int, files: int) -> tuple[int, int, int]:
    """Takes what the heap lacks from shared memory, then from files."""
    for_shared = min(max(shared, 0), -heap)
    for_files = min(max(files, 0), -heap - for_shared)
    return (
        heap + for_shared + for_files,
        shared - for_shared,
        files - for_files,
    )


def _types(
    before: Mapping[str, OfType],
    after: Mapping[str, OfType],
    objects: int,
    steps: int,
) -> tuple[TypeGrowth, ...]:
    """Those that grew most, the fastest first."""
    found = []
    for name, now in after.items():
        then = before.get(name, OfType())
        more = now.bytes - then.bytes
        if more > LEAST_PART * objects:
            rates = more / steps, (now.objects - then.objects) / steps
            found.append(TypeGrowth(name, *rates, _owner(then, now)))
    found.sort(key=lambda one: -one.bytes_per_step)
    return tuple(found[:MOST_TYPES])


def _owner(then: OfType, now: OfType) -> Path | None:
    """What has most of what came of a type, if something surely has: what it
    has now, at least, less what it may have had."""
    if not then.owner:
        had = then.bytes * 3 / 4
    elif then.owner == now.owner:
        had = (then.bytes + then.owned) / 2
    else:
        had = (then.bytes - then.owned) / 2
    sure = 2 * (now.owned - had) >= now.bytes - then.bytes
    return now.path if sure else None
