"""Events of a device's allocator against a plain model of the allocator."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from impactarbiter import _core


def _load(name: str) -> Any:
    """A module that lies beside this file; tests are no package."""
    path = Path(__file__).with_name(name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


model = _load("device_allocator")
CUDA = model.CUDA
NOTHING = model.as_array([])


@pytest.fixture(autouse=True)
def watching() -> Iterator[None]:
    _core.start(manual=True, warmup=0)
    yield
    _core.device_rules((1 << 64) - 1, ())
    _core.stop()


def follow(*codes: int) -> None:
    for code in codes:
        assert _core.device_follow(code, NOTHING, 0)


def known(code: int = CUDA) -> dict[str, Any]:
    (found,) = (d for d in _core.devices() if d["code"] == code)
    return found


def check(allocator: Any, *, whole: bool = True) -> None:
    """What we know is what is true; ``whole``: no block was there before."""
    found, truth = known(allocator.device), allocator.truth()
    assert {name: found[name] for name in truth} == truth
    streams = {k: v for k, v in found["streams"].items() if v[2]}
    assert streams == allocator.streams()
    rows = _core.rows()
    mine = rows[rows["device"] == allocator.device]
    if whole:
        assert {(int(r["address"]), int(r["bytes"])) for r in mine} == {
            (b.start, b.size) for b in allocator.blocks("allocated")
        }
    assert _core.consistent()
    assert _core.totals()["lost"] == 0


def send(*allocators: Any) -> None:
    for allocator in allocators:
        _core.device_events(allocator.take_events())


class Life:
    """Allocates, frees and empties at random."""

    def __init__(self, seed: int, *allocators: Any) -> None:
        self.random = random.Random(seed)
        self.allocators = allocators
        self.alive: list[tuple[Any, Any]] = []
        self.pending: list[tuple[Any, Any]] = []

    def size(self) -> int:
        kind = self.random.random()
        if kind < 0.6:
            return self.random.randrange(0, 4000)
        if kind < 0.9:
            return self.random.randrange(1, 3 << 20)
        return self.random.randrange(1, 40 << 20)

    def turn(self) -> None:
        what = self.random.random()
        if what < 0.5 or not self.alive:
            self.malloc()
        elif what < 0.9:
            self.free()
        elif what < 0.98 and self.pending:
            self.complete()
        elif what > 0.995:
            self.random.choice(self.allocators).empty_cache()

    def malloc(self) -> None:
        allocator = self.random.choice(self.allocators)
        stream = self.random.choice([0, 0, 0, 7, 9])
        pool = self.random.choice([0, 0, 0, 0, 3])
        try:
            block = allocator.malloc(self.size(), stream, pool)
        except model.OutOfMemory:
            for _ in range(len(self.alive) // 2):
                self.free()
            return
        self.alive.append((allocator, block))

    def free(self) -> None:
        at = self.random.randrange(len(self.alive))
        allocator, block = self.alive.pop(at)
        still_used = self.random.random() < 0.15
        allocator.free(block, still_used)
        if still_used:
            self.pending.append((allocator, block))

    def complete(self) -> None:
        at = self.random.randrange(len(self.pending))
        allocator, block = self.pending.pop(at)
        allocator.complete(block)

    def end(self) -> None:
        while self.alive:
            self.free()
        while self.pending:
            self.complete()
        for allocator in self.allocators:
            allocator.empty_cache()


CONFIGURATIONS = {
    "segments": {},
    "expandable": {"expandable": True},
    "max_split": {"max_split": 8 << 20},
    "little memory": {"total": 96 << 20},
    "little memory, expandable": {"total": 96 << 20, "expandable": True},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_random_life(name: str) -> None:
    allocator = model.Allocator(**CONFIGURATIONS[name])
    _core.device_rules(allocator.max_split, ())
    follow(CUDA)
    life = Life(1, allocator)
    for _ in range(40):
        for _ in range(60):
            life.turn()
        send(allocator)
        check(allocator)
    assert allocator.ooms > 0 or "little" not in name
    life.end()
    send(allocator)
    check(allocator)
    assert known()["reserved_bytes"] == known()["allocated_bytes"] == 0
    assert known()["peak_allocated_bytes"] > 0


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.integers(0, 1 << 30),
    st.booleans(),
    st.sampled_from([64 << 20, 1 << 30]),
    st.integers(1, 300),
)
def test_any_life(seed: int, expandable: bool, total: int, turns: int) -> None:
    _core.start(manual=True, warmup=0)
    allocator = model.Allocator(expandable=expandable, total=total)
    follow(CUDA)
    life = Life(seed, allocator)
    for _ in range(turns):
        life.turn()
    send(allocator)
    check(allocator)


def test_several_devices_with_equal_addresses_apart() -> None:
    """Blocks are kept per device; unified addressing keeps rows apart."""
    here = model.Allocator(device=CUDA)
    there = model.Allocator(device=CUDA + 3, base=0x7E0000000000)
    follow(CUDA, CUDA + 3)
    life = Life(3, here, there)
    for _ in range(1000):
        life.turn()
    send(here, there)
    check(here)
    check(there)
    devices = _core.totals()["devices"]
    assert devices["cuda:0"][0] == known(CUDA)["allocated_bytes"] > 0
    assert devices["cuda:3"][0] == known(CUDA + 3)["allocated_bytes"] > 0


# -- single shapes ------------------------------------------------------------


def test_freed_but_still_in_use() -> None:
    """record_stream: no owner any more, yet not to be given out again."""
    allocator = model.Allocator()
    follow(CUDA)
    block = allocator.malloc(1000)
    after = allocator.malloc(1000)
    allocator.free(block, still_used=True)
    send(allocator)
    check(allocator)
    assert known()["allocated_bytes"] == known()["pending_bytes"] == 1024
    assert _core.totals()["live_bytes"] == 1024
    allocator.free(after)
    send(allocator)
    check(allocator)
    allocator.complete(block)
    send(allocator)
    check(allocator)
    assert known()["pending_bytes"] == 0


def test_an_address_is_used_again() -> None:
    allocator = model.Allocator()
    follow(CUDA)
    first = allocator.malloc(5000, stream=7)
    allocator.free(first)
    allocator.empty_cache()
    allocator.base = first.start
    second = allocator.malloc(900, stream=9)
    assert second.start == first.start
    send(allocator)
    check(allocator)
    assert known()["streams"][9][0] == 1024


def test_a_rest_that_is_too_small_stays_with_the_block() -> None:
    allocator = model.Allocator()
    follow(CUDA)
    block = allocator.malloc((20 << 20) - 4096 - 7)
    send(allocator)
    assert block.size == 20 << 20
    check(allocator)


def test_out_of_memory_in_the_middle() -> None:
    allocator = model.Allocator(total=64 << 20)
    follow(CUDA)
    kept = [allocator.malloc(30 << 20), allocator.malloc(30 << 20)]
    with pytest.raises(model.OutOfMemory):
        allocator.malloc(10 << 20)
    allocator.free(kept.pop())
    allocator.malloc(10 << 20)
    send(allocator)
    check(allocator)
    assert known()["ooms"] == 1


def test_pages_unmapped_in_the_middle() -> None:
    allocator = model.Allocator(expandable=True)
    follow(CUDA)
    blocks = [allocator.malloc(15 << 20) for _ in range(8)]
    for block in blocks[1:7]:
        allocator.free(block)
    allocator.empty_cache()
    send(allocator)
    check(allocator)
    assert sum(e == "unmapped" for e in states(allocator)) == 2
    again = [allocator.malloc(25 << 20) for _ in range(4)]
    send(allocator)
    check(allocator)
    for block in [*again, blocks[0], blocks[7]]:
        allocator.free(block)
    allocator.empty_cache()
    send(allocator)
    check(allocator)
    assert known()["reserved_bytes"] == 0


def states(allocator: Any) -> list[str]:
    return [b.state for s in allocator.segments for b in s.blocks]


@pytest.mark.parametrize(
    ("asked", "divisions", "size"),
    [
        (1, (), 512),
        (513, (), 1024),
        (3 << 20, (4,), 3 << 20),
        ((3 << 20) + 1, (4,), (3 << 20) + (512 << 10)),
        ((3 << 20) + 1, (1, 2), 4 << 20),
        ((5 << 20) + 1, (0, 0, 8), (5 << 20) + (512 << 10)),
        (700 << 10, (4,), 768 << 10),
        (2000, (4,), 2048),
        (4000, (16,), 4096),
    ],
)
def test_rounding(asked: int, divisions: tuple[int, ...], size: int) -> None:
    """As roundup_power2_divisions is documented to work."""
    follow(CUDA)
    _core.device_rules((1 << 64) - 1, divisions)
    segment = (1 << 32, 512 << 20, 0, 0, 0, CUDA, model.SEGMENT_ALLOC)
    alloc = (1 << 32, asked, 0, 0, 0, CUDA, model.ALLOC)
    _core.device_events(model.as_array([segment, alloc]))
    assert known()["allocated_bytes"] == size
    assert known()["requested_bytes"] == asked


# -- blocks that are older than the watch -------------------------------------


@pytest.mark.parametrize("expandable", [False, True])
def test_what_was_there_before(expandable: bool) -> None:
    allocator = model.Allocator(expandable=expandable)
    life = Life(5, allocator)
    for _ in range(800):
        life.turn()
    early = {b.start for b in allocator.blocks("allocated")}
    allocator.take_events()
    ooms, allocator.ooms = allocator.ooms, 0
    assert ooms == 0
    assert _core.device_follow(CUDA, allocator.snapshot(), 0)
    check(allocator, whole=False)
    assert len(_core.rows()) == 0
    for _ in range(800):
        life.turn()
    send(allocator)
    check(allocator, whole=False)
    seen = {int(a) for a in _core.rows()["address"]}
    alive = {b.start for b in allocator.blocks("allocated")}
    assert seen <= alive <= seen | early


def test_a_stale_snapshot_is_refused() -> None:
    allocator = model.Allocator()
    allocator.malloc(100)
    snapshot = allocator.snapshot()
    send(allocator)
    assert known()["seen"] == 2 and not known()["followed"]
    assert not _core.device_follow(CUDA, snapshot, 0)
    assert not known()["followed"]
    assert _core.device_follow(CUDA, snapshot, 2)
    check(allocator, whole=False)


def test_a_device_that_is_not_followed_is_left_alone() -> None:
    allocator = model.Allocator()
    allocator.malloc(100)
    send(allocator)
    assert len(_core.rows()) == 0
    assert known()["allocated_bytes"] == known()["reserved_bytes"] == 0


def test_nothing_is_taken_in_after_the_end() -> None:
    allocator = model.Allocator()
    follow(CUDA)
    allocator.malloc(100)
    send(allocator)
    before = known()
    _core.stop()
    allocator.malloc(100)
    send(allocator)
    assert known() == before
    _core.start()
    assert _core.devices() == []


def test_events_that_cannot_be_are_counted_and_do_no_harm() -> None:
    follow(CUDA)
    allocator = model.Allocator()
    events = [allocator.malloc(5000) for _ in range(3)]
    allocator.free(events[1])
    lines = allocator.take_events()
    shuffled = random.Random(2)
    for _ in range(300):
        mixed = lines[shuffled.choices(range(len(lines)), k=20)].copy()
        mixed["action"] = shuffled.choices(range(11), k=20)
        mixed["address"] += np.uint64(512 * shuffled.randrange(2))
        mixed["address"][:2] = 0
        mixed["bytes"][2] = (1 << 64) - shuffled.randrange(1, 3)
        _core.device_events(mixed)
        assert _core.consistent()
    assert known()["drift"] > 0
    assert _core.device_follow(CUDA, allocator.snapshot(), known()["seen"])
    check(allocator, whole=False)


@pytest.mark.parametrize(
    "wrong", [np.zeros(3), [["a"]], np.zeros((2, 2), model.EVENT), None]
)
def test_what_is_no_array_of_events(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        _core.device_events(wrong)


# -- many ---------------------------------------------------------------------


def repeated_life(times: int) -> int:
    """A life of some thousands of events, over and over; the events."""
    allocator = model.Allocator(total=512 << 20)
    follow(CUDA)
    kept = [allocator.malloc(3000) for _ in range(5)]
    send(allocator)
    life = Life(11, allocator)
    for _ in range(9000):
        life.turn()
    while life.alive:
        life.free()
    while life.pending:
        life.complete()
    allocator.empty_cache()
    once = allocator.take_events()
    for _ in range(times):
        _core.device_events(once)
    allocator.ooms *= times
    check(allocator)
    assert len(kept) == known()["allocated_count"]
    assert known()["seen"] >= times * len(once)
    return times * len(once)


def test_many_events() -> None:
    assert repeated_life(15) > 200_000


@pytest.mark.slow
def test_ten_million_events() -> None:
    assert repeated_life(750) > 10_000_000
