"""The heap walk against one ``gc.collect()`` on the same heap."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import heaps
from pairs import Row, compare

import impactarbiter
from impactarbiter import _core

SUSPECTS = 50
#: Enough for every line to be a suspect: warm-up, window and some more.
LEAKY_STEPS = 16


def seconds_of(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def collect() -> float:
    return seconds_of(gc.collect)


def check_found(answer: dict[str, Any], sites: list[int]) -> None:
    """A diagnosis that finds nothing would be fast for no good reason."""
    holders = answer["holders"]
    found = {g["site"] for k in holders for g in k["groups"]}
    if len(found) + answer["left_out"] < len(sites):
        raise SystemExit(f"found {len(found)} of {len(sites)} suspects")
    freed = sum(k["cost"]["storages"] for k in holders)
    if freed < len(found) * (LEAKY_STEPS - 4):
        raise SystemExit(f"cutting would free {freed} storages only")


def diagnose(sites: list[int]) -> float:
    return seconds_of(lambda: _core.diagnose(sites, []))


def suspects_of(
    arbiter: impactarbiter.Arbiter, known: set[int], holders: int
) -> list[int]:
    """Leaks on 50 new lines until each of them is a suspect."""
    leak = heaps.leaks(SUSPECTS, holders)
    for _ in range(LEAKY_STEPS):
        leak()
        arbiter.step()
    sites = {int(s["site"]) for s in _core.suspects(8)} - known
    if len(sites) != SUSPECTS:
        raise SystemExit(f"{len(sites)} lines are suspect, not {SUSPECTS}")
    known |= sites
    found = sorted(sites)
    check_found(_core.diagnose(found, []), found)
    return found


def run(effort: float, objects: int, shuffled: bool) -> list[Row]:
    there = heaps.fill(objects, shuffled)
    where = f"{there / 1e6:.2f} M objects{', shuffled' * shuffled}"
    rounds = min(max(int(2.4e7 * effort / objects), 6), 60)
    known: set[int] = set()
    gc.disable()
    arbiter = impactarbiter.watch(step="manual")
    rows = [
        compare(f"walk, {where}", collect, lambda: diagnose([]), rounds, 0.5)
    ]
    few = suspects_of(arbiter, known, 5)
    rows.append(
        compare(
            f"{SUSPECTS} suspects, 5 holders cut, {where}",
            collect,
            lambda: diagnose(few),
            rounds,
            1.0,
        )
    )
    many = suspects_of(arbiter, known, SUSPECTS)
    rows.append(
        compare(
            f"{SUSPECTS} suspects, {SUSPECTS} holders, {where}",
            collect,
            lambda: diagnose(many),
            max(rounds // 2, 4),
        )
    )
    if not _core.consistent():
        raise SystemExit("the ledger's totals are wrong")
    return rows
