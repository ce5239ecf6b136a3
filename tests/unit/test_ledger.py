"""The ledger against what is really alive."""

from __future__ import annotations

import copy
import gc
import importlib.util
import random
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import impactarbiter
from impactarbiter import _core
from impactarbiter.watching.arbiter import Arbiter


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    gc.collect()
    made = impactarbiter.watch(step="manual", warmup=0)
    yield made
    made.stop()


def live() -> dict[int, Any]:
    """Rows by address."""
    _core.refresh()
    rows = _core.rows()
    by_address = {int(row["address"]): row for row in rows}
    assert len(by_address) == len(rows)
    return by_address


def row_of(tensor: torch.Tensor) -> Any:
    """The row of a tensor's storage, or None."""
    storage = tensor.untyped_storage()
    rows = live()
    data, impl = storage.data_ptr(), storage._cdata
    found = [rows[key] for key in (data, impl) if key and key in rows]
    assert len(found) <= 1
    return found[0] if found else None


def step_until_noticed(arbiter: Arbiter, *tensors: torch.Tensor) -> None:
    """At the first step, but where another thread was not seen at rest."""
    for _attempt in range(100):
        arbiter.step()
        if all(row_of(tensor) is not None for tensor in tensors):
            return
        time.sleep(0.02)


def source_of(tensor: torch.Tensor) -> tuple[str, int, str, bool]:
    row = row_of(tensor)
    assert row is not None
    return _core.site_source(int(row["site"]))


def check(tensors: list[torch.Tensor]) -> None:
    """The ledger holds the storages of these tensors and nothing else."""
    storages = {t.untyped_storage()._cdata: t for t in tensors}
    rows, totals = live(), _core.totals()
    wanted = 0
    for impl, tensor in storages.items():
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        wanted += size
        if size == 0:
            continue
        row = rows.pop(storage.data_ptr(), None)
        row = rows.pop(impl, None) if row is None else row
        assert row is not None, (tensor.shape, tensor.device)
        assert row["bytes"] == size
    assert not rows
    assert totals["live_bytes"] == wanted
    assert totals["lost"] == 0
    assert _core.consistent()


# -- storages as they come and go -------------------------------------------


class Worker:
    """Makes, changes and drops tensors at random; keeps those alive."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.alive: list[torch.Tensor] = []
        self.actions: list[Callable[[], None]] = [
            self.make,
            self.make,
            self.copy,
            self.view,
            self.resize,
            self.resize_storage,
            self.grow,
            self.rebind,
            self.compute,
            self.wrap,
            self.share,
            self.drop,
            self.drop,
            self.drop,
        ]

    def turn(self, times: int) -> None:
        for _ in range(times):
            self.random.choice(self.actions)()
            if len(self.alive) > 200:
                del self.alive[:150]

    def any(self) -> torch.Tensor:
        if not self.alive:
            self.make()
        return self.random.choice(self.alive)

    def own(self) -> torch.Tensor:
        """One whose storage may be resized."""
        tensor = self.any()
        storage = tensor.untyped_storage()
        # torch crashes where shared memory is to grow.
        if not storage.resizable() or storage.is_shared():
            tensor = torch.zeros(3)
            self.alive.append(tensor)
        return tensor

    def make(self) -> None:
        size = self.random.choice([0, 1, 3, 17, 64, 1000])
        maker = self.random.choice([torch.empty, torch.zeros, torch.rand])
        self.alive.append(maker(size))

    def copy(self) -> None:
        self.alive.append(self.any().clone())

    def view(self) -> None:
        tensor = self.any()
        self.alive.append(tensor.reshape(-1)[: tensor.numel() // 2])
        self.alive.append(tensor.detach())

    def resize(self) -> None:
        self.own().resize_(self.random.randrange(200))

    def resize_storage(self) -> None:
        tensor = torch.zeros(self.random.randrange(1, 50))
        for _ in range(3):
            tensor.untyped_storage().resize_(self.random.randrange(900))
        tensor.untyped_storage().resize_(self.random.randrange(200, 300))
        self.alive.append(tensor)
        emptied = torch.zeros(9)
        emptied.untyped_storage().resize_(0)
        del emptied

    def grow(self) -> None:
        tensor = self.any().detach().reshape(-1)
        self.alive.append(torch.cat([tensor[:500], torch.ones(5)]))

    def rebind(self) -> None:
        fresh = torch.ones(self.random.randrange(1, 20))
        fresh.set_(torch.zeros(self.random.randrange(1, 20)))
        self.alive.append(fresh)
        other = torch.ones(4)
        other.data = torch.zeros(self.random.randrange(9))
        self.alive.append(other)

    def compute(self) -> None:
        with torch.no_grad():
            self.alive.append((torch.rand(8, 8) @ torch.rand(8, 8)).relu_())

    def wrap(self) -> None:
        array = np.ones(self.random.randrange(1, 40), dtype=np.float32)
        self.alive.append(torch.from_numpy(array))

    def share(self) -> None:
        self.any().untyped_storage().share_memory_()

    def drop(self) -> None:
        if self.alive:
            self.alive.pop(self.random.randrange(len(self.alive)))


def test_random_life_in_one_thread(arbiter: Arbiter) -> None:
    worker = Worker(1)
    for turn in range(60):
        worker.turn(100)
        if turn % 3 == 0:
            arbiter.step()
        check(worker.alive)
    worker.alive.clear()
    check([])


def test_random_life_in_many_threads(arbiter: Arbiter) -> None:
    workers = [Worker(seed) for seed in range(4)]
    for _ in range(8):
        with ThreadPoolExecutor(len(workers)) as pool:
            running = [pool.submit(worker.turn, 400) for worker in workers]
            while not all(future.done() for future in running):
                assert _core.consistent()
                arbiter.step()
            for future in running:
                future.result()
        check([t for worker in workers for t in worker.alive])
    # What one thread made may die in another.
    for worker in workers:
        worker.alive.clear()
    check([])


def test_totals_follow_births_and_deaths(arbiter: Arbiter) -> None:
    first = torch.empty(1000)
    second = torch.empty(500)
    totals = _core.totals()
    assert (totals["births"], totals["deaths"]) == (2, 0)
    assert totals["peak_bytes"] == totals["live_bytes"] == 6000
    del second
    totals = _core.totals()
    assert (totals["births"], totals["deaths"]) == (2, 1)
    assert (totals["live_bytes"], totals["peak_bytes"]) == (4000, 6000)
    assert (totals["live_count"], totals["tensors"]) == (1, 1)
    del first
    assert _core.totals()["live_count"] == 0


def test_memory_from_before_is_not_counted() -> None:
    old = torch.empty(100)
    with impactarbiter.watch(step="manual") as arbiter:
        view = old[:10]
        arbiter.step()
        assert row_of(view) is None
        old.resize_(5000)  # by the allocator that it was made with
        fresh = torch.empty(7)
        arbiter.step()
        check([fresh])
        del old, view
        check([fresh])


def test_memory_of_an_earlier_watch_is_not_counted() -> None:
    with impactarbiter.watch(step="manual"):
        old = torch.empty(100)
    with impactarbiter.watch(step="manual") as arbiter:
        view = old[:10]
        arbiter.step()
        check([])
        old.resize_(5000)  # by our allocator: a birth like any other
        arbiter.step()
        check([view])


def test_what_only_autograd_holds_is_counted(arbiter: Arbiter) -> None:
    weight = torch.ones(50, requires_grad=True)
    product = (weight + weight).exp().sin()  # sin() saves what exp() made
    assert _core.totals()["live_bytes"] == 3 * 200
    product.sum().backward()
    check([weight, weight.grad, product])


def test_a_new_watch_starts_empty(arbiter: Arbiter) -> None:
    kept = torch.ones(10)
    arbiter.step()
    arbiter.stop()
    with impactarbiter.watch(step="manual"):
        assert len(_core.rows()) == 0
        assert _core.totals()["generation"] == 0
        assert _core.totals()["peak_bytes"] == 0
        del kept  # its birth was in the other book
        check([])
        assert _core.totals()["deaths"] == 0


# -- storages that only the tensor hook sees --------------------------------


def from_numpy(_: Path) -> torch.Tensor:
    return torch.from_numpy(np.ones(100, dtype=np.float32))


def from_buffer(_: Path) -> torch.Tensor:
    return torch.frombuffer(bytearray(400), dtype=torch.float32)


def in_shared_memory(_: Path) -> torch.Tensor:
    return torch.ones(100).share_memory_()


def mapped(folder: Path) -> torch.Tensor:
    path = folder / "weights.pt"
    torch.save(torch.ones(100), path)
    return torch.load(path, mmap=True)


def without_data(_: Path) -> torch.Tensor:
    return torch.empty(100, device="meta")


UNSEEN = [from_numpy, from_buffer, in_shared_memory, mapped, without_data]


@pytest.mark.parametrize("make", UNSEEN)
def test_unseen_by_the_allocator(
    make: Callable[[Path], torch.Tensor], arbiter: Arbiter, tmp_path: Path
) -> None:
    arbiter.step()
    tensor = make(tmp_path)
    arbiter.step()
    arbiter.step()
    row = row_of(tensor)
    assert row is not None
    assert row["bytes"] == tensor.untyped_storage().nbytes() >= 400
    assert row["generation"] == 1
    assert source_of(tensor)[0] == __file__
    assert source_of(tensor)[2] == make.__name__
    view = tensor[:5]
    del tensor
    assert row_of(view) is not None
    del view
    gc.collect()
    arbiter.step()
    check([])


@pytest.mark.parametrize("make", UNSEEN)
def test_unseen_in_thousands(
    make: Callable[[Path], torch.Tensor], arbiter: Arbiter, tmp_path: Path
) -> None:
    kept = [make(tmp_path) for _ in range(50)]
    gc.collect()
    check(kept)
    del kept[::2]
    gc.collect()
    check(kept)
    kept += [make(tmp_path) for _ in range(50)]
    gc.collect()
    check(kept)


def test_storages_that_python_makes_are_seen(arbiter: Arbiter) -> None:
    old = torch.arange(100.0)
    copies = [
        copy.deepcopy(old),
        copy.deepcopy({"weight": old})["weight"],
        torch.empty(0).set_(old.untyped_storage().clone()),
        torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage(300)),
    ]
    check([old, *copies])
    source = source_of(copies[0])
    assert source[0] == __file__ and not source[3]
    copies[-1].untyped_storage().resize_(4000)
    check([old, *copies])
    row = row_of(copies[-1])
    assert row is not None and row["bytes"] == 4000
    del copies[:]
    check([old])


def test_classes_of_storages_are_as_before_after_a_watch() -> None:
    kept = torch.UntypedStorage(100)
    with impactarbiter.watch(step="manual"):
        watched = torch.UntypedStorage(100)

        class Ours(torch.UntypedStorage):
            pass

        made = [Ours(100), watched]
    assert [len(s) for s in (kept, Ours(64), *made)] == [100, 64, 100, 100]
    made[0].resize_(200)
    with impactarbiter.watch(step="manual"):
        assert len(Ours(300)) == 300


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_shared_a_step_after_birth(strategy: str, arbiter: Arbiter) -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    tensor = torch.ones(100)
    arbiter.step()
    born = row_of(tensor)
    torch.multiprocessing.set_sharing_strategy(strategy)
    try:
        tensor.share_memory_()
        tensor.share_memory_()
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    arbiter.step()
    check([tensor])
    moved = row_of(tensor)
    assert born is not None and moved is not None
    for what in ("site", "stack", "generation", "bytes"):
        assert moved[what] == born[what]
    assert _core.totals()["deaths"] == 0
    view = tensor[:10]
    del tensor
    check([view])
    del view
    arbiter.step()
    check([])


def test_what_cannot_be_shared_stays(arbiter: Arbiter) -> None:
    meta = torch.empty(100, device="meta")
    tensor = torch.ones(100)
    arbiter.step()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        for each in (meta, tensor):
            with pytest.raises(RuntimeError):
                torch._C.StorageBase._share_fd_cpu_(each.untyped_storage())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    check([meta, tensor])
    del meta, tensor, each
    arbiter.step()
    check([])


def test_shared_without_a_watch() -> None:
    with impactarbiter.watch(step="manual"):
        tensor = torch.ones(100)
    tensor.share_memory_()
    assert tensor.is_shared()
    with impactarbiter.watch(step="manual") as arbiter:
        tensor = torch.ones(100)
        arbiter.step()
        old = torch.ones(100)
        old.share_memory_()
        arbiter.step()
        check([tensor, old])


def test_devices_have_totals_of_their_own(arbiter: Arbiter) -> None:
    on_cpu, on_meta = torch.empty(10), torch.empty(100, device="meta")
    _core.refresh()
    assert _core.totals()["devices"] == {"cpu": (40, 40), "meta": (400, 400)}
    assert row_of(on_meta)["device"] != row_of(on_cpu)["device"] == 0
    del on_meta
    _core.refresh()
    assert _core.totals()["devices"] == {"cpu": (40, 40), "meta": (0, 400)}


# -- allowed blocks ---------------------------------------------------------


def test_storages_born_inside_allow(arbiter: Arbiter) -> None:
    before = torch.empty(10)
    with impactarbiter.allow("cache"):
        inside = torch.empty(20)
        with impactarbiter.allow("another"):
            nested = torch.empty(30)
        again = torch.empty(40)
    after = torch.empty(50)
    labels = [
        row_of(t)["allowed"] for t in (before, inside, nested, again, after)
    ]
    assert labels[0] == labels[4] == 0
    assert labels[1] == labels[3] != 0
    assert labels[2] not in (0, labels[1])
    assert _core.totals()["allowed_bytes"] == 4 * (20 + 30 + 40)
    del nested
    assert _core.totals()["allowed_bytes"] == 4 * (20 + 40)


def test_allow_ends_with_an_exception(arbiter: Arbiter) -> None:
    with pytest.raises(KeyError), impactarbiter.allow("cache"):
        raise KeyError
    tensor = torch.empty(1)
    assert row_of(tensor)["allowed"] == 0


def test_allow_is_of_its_thread(arbiter: Arbiter) -> None:
    made = []
    with impactarbiter.allow("cache"):
        thread = threading.Thread(target=lambda: made.append(torch.empty(9)))
        thread.start()
        thread.join()
    assert row_of(made[0])["allowed"] == 0


def test_allowed_though_noticed_late(arbiter: Arbiter) -> None:
    with impactarbiter.allow("cache"):
        inside = torch.from_numpy(np.ones(10))
    outside = torch.from_numpy(np.ones(10))
    step_until_noticed(arbiter, inside, outside)
    assert row_of(inside)["allowed"] != 0
    assert row_of(outside)["allowed"] == 0


def test_noticed_inside_allow_but_born_before(arbiter: Arbiter) -> None:
    tensor = torch.from_numpy(np.ones(10))
    with impactarbiter.allow("cache"):
        arbiter.step()
    assert row_of(tensor)["allowed"] == 0


# -- sites ------------------------------------------------------------------


def line_of(code: CodeType, text: str) -> int:
    """Number of the line in code's file, from its start on, with text."""
    lines = Path(code.co_filename).read_text().splitlines()
    start = code.co_firstlineno - 1
    return next(
        i for i, line in enumerate(lines[start:], start + 1) if text in line
    )


class Maker:
    def method(self) -> torch.Tensor:
        pass
        return torch.empty(4)  # in the method

    @property
    def value(self) -> torch.Tensor:
        return torch.empty(4)  # in the property


def plain() -> torch.Tensor:
    x = 1
    x += 1
    return torch.empty(x)  # in a function


def test_site_of_functions_and_methods(arbiter: Arbiter) -> None:
    cases = [
        (plain(), plain.__code__, "# in a function", "plain"),
        (
            Maker().method(),
            Maker.method.__code__,
            "# in the method",
            "Maker.method",
        ),
        (
            Maker().value,
            Maker.value.fget.__code__,  # type: ignore[attr-defined]
            "# in the property",
            "Maker.value",
        ),
    ]
    for tensor, code, text, function in cases:
        expected = (__file__, line_of(code, text), function, False)
        assert source_of(tensor) == expected


def test_site_of_a_lambda(arbiter: Arbiter) -> None:
    make = lambda: torch.empty(4)  # noqa: E731
    line = make.__code__.co_firstlineno
    assert source_of(make()) == (__file__, line, make.__qualname__, False)


def test_site_of_a_comprehension(arbiter: Arbiter) -> None:
    made = [
        torch.empty(i)  # in the comprehension
        for i in range(1, 5)
    ]
    code = sys._getframe().f_code
    sites = {source_of(t) for t in made}
    assert len(sites) == 1
    file, line, function, _ = sites.pop()
    here = line_of(code, "torch.empty(i)  # in the comprehension")
    assert (file, line) == (__file__, here)
    name = code.co_qualname
    if sys.version_info < (3, 12):
        name += ".<locals>.<listcomp>"
    assert function == name


def test_site_of_a_generator(arbiter: Arbiter) -> None:
    def generate() -> Iterator[torch.Tensor]:
        yield torch.empty(4)  # first yield
        yield torch.empty(4)  # second yield

    first, second = generate()
    code = generate.__code__
    assert source_of(first)[1] == line_of(code, "# first yield")
    assert source_of(second)[1] == line_of(code, "# second yield")
    assert source_of(second)[2] == generate.__qualname__


def test_site_of_a_call_over_several_lines(arbiter: Arbiter) -> None:
    tensor = torch.cat(
        [
            torch.ones(3),
            torch.ones(4),
        ]
    )
    code = sys._getframe().f_code
    assert source_of(tensor)[1] == line_of(code, "tensor = torch.cat(")


def test_site_in_a_thread(arbiter: Arbiter) -> None:
    made = []

    def work() -> None:
        made.append(torch.empty(4))  # in the thread

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    line = line_of(work.__code__, "# in the thread")
    assert source_of(made[0]) == (__file__, line, work.__qualname__, False)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("made_by_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["grün", "模型", "модель", "\U0001f525"])
def test_site_in_a_file_of_any_name(
    name: str, arbiter: Arbiter, tmp_path: Path
) -> None:
    path = tmp_path / name / f"{name}.py"
    path.parent.mkdir()
    path.write_text(
        "import torch\n\ndef größe():\n    return torch.empty(7)\n"
    )
    expected = (str(path), 4, "größe", False)
    assert source_of(load(path).größe()) == expected


def test_site_in_a_file_whose_name_is_no_text(arbiter: Arbiter) -> None:
    name = "/made/na\udcffme.py"
    space: dict[str, Any] = {"torch": torch}
    exec(compile("t = torch.empty(3)", name, "exec"), space)
    file, line, function, library = source_of(space["t"])
    assert file == name
    assert (line, function, library) == (1, "<module>", False)


def test_site_of_executed_code(arbiter: Arbiter) -> None:
    space: dict[str, Any] = {"torch": torch}
    exec("\n\nt = torch.empty(3)", space)
    assert source_of(space["t"]) == ("<string>", 3, "<module>", False)


def test_generated_code_is_not_the_users(arbiter: Arbiter) -> None:
    space: dict[str, Any] = {"torch": torch}
    code = compile("t = torch.empty(3)", "<made by a library>", "exec")
    exec(code, space)
    here = sys._getframe().f_code
    assert source_of(space["t"])[:2] == (
        __file__,
        line_of(here, "exec(code, space)"),
    )


def test_site_is_outside_torch(arbiter: Arbiter) -> None:
    layer = torch.nn.Linear(3, 3)
    code = sys._getframe().f_code
    line = line_of(code, "torch.nn.Linear(3, 3)")
    expected = (__file__, line, code.co_qualname, False)
    assert source_of(layer.weight) == source_of(layer.bias) == expected


def test_every_live_storage_has_a_site(arbiter: Arbiter) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    model(torch.ones(2, 4)).sum().backward()
    rows = live()
    assert rows
    for row in rows.values():
        assert _core.site_source(int(row["site"])) is not None


def test_one_site_for_many_stacks(arbiter: Arbiter) -> None:
    def one() -> torch.Tensor:
        return plain()

    def two() -> torch.Tensor:
        return plain()

    first, second = row_of(kept := one()), row_of(other := two())
    assert first["site"] == second["site"]
    assert first["stack"] != second["stack"]
    assert kept is not other


@pytest.mark.parametrize("shift", [0, 1])
def test_code_at_a_reused_address(shift: int, arbiter: Arbiter) -> None:
    """Cells of a notebook: each is compiled, run and freed."""
    for i in range(200):
        file = f"/cells/cell_{i:03}.py"
        text = "\n" * (i * shift) + "t = torch.empty(3)"
        space: dict[str, Any] = {"torch": torch}
        exec(compile(text, file, "exec"), space)
        assert source_of(space["t"])[:2] == (file, i * shift + 1)


# -- stacks -----------------------------------------------------------------


def stack_of(tensor: torch.Tensor) -> list[tuple[str, int, str, bool]]:
    return _core.stack_frames(int(row_of(tensor)["stack"]))


def python_stack() -> list[tuple[str, int, str]]:
    frames = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        frames.append((code.co_filename, frame.f_lineno, code.co_qualname))
        frame = frame.f_back  # type: ignore[assignment]
    return frames


def kept_of(frames: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """A line that the stack comes back to is kept once, the innermost."""
    return list(dict.fromkeys(frames[:96]))


def test_stack_is_the_whole_call_chain(arbiter: Arbiter) -> None:
    def inner() -> tuple[torch.Tensor, list[tuple[str, int, str]]]:
        return torch.empty(5), python_stack()

    def outer() -> tuple[torch.Tensor, list[tuple[str, int, str]]]:
        return inner()

    tensor, expected = outer()
    assert [frame[:3] for frame in stack_of(tensor)] == kept_of(expected)


def test_stack_of_a_call_through_a_library(arbiter: Arbiter) -> None:
    seen: list[list[tuple[str, int, str]]] = []

    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(python_stack())
            return torch.nn.functional.relu(x)

    model = torch.nn.Sequential(torch.nn.Sequential(Layer()))
    tensor = model(torch.ones(4))
    stack = stack_of(tensor)
    # relu() in torch, then the layer's line, then torch's frames, then ours.
    assert stack[0][2] == "relu" and stack[0][3]
    assert stack[1][2] == Layer.forward.__qualname__ and not stack[1][3]
    assert stack[1][1] == seen[0][0][1] + 1
    assert [frame[:3] for frame in stack[2:]] == kept_of(seen[0][1:95])
    # Two of them call each other on one line.
    library = [frame[2] for frame in stack if frame[3]]
    assert library.count("Sequential.forward") == 1
    assert source_of(tensor) == stack[1]


def test_stack_of_a_deep_recursion(arbiter: Arbiter) -> None:
    def dive(depth: int) -> torch.Tensor:
        return dive(depth - 1) if depth else torch.empty(5)

    tensor = dive(300)
    stack = stack_of(tensor)
    assert [frame[2] for frame in stack] == [dive.__qualname__]
    assert source_of(tensor) == stack[0]


def through(lines: list[str], space: dict[str, Any]) -> torch.Tensor:
    """A tensor born behind a call on each of these (file, function)s."""
    space["torch"] = torch
    call = "torch.empty(3)"
    for at, file in enumerate(lines):
        text = f"def f{at}(): return {call}"
        exec(compile(text, file, "exec"), space)
        call = f"f{at}()"
    tensor: torch.Tensor = eval(call, space)
    return tensor


def test_of_a_long_stack_the_users_lines_are_kept(arbiter: Arbiter) -> None:
    """Innermost 10 of a library, 20 of the user, 40 of a library."""
    library = torch.__file__
    files = [library] * 10 + ["/user/code.py"] * 20 + [library] * 40
    stack = stack_of(through(files, {}))
    assert len(stack) == 48
    users = [frame[2] for frame in stack if not frame[3]]
    assert users[:20] == [f"f{at}" for at in range(10, 30)]
    # The libraries' farthest from the user's line went first: it is f10.
    kept = [int(f[2][1:]) for f in stack if f[3] and f[2][0] == "f"]
    assert kept == [*range(10), *range(30, 30 + len(kept) - 10)]


def test_unknown_numbers_have_no_source() -> None:
    assert _core.site_source(0) is None
    assert _core.site_source(2**32 - 1) is None
    assert _core.stack_frames(2**32 - 1) == []


# -- the snapshot -----------------------------------------------------------

DTYPE = np.dtype(
    [
        ("address", "u8"),
        ("bytes", "u8"),
        ("site", "u8"),
        ("stack", "u8"),
        ("generation", "u4"),
        ("device", "u2"),
        ("allowed", "u2"),
    ]
)


def test_snapshot_is_a_structured_array(arbiter: Arbiter) -> None:
    assert _core.rows().dtype == DTYPE
    assert _core.rows().shape == (0,)
    tensors = [torch.empty(i + 1) for i in range(1000)]
    rows = _core.rows()
    assert rows.dtype == DTYPE and rows.shape == (1000,)
    addresses = {t.data_ptr() for t in tensors}
    assert set(rows["address"].tolist()) == addresses
    assert rows["bytes"].sum() == _core.totals()["live_bytes"]
    assert set(rows["site"].tolist()) == {int(rows["site"][0])}


def test_snapshot_is_a_copy(arbiter: Arbiter) -> None:
    tensor = torch.empty(8)
    rows = _core.rows()
    before = rows.copy()
    rows["bytes"] = 0
    assert _core.consistent() and row_of(tensor)["bytes"] == 32
    del tensor
    arbiter.stop()
    assert before["bytes"].tolist() == [32]


# -- the ledger alone, on made-up events ------------------------------------


def born_here(key: int, size: int, device: int) -> None:
    _core._born(key, size, device)


def born_there(key: int, size: int, device: int) -> None:
    _core._born(key, size, device)


def born_elsewhere(key: int, size: int, device: int) -> None:
    _core._born(key, size, device)


BIRTHS = [born_here, born_there, born_elsewhere]
#: Few, so that they are used again, also while the ledger has them alive.
KEYS = st.integers(1, 40).map(lambda i: 0x7F0000000000 + 64 * i)
SIZES = st.integers(0, 2**40)
DEVICES = st.sampled_from([0, 1 << 8, 1 << 8 | 1, 14 << 8])
DEVICE_NAMES = {0: "cpu", 1 << 8: "cuda:0", 1 << 8 | 1: "cuda:1"}


class LedgerMachine(RuleBasedStateMachine):
    """key -> (bytes, function, generation, device, allowed)"""

    @initialize(warmup=st.integers(0, 3))
    def start(self, warmup: int) -> None:
        _core.set_allowed(0)
        _core.start(manual=True, warmup=warmup, window=2)
        self.model: dict[int, tuple[int, str, int, int, int]] = {}
        self.generation = self.births = self.deaths = self.label = 0
        self.peak: Counter[int] = Counter()
        self.top = 0

    @rule(key=KEYS, size=SIZES, device=DEVICES, i=st.integers(0, 2))
    def birth(self, key: int, size: int, device: int, i: int) -> None:
        BIRTHS[i](key, size, device)
        self.births += 1
        self.deaths += key in self.model  # a death that was not seen
        self.model[key] = (
            size,
            BIRTHS[i].__name__,
            self.generation,
            device,
            self.label,
        )
        self.peak[device] = max(self.peak[device], self.bytes_of(device))
        self.top = max(self.top, self.bytes_of())

    @rule(key=KEYS)
    def death(self, key: int) -> None:
        _core._died(key)
        self.deaths += self.model.pop(key, None) is not None

    @rule()
    def step(self) -> None:
        _core.step()
        self.generation += 1

    @rule(label=st.sampled_from([0, 0, 1, 7]))
    def allow(self, label: int) -> None:
        assert _core.set_allowed(label) == self.label
        self.label = label

    def bytes_of(self, device: int | None = None) -> int:
        return sum(
            row[0]
            for row in self.model.values()
            if device is None or row[3] == device
        )

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        found = {}
        for row in _core.rows():
            source = _core.site_source(int(row["site"]))
            found[int(row["address"])] = (
                int(row["bytes"]),
                source[2],
                int(row["generation"]),
                int(row["device"]),
                int(row["allowed"]),
            )
        assert found == self.model

    @invariant()
    def totals_are_exact(self) -> None:
        totals = _core.totals()
        assert _core.consistent()
        assert totals["live_bytes"] == self.bytes_of()
        assert totals["peak_bytes"] == self.top
        assert totals["live_count"] == len(self.model)
        assert totals["generation"] == self.generation
        assert (totals["births"], totals["deaths"]) == (
            self.births,
            self.deaths,
        )
        assert totals["allowed_bytes"] == sum(
            row[0] for row in self.model.values() if row[4]
        )
        assert totals["lost"] == totals["tensors"] == 0

    @invariant()
    def devices_are_exact(self) -> None:
        devices = _core.totals()["devices"]
        assert len(devices) == len(self.peak)
        for device, peak in self.peak.items():
            name = DEVICE_NAMES.get(device, "meta")
            assert devices[name] == (self.bytes_of(device), peak)

    def teardown(self) -> None:
        _core.set_allowed(0)
        _core.stop()


def test_ledger_against_a_model() -> None:
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def ledger() -> Iterator[None]:
    _core.start(manual=True, warmup=2, window=2)
    yield
    _core.stop()


def test_deaths_go_on_after_stop(ledger: None) -> None:
    born_here(64, 100, 0)
    born_here(128, 50, 0)
    _core.stop()
    born_here(192, 10, 0)  # not any more
    _core._died(64)
    assert _core.rows()["address"].tolist() == [128]
    assert _core.totals()["live_bytes"] == 50
    assert _core.consistent()


def test_what_is_young_is_in_every_answer(arbiter: Arbiter) -> None:
    def make() -> list[torch.Tensor]:
        return [torch.ones(1 + i % 7) for i in range(700)]

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make).result()
    born = _core.totals()
    assert (born["births"], born["deaths"]) == (700, 0)
    assert born["live_bytes"] == born["peak_bytes"] == 700 * 16
    del made[::2]  # on another thread
    made[0].resize_(5000)
    check(made)
    made += make()
    made[-1].untyped_storage().resize_(40)
    made[-2].untyped_storage().share_memory_()
    arbiter.stop()
    with impactarbiter.watch(step="manual") as another:
        fresh = make()
        made.clear()
        another.step()
        check(fresh)


def test_births_in_many_threads(ledger: None) -> None:
    def work(first: int) -> None:
        for i in range(4000):
            born_here(first + 64 * i, i, 0)
            if i % 3:
                _core._died(first + 64 * (i - i % 7))

    starts = [(n + 1) << 32 for n in range(4)]
    with ThreadPoolExecutor(len(starts)) as pool:
        running = [pool.submit(work, first) for first in starts]
        while not all(future.done() for future in running):
            _core.step()
            assert _core.consistent()
        for future in running:
            future.result()
    expected = {}
    for i in range(4000):
        expected[i] = i
        if i % 3:
            expected.pop(i - i % 7, None)
    wanted = {first + 64 * i: i for first in starts for i in expected}
    rows = _core.rows()
    found = zip(rows["address"].tolist(), rows["bytes"].tolist(), strict=True)
    assert dict(found) == wanted
    assert _core.consistent()


def test_arguments_that_are_none_raise() -> None:
    for call in (
        lambda: _core.start(every=0),
        lambda: _core.start(window=1),
    ):
        with pytest.raises(ValueError, match="every must be at least 1"):
            call()
    with pytest.raises(TypeError):
        _core._born("address", 1)
    with pytest.raises(TypeError):
        _core.site_source("one")
    assert not _core.is_active()
