"""What Python's objects weigh: as Python says it, and as its allocator saw
it, without a call of theirs."""

from __future__ import annotations

import array
import collections
import gc
import io
import sys
import tracemalloc
from typing import Any, ClassVar

import moments
import pytest

from impactarbiter import _core
from impactarbiter.core import heap, ledger, wire
from impactarbiter.core.wire import Counts, OfType, ProcessMemory, Tally
from impactarbiter.judging.sums import account, closure
from impactarbiter.model.growth import ProcessGrowth
from impactarbiter.model.path import Path
from impactarbiter.model.report import Report
from impactarbiter.reports import growth as words


class Point:
    def __init__(self, x: object) -> None:
        self.x = self.y = x


class Slotted:
    __slots__ = ("x",)


class Words(str):
    pass


def ordered(n: int) -> Any:
    return collections.OrderedDict.fromkeys(range(n))


def shrunk() -> dict[int, int]:
    made = dict.fromkeys(range(100), 0)
    for i in range(90):
        del made[i]
    return made


def written() -> io.BytesIO:
    made = io.BytesIO()
    made.write(b"x" * 5000)
    return made


ZOO: list[Any] = [
    [],
    [1, 2, 3],
    list(range(1000)),
    (),
    (1, 2),
    {},
    {1: 2},
    {"a": 1, "b": 2},
    dict.fromkeys(range(1000)),
    {str(i): i for i in range(1000)},
    shrunk(),
    set(),
    set(range(100)),
    frozenset(range(3)),
    "",
    "ascii",
    "latin \xe9",
    "greek \u03b1",
    "\U0001f600" * 100,
    b"",
    b"x" * 1000,
    bytearray(b"x" * 1000),
    1,
    -(1 << 29),
    1 << 100,
    1.5,
    2j,
    range(5),
    None,
    collections.deque(),
    collections.deque(range(1000)),
    array.array("d", range(100)),
    io.BytesIO(),
    io.BytesIO(b"x" * 1000),
    written(),
    Slotted(),
    len,
    slice(1, 2),
]


@pytest.mark.parametrize("one", ZOO, ids=lambda one: type(one).__name__)
def test_it_is_what_python_says(one: Any) -> None:
    asked, given, by_malloc = _core._footprint(one)
    assert asked == sys.getsizeof(one)
    assert by_malloc <= given >= asked


def test_instances_and_their_values_are_what_the_allocator_gave() -> None:
    kept: list[Any] = [None] * 2000
    # The first of a class have room for more attributes.
    settled = [make(None) for make in (Point, Words) for _ in range(64)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for i in range(1000):
            kept[i] = Point(None)
        points = tracemalloc.get_traced_memory()[0] - before
        for i in range(1000, 2000):
            kept[i] = Words(f"word {i}")
        words = tracemalloc.get_traced_memory()[0] - before - points
    finally:
        tracemalloc.stop()
    mine = sum(_core._footprint(p)[0] for p in kept[:1000])
    assert mine == pytest.approx(points, rel=0.02)
    assert len(settled) == 128
    mine = sum(_core._footprint(w)[0] for w in kept[1000:])
    assert mine == pytest.approx(words, rel=0.02)


def test_nobody_is_asked() -> None:
    class Loud(list):  # type: ignore[type-arg]
        def __sizeof__(self) -> int:
            raise AssertionError

    assert _core._footprint(Loud([1]))[0] > 0


# -- by type ------------------------------------------------------------------


def weighed() -> Tally:
    tally = heap.walk((), weigh=True).tally
    assert tally is not None
    return tally


def test_what_only_a_plain_container_refers_to_counts() -> None:
    before = weighed()
    kept = {"numbers": tuple(range(10**6, 10**6 + 20000))}
    after = weighed()
    ints, were = after.types["int"], before.types.get("int", wire.OfType())
    assert ints.objects - were.objects == pytest.approx(20000, abs=200)
    _asked, each, _malloc = _core._footprint(10**6)  # malloc takes more
    assert ints.bytes - were.bytes == pytest.approx(20000 * each, rel=0.02)
    grown = after.bytes - before.bytes
    assert grown == pytest.approx(20000 * (each + 8), rel=0.1)
    assert len(kept["numbers"]) == 20000


def lives(count: int) -> list[wire.SiteNow]:
    return [
        wire.SiteNow(10**9 + i, 10**10 + i, 2**40, 10**8 + i, 0, 0)
        for i in range(count)
    ]


def test_objects_of_our_own_are_counted_apart() -> None:
    """What a module of ours has, and what the program has of the same."""
    before = weighed()
    wire.kept_for_a_test = lives(5000)  # type: ignore[attr-defined]
    ours = weighed()
    del wire.kept_for_a_test  # type: ignore[attr-defined]
    kept = lives(5000)
    theirs = weighed()
    new = ours.types.keys() - before.types.keys()
    assert not any("SiteNow" in name for name in new)
    assert ours.bytes - before.bytes < 20_000
    assert ours.own - before.own > 5000 * (120 + 3 * 24)
    assert theirs.own - before.own < 20_000
    assert theirs.bytes - before.bytes > len(kept) * (120 + 3 * 24)


def test_garbage_counts_and_so_do_variables_of_running_functions() -> None:
    gc.collect()
    gc.disable()  # what is garbage stays
    before = weighed()
    ring: list[Any] = [bytes([i % 256]) * 700 for i in range(300)]
    ring.append(ring)
    text = "x" * 300_000
    del ring
    after = weighed()
    gc.enable()
    grown = {
        name: after.types[name].bytes
        - before.types.get(name, wire.OfType()).bytes
        for name in ("bytes", "str")
    }
    # Other libraries' objects come and go as well.
    assert 0.9 < grown["bytes"] / (300 * 750) < 1.5
    assert 0.9 < grown["str"] / 300_000 < 1.5
    assert len(text) == 300_000


class Log:
    steps: ClassVar[list[Any]] = []
    others: ClassVar[list[Any]] = []


def test_what_most_of_a_type_hangs_on() -> None:
    """At least so much is its own, whatever order a walk comes in."""
    Log.others[:] = [written() for _ in range(5)]
    Log.steps[:] = [written() for _ in range(40)]
    of_type = weighed().types["BytesIO"]
    assert str(of_type.path).endswith("Log.steps")
    assert of_type.owner == id(Log.steps)
    mine = sum(_core._footprint(one)[1] for one in Log.steps)
    assert of_type.bytes / 2 <= of_type.owned <= mine
    Log.others[:] = [written() for _ in range(40)]
    of_type = weighed().types["BytesIO"]
    assert (of_type.owned, of_type.owner, of_type.path) == (0, 0, None)
    Log.others.clear()
    Log.steps.clear()


PATH = Path("__main__", ())


@pytest.mark.parametrize(
    ("then", "now", "is_sure"),
    [
        (OfType(), OfType(90, 900, 500, 1, PATH), True),
        # It had as much before: something else has grown.
        (OfType(90, 900, 900, 1), OfType(180, 1800, 900, 1, PATH), False),
        (OfType(90, 900, 900, 1), OfType(180, 1800, 1700, 1, PATH), True),
        # Another had it then: of this one's at most half of the rest.
        (OfType(90, 900, 800, 2), OfType(180, 1800, 900, 1, PATH), True),
        # It may have had three quarters, by a close vote.
        (OfType(90, 900), OfType(180, 1800, 1000, 1, PATH), False),
        (OfType(90, 900), OfType(180, 1800, 1200, 1, PATH), True),
        (OfType(90, 900), OfType(180, 1800), False),
    ],
)
def test_what_most_of_the_growth_hangs_on(
    then: OfType, now: OfType, is_sure: bool
) -> None:
    (grown,) = account._types({"Step": then}, {"Step": now}, 1000, 10)
    assert (grown.path is not None) == is_sure


# -- the sum ------------------------------------------------------------------


def weighing(step: int, **fields: Any) -> account.Weighing:
    memory = ProcessMemory(*fields.pop("memory"))
    usual: dict[str, Any] = {"tensors": 0, "arrays": 0, "watching": 0}
    usual["tally"] = Tally({}, 0, 0, 0, 0)
    return account.Weighing(
        counts=Counts(manual=step), memory=memory, **{**usual, **fields}
    )


MANUAL = Counts._fields.index("manual")

KINDS = (
    "tensors",
    "arrays",
    "nodes",
    "objects",
    "heap",
    "kept",
    "files",
    "shared",
    "watching",
    "rest",
)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        # 900 in the heap, of which 300 are tensors and 100 objects.
        (
            {
                "memory": (2000, 0, 0, 900, 50),
                "tensors": 300,
                "tally": Tally({}, 400, 100, 0, 0),
            },
            {"tensors": 3, "objects": 4, "heap": 5, "kept": 0.5, "rest": 7.5},
        ),
        # Tensors that lie in shared memory: not twice.
        (
            {"memory": (500, 0, 500, 0, 0), "tensors": 500},
            {"tensors": 5, "shared": 0, "heap": 0, "rest": 0},
        ),
        (
            {"memory": (500, 500, 0, None, None)},
            {"files": 5, "heap": None, "kept": None, "rest": 0},
        ),
        (
            {"memory": (500, 0, 0, 0, 0), "tally": None},
            {"objects": None, "nodes": None, "rest": 5},
        ),
    ],
)
def test_the_kinds_add_up(
    last: dict[str, Any], expected: dict[str, float | None]
) -> None:
    first = weighing(10, memory=(1, 0, 0, 0, 0))
    made = weighing(110, **last)
    made = account.Weighing(
        made.counts,
        made.memory._replace(resident=made.memory.resident + 1),
        made.tensors,
        made.arrays,
        made.watching,
        made.tally,
    )
    growth = account.growth(first, made, MANUAL)
    assert growth is not None
    assert {name: getattr(growth, name) for name in expected} == expected
    total = sum(getattr(growth, name) or 0 for name in KINDS)
    assert total == pytest.approx(growth.process)
    assert (growth.first_step, growth.last_step) == (10, 110)


def test_what_is_gone_again_is_no_account_of_what_grew() -> None:
    """Malloc keeps what a call let go of that has ended: none of its kinds."""
    first = weighing(10, memory=(1000, 0, 0, 500, 0), tensors=500)
    last = weighing(110, memory=(4000, 0, 0, 0, 2000), tensors=0)
    assert account.is_gone(first, last, 3500, in_use=False)
    # A batch that was let go of is not what grew.
    assert not account.is_gone(first, last, 500, in_use=False)
    # Of what is in use, not even what was there before.
    assert account.is_gone(first, last, 10, in_use=True)


def test_what_is_in_use_has_no_part_that_is_only_resident() -> None:
    first = weighing(10, memory=(9000, 0, 0, 500, 70), tensors=300)
    tally = Tally({}, 900, 400, 100, 0)
    made = weighing(
        110, memory=(9100, 50, 0, 1500, 10), tensors=100, tally=tally
    )
    growth = account.growth(first, made, MANUAL, host=300, in_use=True)
    assert growth is not None and growth.kept is None
    assert growth.tensors == growth.rest == growth.files == 0
    total = sum(getattr(growth, name) or 0 for name in KINDS)
    assert total == growth.process == 1 + 9 + growth.heap


def test_few_steps_make_no_rate() -> None:
    first = weighing(1, memory=(1, 0, 0, 0, 0))
    last = weighing(4, memory=(9, 0, 0, 0, 0))
    assert account.growth(first, last, MANUAL) is None


def test_the_process_says_what_is_resident() -> None:
    memory = ledger.process_memory()
    assert memory.resident > memory.files + memory.shared > 0
    assert memory.resident == pytest.approx(ledger.resident_bytes(), rel=0.2)


# -- what is said of it -------------------------------------------------------


def grown(process: float, **kinds: float) -> ProcessGrowth:
    usual: dict[str, Any] = dict.fromkeys(KINDS, 0.0)
    return ProcessGrowth(
        first_step=8,
        last_step=108,
        process=process,
        types=(),
        **{**usual, **kinds},
    )


@pytest.mark.parametrize(
    ("growth", "expected", "beyond"),
    [
        # What tensors let go is kept by malloc, and is no growth of that.
        (
            grown(50e3, kept=172e3, tensors=-127e3, objects=5e3),
            {"kept": 45e3, "objects": 5e3},
            "",
        ),
        # Objects that fill pools which the process had.
        (
            grown(50e3, kept=10e3, nodes=-20e3, objects=50e3, files=10e3),
            {"objects": 50e3, "files": 10e3},
            "9.8 KiB",
        ),
        # More was asked for than was touched.
        (grown(50e3, heap=90e3, rest=-40e3), {"heap": 90e3}, "39.1 KiB"),
        (
            grown(50e3, heap=40e3, objects=12e3, rest=-2e3),
            {"heap": 40e3, "objects": 12e3},
            "",
        ),
    ],
)
def test_the_parts_of_a_growth_add_up_to_it(
    growth: ProcessGrowth, expected: dict[str, float], beyond: str
) -> None:
    told = {kind.field: kind.bytes_per_step for kind in words.parts(growth)}
    assert told == pytest.approx(expected)
    report = Report(
        steps=108, process_bytes_per_step=50e3, process_growth=growth
    )
    first, *_shorter = words.unexplained(report)
    lead = "no leak among tensors; grew 48.8 KiB a step: "
    assert first.startswith(lead)
    reused = " of it in memory that the process had or never touched"
    rest = first.removeprefix(lead)
    assert rest.partition("; ")[2] == (beyond + reused if beyond else "")
    assert (reused in words.beside_tensors(report)) == bool(beyond)


@pytest.mark.parametrize(
    ("sizes", "steady"),
    [
        ([100, 100, 110, 120, 130, 140, 150, 160], True),
        # It grew, and grows no more but for a page now and then.
        ([100, 100, 110, 120, 130, 135, 135.1, 135.2], False),
        ([100, 100, 110, 110, 120, 130, 140, 160], True),
        ([100, 100, 110, 110, 110, 130, 140, 160], False),
    ],
)
def test_growth_is_steady_where_it_goes_on(
    sizes: list[float], steady: bool
) -> None:
    resident = [int(sizes[step // 10] * 2**20) for step in range(80)]
    points = moments.points(80, resident_bytes=resident)
    rate = closure.growth(points, MANUAL, 80).process
    assert rate is not None and (rate > 0) == steady
