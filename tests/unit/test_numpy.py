"""NumPy's arrays: in the ledger, in the walk, and what holds them."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import impactarbiter
from impactarbiter import UsageError, _core, explain, retained_bytes
from impactarbiter.watching.arbiter import Arbiter

LEAST = 1024


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    gc.collect()
    made = impactarbiter.watch(step="manual", warmup=0)
    yield made
    made.stop()


def blocks() -> dict[int, int]:
    """Bytes of NumPy's blocks in the ledger, by address."""
    rows = _core.rows()
    return {
        int(row["address"]): int(row["bytes"])
        for row in rows[rows["device"] == 0xFF00]
    }


def blocks_of_ours() -> dict[int, int]:
    """Those that workers have made: hypothesis makes some, too."""
    made = {}
    for row in _core.rows():
        source = _core.site_source(int(row["site"]))
        if source is not None and source[2].startswith("Worker."):
            made[int(row["address"])] = int(row["bytes"])
    return made


def owned(arrays: list[np.ndarray]) -> dict[int, int]:
    """What the ledger should have of these, and of nothing else."""
    return {
        a.ctypes.data: a.nbytes
        for a in arrays
        if a.flags.owndata and a.nbytes >= LEAST
    }


# -- births and deaths --------------------------------------------------------


class Worker:
    """Makes, changes and drops arrays as its numbers say."""

    def __init__(self) -> None:
        self.alive: list[np.ndarray] = []

    def turn(self, numbers: list[tuple[int, int]]) -> None:
        for what, size in numbers:
            getattr(self, self.DEEDS[what % len(self.DEEDS)])(size)

    def make(self, size: int) -> None:
        self.alive.append(np.empty(size))

    def zeros(self, size: int) -> None:
        self.alive.append(np.zeros((2, size), dtype=np.float32))

    def iterate(self, size: int) -> None:
        self.alive.append(np.fromiter(iter(range(size)), dtype=np.int64))

    def objects(self, size: int) -> None:
        self.alive.append(np.full(size, None, dtype=object))

    def copy(self, size: int) -> None:
        if self.alive:
            self.alive.append(self.alive[size % len(self.alive)].copy())

    def join(self, _size: int) -> None:
        plain = [a.ravel() for a in self.alive[-3:] if a.dtype != object]
        if plain:
            self.alive.append(np.concatenate(plain)[:5000].copy())

    def lengthen(self, size: int) -> None:
        if self.alive and self.alive[-1].flags.owndata:
            self.alive[-1].resize(size, refcheck=False)

    def drop(self, size: int) -> None:
        if self.alive:
            del self.alive[size % len(self.alive)]

    DEEDS = (
        "make",
        "zeros",
        "iterate",
        "objects",
        "copy",
        "join",
        "lengthen",
        "drop",
        "drop",
    )


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 8), st.integers(0, 3000)), max_size=60
        ),
        min_size=1,
        max_size=4,
    )
)
def test_ledger_equals_live_arrays(
    arbiter: Arbiter, plans: list[list[tuple[int, int]]]
) -> None:
    workers = [Worker() for _ in plans]
    with ThreadPoolExecutor(len(plans)) as pool:
        running = [
            pool.submit(worker.turn, plan)
            for worker, plan in zip(workers, plans, strict=True)
        ]
        while not all(future.done() for future in running):
            assert _core.consistent()
            arbiter.step()
        for future in running:
            future.result()
    del running
    everything = [a for worker in workers for a in worker.alive]
    assert blocks_of_ours() == owned(everything)
    del everything
    for worker in workers:
        worker.alive.clear()
    assert blocks_of_ours() == {}
    assert _core.consistent()


def test_what_is_older_is_freed_and_not_counted(arbiter: Arbiter) -> None:
    arbiter.stop()
    old = [np.ones(1000) for _ in range(3)]
    with impactarbiter.watch(step="manual"):
        assert blocks() == {}
        old[0].resize(2000, refcheck=False)  # another block
        assert list(blocks().values()) == [16000]
        del old[1:]
        old.clear()
        assert blocks() == {}


def test_small_arrays_are_left_out(arbiter: Arbiter) -> None:
    small, least = np.empty(LEAST - 1, "u1"), np.empty(LEAST, "u1")
    assert blocks() == {least.ctypes.data: LEAST}
    del small, least


def test_a_line_and_a_step(arbiter: Arbiter) -> None:
    arbiter.step()
    array = np.zeros(1000)
    (row,) = _core.rows()
    source = _core.site_source(int(row["site"]))
    assert source is not None
    assert source[2] == "test_a_line_and_a_step"
    assert int(row["generation"]) == 1
    del array


def test_an_array_that_is_resized_is_of_that_line(arbiter: Arbiter) -> None:
    array = np.zeros(1000)
    arbiter.step()
    first = _core.rows()[0]

    def lengthen() -> None:
        array.resize(9000, refcheck=False)

    lengthen()
    (row,) = _core.rows()
    source = _core.site_source(int(row["site"]))
    assert source is not None and source[2].endswith("lengthen")
    assert (int(row["bytes"]), int(row["generation"])) == (72000, 1)
    array.resize(9000, refcheck=False)
    assert _core.rows()[["site", "generation"]] == row[["site", "generation"]]
    assert int(first["generation"]) == 0


def test_shared_with_a_tensor_counts_once(arbiter: Arbiter) -> None:
    array = np.zeros(1000)
    tensor = torch.from_numpy(array)
    arbiter.step()
    assert _core.totals()["devices"]["numpy"][0] == 0
    assert _core.totals()["devices"]["cpu"][0] == 8000
    assert _core.totals()["live_bytes"] == 8000
    keep = [tensor]
    assert retained_bytes(keep) == 0  # the array is here as well
    del array, tensor
    assert retained_bytes(keep) == 8000
    keep.clear()
    assert _core.totals()["live_bytes"] == 0


def test_a_tensors_memory_stays_the_tensors(arbiter: Arbiter) -> None:
    array = torch.zeros(1000).numpy()
    arbiter.step()
    assert blocks() == {}
    assert _core.totals()["devices"] == {"cpu": (4000, 4000)}
    del array


def test_only_where_it_is_wanted(arbiter: Arbiter) -> None:
    arbiter.stop()
    with pytest.raises(UsageError, match="numpy is 1"):
        impactarbiter.watch(numpy=1)  # type: ignore[arg-type]
    with impactarbiter.watch(numpy=False):
        array = np.zeros(1000)
        assert not _core.arrays_installed()
        assert blocks() == {}
    del array


def test_a_report_adds_up(arbiter: Arbiter) -> None:
    arrays = [np.zeros(1000) for _ in range(3)]
    tensor = torch.zeros(500)
    arbiter.step()
    report = arbiter.report()
    assert report.live_bytes == 26000
    assert sum(report.accounted.values()) == 26000
    assert report.accounted["numpy"] == 24000
    del arrays, tensor


# -- the table ----------------------------------------------------------------


class Allocator(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("ctx", "malloc", "calloc", "realloc", "free")
    ]


class Handler(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", Allocator),
    ]


def table() -> Allocator:
    """NumPy's own table, as it stands."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    multiarray = sys.modules[
        "numpy._core.multiarray"
        if int(np.__version__.split(".")[0]) > 1
        else "numpy.core.multiarray"
    ]
    api = ctypes.cast(
        pointer(multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    capsule = ctypes.cast(api[306], ctypes.POINTER(ctypes.py_object))[0]
    return Handler.from_address(pointer(capsule, b"mem_handler")).allocator


def entries(of: Allocator) -> list[int | None]:
    return [getattr(of, name) for name, _ in Allocator._fields_]


def test_the_table_is_given_back() -> None:
    before = entries(table())
    with impactarbiter.watch():
        during = entries(table())
        assert during[0] == before[0]
        assert all(a != b for a, b in zip(during, before, strict=True) if b)
    assert entries(table()) == before


def test_who_has_wrapped_ours_stays() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    calls = []
    before = entries(table())
    arbiter = impactarbiter.watch()
    ours = kind(table().malloc)

    @kind
    def wrapped(ctx: Any, size: int) -> Any:
        calls.append(size)
        return ours(ctx, size)

    address = ctypes.cast(wrapped, ctypes.c_void_p).value
    now = table()
    now.malloc = address
    try:
        array = np.empty(5000, "u1")
        assert blocks() == {array.ctypes.data: 5000}
        arbiter.stop()
        assert table().malloc == address
        calls.clear()
        other = np.empty(6000, "u1")
        assert calls == [6000]
        with impactarbiter.watch():  # reached through theirs
            third = np.empty(7000, "u1")
            assert blocks() == {third.ctypes.data: 7000}
        assert table().malloc == address
        del array, other, third
    finally:
        for name, value in zip(Allocator._fields_, before, strict=True):
            setattr(now, name[0], value)
    with impactarbiter.watch():
        array = np.empty(5000, "u1")
        assert blocks() == {array.ctypes.data: 5000}
    assert entries(table()) == before


def test_by_a_handler_where_the_table_cannot_be_written() -> None:
    before = entries(table())
    _core.start()
    try:
        assert _core.arrays_install(False)
        assert entries(table()) == before
        array = np.empty(5000, "u1")
        assert blocks() == {array.ctypes.data: 5000}
        _core.arrays_uninstall()
        assert blocks() == {}
        other = np.empty(6000, "u1")
        assert blocks() == {}
        del array, other  # the one through its handler, which is ours
    finally:
        _core.arrays_uninstall()
        _core.stop()


# -- who holds them -----------------------------------------------------------


class Array(np.ndarray):
    """With attributes, and nothing that may be called."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def held_by(get: Callable[[], object]) -> str:
    """The path to what this gives; an assert would keep what it has seen."""
    (path,) = explain(get()).paths
    return str(path)


kept: Any = None


@pytest.fixture
def keep() -> Iterator[Any]:
    """Puts something into a variable of this module."""

    def put(value: Any) -> None:
        global kept
        kept = value
        for _ in range(3):
            gc.collect()  # what is plain is tracked no more

    yield put
    put(None)


def test_in_a_dict_that_is_not_tracked(keep: Any) -> None:
    keep([{"obs": torch.zeros(1000).numpy(), "step": i} for i in range(40)])
    # From 3.14 on every dict is tracked.
    assert gc.is_tracked(kept[39]) == (sys.version_info >= (3, 14))
    assert held_by(lambda: kept[39]["obs"]).endswith("kept[39]['obs']")
    assert held_by(lambda: kept[39]["obs"].base).endswith(
        "kept[39]['obs'].base"
    )
    assert retained_bytes(kept[39]["obs"]) == 4000


def test_in_tuples_that_are_not_tracked(keep: Any) -> None:
    keep({"a": (1, ("x", np.zeros(1000)))})
    assert not gc.is_tracked(kept["a"])
    assert held_by(lambda: kept["a"][1][1]).endswith("kept['a'][1][1]")


def test_a_view_and_its_base(keep: Any) -> None:
    keep([np.zeros(100_000)[:10]])
    answer = explain(kept[0])
    assert answer.retained_bytes == 800_000
    assert str(answer).startswith("ndarray [10] float64 numpy: 781 KiB in 1 a")
    assert held_by(lambda: kept[0].base).endswith("kept[0].base")


@pytest.mark.parametrize("kind", [np.ndarray, np.recarray])
@pytest.mark.parametrize("part", [slice(None), slice(2, 50, 2)])
def test_a_record_and_its_array(keep: Any, kind: type, part: slice) -> None:
    """It shows the memory of its array, as a view does."""
    dtype = [("at", "f8"), ("wave", "f4", (24,))]
    keep([np.zeros(100, dtype).view(kind)[part][3]])
    answer = explain(kept[0])
    assert answer.retained_bytes == 10_400
    name = "void" if kind is np.ndarray else "record"
    assert f"{name}832" in str(answer)
    assert held_by(lambda: kept[0].base).endswith("kept[0].base")


def test_a_copy_of_a_record(keep: Any) -> None:
    keep([np.zeros(100, [("at", "f8"), ("what", "O")])[3].copy()])
    assert retained_bytes(kept[0]) == 16


def test_in_an_array_of_objects(keep: Any) -> None:
    table = np.empty((2, 3), dtype=object)
    table[1, 2] = [np.ones(1000)]
    keep(table)
    del table
    assert held_by(lambda: kept[1, 2][0]).endswith("kept.flat[5][0]")
    assert retained_bytes(kept[1, 2]) == 8000


def test_in_a_structured_array(keep: Any) -> None:
    kind = [("n", "i1"), ("obs", "O"), ("in", [("x", "O", (2,))])]
    rows = np.zeros(3, dtype=kind)
    rows["obs"][1] = torch.zeros(10)
    rows["in"]["x"][2, 1] = torch.ones(5)
    keep(rows)
    del rows
    assert held_by(lambda: kept["obs"][1]).endswith("kept[1]['obs']")
    path = held_by(lambda: kept["in"]["x"][2, 1])
    assert path.endswith("kept[2]['in']['x'][1]")
    assert eval("kept" + path.rpartition("kept")[2]) is kept["in"]["x"][2, 1]


def test_fields_whose_names_are_no_plain_text(keep: Any) -> None:
    rows = np.zeros(3, dtype=[("it's", [("c", object)]), ("d", object)])
    rows["it's"]["c"][1] = [1]
    rows["d"][2] = [2]
    keep(rows)
    del rows
    assert not explain(kept["it's"]["c"][1]).paths[0].python
    assert explain(kept["d"][2]).paths[0].python


def with_log() -> np.ndarray:
    array = np.zeros(1000).view(Array)
    log = [torch.zeros(7)]
    np.ndarray.__getattribute__(array, "__dict__")["log"] = log
    return array


def log_of(array: np.ndarray) -> Any:
    return np.ndarray.__getattribute__(array, "__dict__")["log"]


def test_attributes_of_a_subclass(keep: Any) -> None:
    keep([with_log()])
    assert held_by(lambda: log_of(kept[0])[0]).endswith("kept[0].log[0]")
    assert retained_bytes(kept) == 8028


def test_a_list_is_never_overlooked() -> None:
    array = np.zeros(1000)
    alone = explain(array)
    assert not alone.paths or "array" in str(alone.paths[0])
    keeper = [array]
    assert "keeper[0]" in str(explain(array).paths[0])
    del keeper


def test_what_only_the_caller_has() -> None:
    """References from arrays are told from those of C code."""
    inner = np.empty(6, dtype=object)
    inner[1] = [np.ones(1000)]
    assert retained_bytes(inner) == 8048
    plain = {"obs": torch.zeros(100).numpy()}
    gc.collect()
    assert retained_bytes(plain) == 400


def test_several_of_several_sorts() -> None:
    array, tensor = np.zeros(1000), torch.zeros(1000)
    storage = torch.zeros(500).untyped_storage()
    answers = explain(array, tensor, storage)
    assert [a.retained_bytes for a in answers] == [8000, 4000, 2000]
    assert [a.noun for a in answers] == ["array", "tensor", "tensor"]
    assert retained_bytes(storage) == 2000


def test_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": np.arange(10_000.0), "b": np.arange(10_000)}
    )
    assert retained_bytes(frame) >= 160_000


# -- NumPy's own tests --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["item_selection", "indexerrors", "memmap"])
def test_numpys_own_tests(name: str, tmp_path: Path) -> None:
    """Some of those that use memory in every way, under watch."""
    core = "_core" if int(np.__version__.split(".")[0]) > 1 else "core"
    command = [sys.executable, "-P", "-m", "impactarbiter", "run", "-m"]
    command += ["pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    done = subprocess.run(
        [*command, f"numpy.{core}.tests.test_{name}"],
        cwd=tmp_path,  # out of reach of our settings
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_a_buffer_that_was_never_made_is_freed(arbiter: Arbiter) -> None:
    """argsort() gives back NULL, with the bytes of the buffer that it would
    have needed."""
    kept = [torch.ones(300 + i) for i in range(50)]
    known = blocks()
    for size in (200, 1000, 5000):
        np.argsort(np.arange(size))
        np.unique(np.arange(size)[::-1], return_index=True)
        assert _core.consistent()
    assert blocks() == known and len(kept) == 50
