"""What a report says beside its findings: sums, cost, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...base.units import plural
from ...core import devices
from ...core.wire import Status, Totals, Walk
from ...model.finding import Finding
from ...model.report import Cost


def accounted(
    walk: Walk | None,
    totals: Totals,
    findings: Iterable[Finding] | None = None,
) -> dict[str, int]:
    """Live bytes by what they are for; the sum is ``live_bytes``.

    A walk claims for all holders that it was asked about; what those have
    that are no ``findings`` (None: not judged yet) is among the other bytes.
    """
    known = dict(walk.purposes) if walk else {}
    known["findings"] = known.pop("claimed", 0)
    if findings is not None:
        told = [f for f in findings if f.path is not None]
        held = sum(finding.retained_bytes for finding in told)
        known["findings"] = min(known["findings"], held)
        # What no path leads to the walk has not met.
        known["findings"] += sum(
            f.retained_bytes for f in findings if f.path is None
        )
    known["allowed"] = totals.allowed_bytes
    known.pop("other", 0)
    known["other"] = max(totals.live_bytes - sum(known.values()), 0)
    return known


def older(walk: Walk | None) -> dict[str, int]:
    """Bytes of before the watch, by what they are for."""
    known = walk.older if walk else {}
    return {name: size for name, size in known.items() if size}


def cost(
    walk: Walk | None, walks: int, status: Status, totals: Totals, kind: int
) -> Cost:
    """What watching has cost so far."""
    steps = status.counts[kind]
    spent = status.boundary_seconds + totals.hook_seconds
    return Cost(
        ms_per_step=1e3 * spent / steps if steps else None,
        last_walk_ms=1e3 * walk.seconds if walk else None,
        ledger_bytes=totals.ledger_bytes,
        looks=walks,
        looks_ms=1e3 * status.callback_seconds,
    )


def warnings(
    walk: Walk | None, status: Status, totals: Totals, failures: int
) -> Iterator[str]:
    """What may be missing in the findings, and why."""
    if status.failure:
        yield f"watching ended early: {status.failure}"
    yield from _of_memory(totals)
    if failures:
        yield (
            f"{plural(failures, 'look')} at objects of torch's had to be"
            " given up: what they lead to may be missing"
        )
    if walk is not None:
        yield from _of_walk(walk)
    yield from devices.said()


def _of_memory(totals: Totals) -> Iterator[str]:
    """What there was no memory for."""
    if totals.lost:
        yield (
            f"{totals.lost} storages could not be recorded: memory was short"
        )
    if totals.stacks_lost:
        yield (
            f"the lines of {plural(totals.stacks_lost, 'allocation')} could"
            " not all be read: memory was short"
        )
    if totals.graphs_lost:
        yield (
            f"{plural(totals.graphs_lost, 'look')} at graphs of autograd gave"
            " no answer: memory was short"
        )


def _of_walk(walk: Walk) -> Iterator[str]:
    if not walk.graph:
        yield (
            "another thread was busy in torch during the last look: the"
            " autograd graph was left out of it, and so was what C or C++"
            " holds"
        )
    if walk.left_out:
        yield (
            f"{walk.left_out} more holders, which keep less each, are not"
            " shown"
        )
