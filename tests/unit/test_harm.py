"""First do no harm: hooks come and go, and the program stays what it was."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
import warm
from torch.autograd import Variable
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, Dataset

import impactarbiter
from impactarbiter import _core, _torch
from impactarbiter.core import hooks
from impactarbiter.judging.diagnostician import Diagnostician
from impactarbiter.model.report import Report
from impactarbiter.reports.first_line import alarming
from impactarbiter.reports.outputs import UNJUDGED, gate
from impactarbiter.watching.arbiter import current

needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="there is no fork here"
)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    before = State()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # or tiny matrices wait for busy cores
    yield
    torch.set_num_threads(threads)
    left, after = current(), State()
    if left is not None:
        left.stop()
    if after != before:  # lest every test that follows fails too
        _core.stop()
        _torch.uninstall()
        gc.callbacks[:] = before.collector
        optimizers._global_optimizer_post_hooks.clear()
    assert left is None, "the test left an arbiter behind"
    assert after == before


# -- what the hooks touch ----------------------------------------------------

#: From tp_dealloc (48) to tp_new (312), but for tp_flags and tp_dict, which
#: change by themselves.
SLOTS = [
    offset
    for offset in range(48, 320, ctypes.sizeof(ctypes.c_void_p))
    if offset not in (168, 264)
]


#: Those that hold one function in all classes: tp_dealloc, tp_call,
#: tp_getattro, tp_setattro, tp_traverse, tp_clear, tp_init, tp_alloc, tp_new.
SHARED = [48, 128, 144, 152, 184, 192, 296, 304, 312]


def slots(cls: type, offsets: list[int] = SLOTS) -> tuple[int, ...]:
    return tuple(
        ctypes.c_void_p.from_address(id(cls) + offset).value or 0
        for offset in offsets
    )


def classes(base: type) -> list[type]:
    found = [base]
    for cls in found:
        found += [c for c in type.__subclasses__(cls) if c not in found]
    return found


class State:
    """Everything in the process that a hook may sit in."""

    def __init__(self) -> None:
        bases = (
            torch._C.TensorBase,
            torch._C.StorageBase,
            torch.nn.Module,
            torch.optim.Optimizer,
        )
        self.slots = {
            cls: slots(cls) for base in bases for cls in classes(base)
        }
        self.engine = Variable._execution_engine
        self.collector = list(gc.callbacks)
        self.hooks = [
            dict(optimizers._global_optimizer_post_hooks),
            dict(optimizers._global_optimizer_pre_hooks),
            dict(torch.nn.modules.module._global_forward_hooks),
            dict(torch.nn.modules.module._global_forward_pre_hooks),
        ]
        self.installed = _torch.installed()
        self.active = _core.is_active()
        self.call = torch.nn.Module.__call__
        self.tracing = (sys.gettrace(), sys.getprofile())
        self.threads = threading.active_count()

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, State)
        both = self.slots.keys() & other.slots.keys()
        return all(self.slots[c] == other.slots[c] for c in both) and all(
            value == other.__dict__[name]
            for name, value in self.__dict__.items()
            if name != "slots"
        )

    __hash__ = None  # type: ignore[assignment]


def test_hooks_come_with_watch_and_go_with_stop() -> None:
    before = State()
    assert not any(before.installed.values()) and not before.active
    arbiter = impactarbiter.watch()
    during = State()
    assert all(during.installed.values()) and during.active
    for cls in (torch._C.TensorBase, torch.Tensor, torch.nn.Parameter):
        assert during.slots[cls] != before.slots[cls]
    assert during.engine is not before.engine
    assert len(during.collector) == len(before.collector) + 1
    assert during.hooks != before.hooks
    arbiter.stop()
    assert Variable._execution_engine is before.engine
    assert State() == before


def test_hooks_go_at_the_end_of_with_also_by_an_exception() -> None:
    before = State()
    with pytest.raises(KeyError, match="mine"), impactarbiter.watch():
        raise KeyError("mine")
    assert State() == before


@pytest.mark.parametrize("left", [None, ()])
def test_a_program_without_callbacks_of_the_collector(
    left: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(gc, "callbacks")
    with impactarbiter.watch(step="manual") as arbiter:
        monkeypatch.setattr(gc, "callbacks", left, raising=False)
        arbiter.step()
    assert arbiter.report().steps == 1


def test_births_are_seen_while_watching_only() -> None:
    arbiter = impactarbiter.watch(step="manual")
    kept = [torch.ones(5)]
    births = _core.totals()["births"]
    assert births > 0
    arbiter.stop()
    kept += [torch.ones(5) for _ in range(10)]
    assert _core.totals()["births"] == births


def test_watching_again_and_again() -> None:
    before = State()
    tensors = []
    for i in range(12):
        with impactarbiter.watch() as arbiter:
            tensors.append(torch.full((100,), float(i)))
            arbiter.step()
            assert all(_torch.installed().values())
        assert State() == before
        tensors.append(torch.full((100,), float(i)))
        del tensors[: i % 3]
    assert all((t == t[0]).all() for t in tensors)


def test_a_second_watch_is_refused() -> None:
    first = impactarbiter.watch()
    during = State()
    with pytest.raises(RuntimeError, match="watching already"):
        impactarbiter.watch()
    assert State() == during
    first.stop()
    impactarbiter.watch().stop()


def test_a_watch_that_nobody_has_can_be_ended() -> None:
    impactarbiter.watch()
    with pytest.raises(RuntimeError) as refused:
        impactarbiter.watch()
    ends = str(refused.value).rpartition(": ")[2]
    assert ends == "impactarbiter.watching.arbiter.current().stop()"
    eval(ends)
    impactarbiter.watch().stop()


@pytest.mark.parametrize(
    "options",
    [
        {"every": 0},
        {"warmup": -1},
        {"window": 1},
        {"step": "sometimes"},
        {"on_finding": 7},
        {"memory_limit": 0},
        {"allow": (7,)},
    ],
)
def test_wrong_options_leave_no_hook(options: dict[str, Any]) -> None:
    before = State()
    with pytest.raises(impactarbiter.UsageError):
        impactarbiter.watch(**options)
    assert State() == before


def test_a_watch_that_fails_leaves_no_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = State()

    def refuse(_: object) -> None:
        raise RuntimeError("torch refused")

    with monkeypatch.context() as patch:
        patch.setattr(optimizers, "register_optimizer_step_post_hook", refuse)
        with pytest.raises(RuntimeError, match="torch refused"):
            impactarbiter.watch()
    assert State() == before
    impactarbiter.watch().stop()


def test_an_engine_of_somebody_else_stays() -> None:
    """Put over ours: it stays, and what it passes on still works."""

    class Theirs:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    original = Variable._execution_engine
    arbiter = impactarbiter.watch()
    theirs = Theirs(Variable._execution_engine)
    Variable._execution_engine = theirs
    try:
        arbiter.stop()
        assert Variable._execution_engine is theirs
        weight = torch.ones(3, requires_grad=True)
        (weight * 2).sum().backward()
        assert weight.grad is not None
        assert weight.grad.tolist() == [2, 2, 2]
    finally:
        Variable._execution_engine = original


def test_report_and_stop_are_idempotent() -> None:
    arbiter = impactarbiter.watch(step="manual")
    kept = []
    for _ in range(12):
        kept.append(torch.ones(10))
        arbiter.step()
    first, second = arbiter.report(), arbiter.report()
    assert first.steps == second.steps == 12
    assert first.live_bytes == second.live_bytes
    assert [f.signature for f in first.findings] == [
        f.signature for f in second.findings
    ]
    stopped = arbiter.stop()
    assert arbiter.stop() is stopped
    assert arbiter.report() is stopped
    assert stopped.steps == 12
    arbiter.step()  # nothing to end any more
    assert arbiter.report() is stopped


def test_stop_of_an_old_arbiter_leaves_the_new_one_alone() -> None:
    old = impactarbiter.watch()
    old.stop()
    new = impactarbiter.watch()
    old.stop()
    assert all(_torch.installed().values()) and _core.is_active()
    new.stop()


# -- memory from either side of a watch --------------------------------------


def test_memory_outlives_the_watch() -> None:
    with impactarbiter.watch():
        kept = [torch.full((i + 1,), 7.0) for i in range(500)]
        weight = torch.ones(50, requires_grad=True)
        loss = weight.exp().sum()
        shared = torch.ones(20).share_memory_()
    del kept[::2]
    kept[0].resize_(10_000).fill_(1)
    kept[1].untyped_storage().resize_(80_000)
    assert all((t == 7).all() for t in kept[2:])
    loss.backward()
    assert weight.grad is not None
    del weight, loss, shared
    kept.clear()
    gc.collect()
    assert torch.ones(10_000).sum() == 10_000


def test_memory_is_older_than_the_watch() -> None:
    kept = [torch.full((i + 1,), 7.0) for i in range(500)]
    with impactarbiter.watch(step="manual") as arbiter:
        del kept[::2]
        kept[0].resize_(10_000).fill_(1)
        kept[1].untyped_storage().resize_(80_000)
        arbiter.step()
        assert all((t == 7).all() for t in kept[2:])
        kept.clear()
        assert _core.totals()["live_bytes"] == 0
        assert _core.consistent()


def test_memory_of_one_watch_dies_in_the_next() -> None:
    with impactarbiter.watch():
        kept = [torch.ones(i + 1) for i in range(200)]
    with impactarbiter.watch():
        mine = torch.ones(10)
        kept.clear()
        totals = _core.totals()
        assert (totals["live_bytes"], totals["deaths"]) == (40, 0)
        assert _core.consistent()
        del mine


def test_a_class_of_tensors_created_meanwhile() -> None:
    class Before(torch.Tensor):
        pass

    with impactarbiter.watch(step="manual") as arbiter:

        class Meanwhile(torch.Tensor):
            pass

        for cls in (Before, Meanwhile):
            made = [torch.ones(3).as_subclass(cls) for _ in range(200)]
            arbiter.step()
            made += [made[0] + 1, made[0].clone()]
            assert all(type(t) is cls for t in made)
            arbiter.step()
            assert _core.consistent()
        kept = torch.ones(3).as_subclass(Meanwhile)
        kept.mine = "attribute"  # type: ignore[attr-defined]
    assert slots(Meanwhile, SHARED) == slots(Before, SHARED)
    assert (kept + 1).tolist() == [2, 2, 2]
    seen = weakref.ref(kept)
    del kept
    assert seen() is None


def test_a_class_of_modules_created_meanwhile() -> None:
    class Before(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with impactarbiter.watch() as arbiter:

        class Meanwhile(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + 1

        for _ in range(200):
            assert Before()(torch.ones(1)) == Meanwhile()(torch.ones(1))
        _torch.rescan()
        arbiter.step()
    assert slots(Meanwhile, SHARED) == slots(Before, SHARED)
    assert Meanwhile()(torch.ones(1)) == 2


def test_the_collector_may_run_at_any_allocation() -> None:
    threshold = gc.get_threshold()
    code = """if True:
        import gc, torch, impactarbiter
        arbiter = impactarbiter.watch(step="manual")
        gc.set_threshold(1, 1, 1)
        for i in range(300):
            kept = [[torch.ones(1)] for _ in range(5)]
            class Tensor(torch.Tensor): pass
            kept.append(torch.ones(1).as_subclass(Tensor))
            arbiter.step()
        arbiter.stop()
        print("done")
    """
    assert run(code).stdout == "done\n"
    assert gc.get_threshold() == threshold


# -- threads ------------------------------------------------------------------


def test_threads_allocate_while_watches_come_and_go() -> None:
    stop = threading.Event()

    def work(seed: int) -> int:
        chance, kept, turns = random.Random(seed), [], 0
        while not stop.is_set():
            value = float(chance.randrange(1000))
            kept.append(torch.full((chance.randrange(1, 2000),), value))
            weight = kept[-1].clone().requires_grad_()
            (weight * weight).sum().backward()
            assert torch.equal(weight.grad, 2 * kept[-1])
            if len(kept) > 50:
                tensor = kept.pop(chance.randrange(len(kept)))
                assert (tensor == tensor[0]).all()
            turns += 1
        return turns

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(work, seed) for seed in range(3)]
        try:
            for _ in range(30):
                with impactarbiter.watch(step="manual") as arbiter:
                    for _ in range(5):
                        torch.ones(10)
                        arbiter.step()
                        assert _core.consistent()
        finally:
            stop.set()
        assert all(future.result() > 0 for future in running)


# -- fork ---------------------------------------------------------------------


def in_child(work: Callable[[], object]) -> int:
    """Exit code of a forked child that does the work; 0 is well done."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # rather a dead child than one that waits for ever
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@needs_fork
@pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="beside a GPU, torch lets no child of a fork go backward",
)
def test_the_child_of_a_fork_is_off() -> None:
    arbiter = impactarbiter.watch(step="manual", warmup=0)
    kept = [torch.ones(100) for _ in range(50)]

    def work() -> None:
        assert not _core.is_active()
        births = _core.totals()["births"]
        del kept[::2]
        mine = [torch.ones(10) for _ in range(100)]
        assert _core.totals()["births"] == births
        weight = torch.ones(10, requires_grad=True)
        (weight * 3).sum().backward()
        torch.optim.SGD([weight], lr=0.1).step()
        assert weight.grad is not None and mine
        arbiter.step()
        assert _core.status()["ticks"] == 1

    arbiter.step()
    assert in_child(work) == 0
    assert _core.is_active() and len(kept) == 50
    assert _core.totals()["live_count"] == 50
    kept.append(torch.ones(100))
    assert _core.totals()["live_count"] == 51 and _core.consistent()
    assert arbiter.stop().steps == 1


@needs_fork
def test_the_child_may_stop_and_watch_anew() -> None:
    arbiter = impactarbiter.watch(step="manual")

    def work() -> None:
        arbiter.stop()
        assert not any(_torch.installed().values())
        with impactarbiter.watch(step="manual"):
            mine = torch.ones(10)
            assert _core.totals()["live_bytes"] == 40
            del mine

    assert in_child(work) == 0
    assert _core.is_active()
    arbiter.stop()


@needs_fork
def test_fork_while_threads_allocate() -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for size in range(1, 300):
                torch.empty(size)

    def child() -> None:
        kept = [torch.ones(i + 1) for i in range(300)]
        kept.clear()
        assert _core.consistent()

    arbiter = impactarbiter.watch(step="manual")
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(work) for _ in range(2)]
        try:
            codes = [in_child(child) for _ in range(20)]
        finally:
            stop.set()
        for future in running:
            future.result()
    assert codes == [0] * 20
    arbiter.stop()


class Squares(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, i: int) -> torch.Tensor:
        assert not _core.is_active()
        return torch.full((50,), float(i * i))


@needs_fork
def test_a_data_loader_with_workers() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        loader = DataLoader(
            Squares(),
            batch_size=4,
            num_workers=2,
            multiprocessing_context="fork",
        )
        batches = []
        for batch in loader:
            batches.append(batch[:, 0].tolist())
            arbiter.step()
        assert _core.is_active()
    assert batches == [
        [float(i * i) for i in range(n, n + 4)] for n in (0, 4, 8, 12)
    ]


# -- errors of our own --------------------------------------------------------


def leaky_training(steps: int = 40) -> list[float]:
    """Keeps each loss, so that there is something to look at."""
    torch.manual_seed(5)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.rand(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        kept.append(loss)
    return [loss.item() for loss in kept]


def failing_look(error: BaseException) -> Callable[..., None]:
    def look(self: Diagnostician, step: int) -> None:
        raise error

    return look


def ours(caught: list[warnings.WarningMessage]) -> list[str]:
    assert all(issubclass(w.category, RuntimeWarning) for w in caught)
    return [str(w.message) for w in caught]


def test_a_failing_look_turns_us_off_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = leaky_training()
    monkeypatch.setattr(
        Diagnostician, "look", failing_look(ValueError("no idea"))
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        arbiter = impactarbiter.watch()
        assert leaky_training() == expected
        assert not _core.is_active()
        assert leaky_training() == expected
        report = arbiter.stop()
    (said,) = ours(caught)
    assert "impactarbiter is off" in said
    assert "ValueError: no idea" in said
    assert any("no idea" in warning for warning in report.warnings)


def test_a_failure_in_a_hook_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        arbiter = impactarbiter.watch()
        expected = leaky_training(5)
        _core._fail("first")
        _core._fail("second")
        assert not _core.is_active()
        assert leaky_training(5) == expected
        report = arbiter.stop()
    (said,) = ours(caught)
    assert "first" in said and "second" not in said
    assert any("first" in warning for warning in report.warnings)


def test_a_failure_in_a_thread_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with impactarbiter.watch(), ThreadPoolExecutor(4) as pool:
            for i in range(8):
                pool.submit(_core._fail, f"failure {i}").result()
    (said,) = ours(caught)
    assert "failure 0" in said


def test_the_next_watch_starts_afresh() -> None:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        with impactarbiter.watch():
            _core._fail("first")
    with impactarbiter.watch(step="manual") as arbiter:
        assert _core.is_active()
    assert arbiter.report().warnings == ()


def test_warnings_as_errors_break_no_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = leaky_training()
    monkeypatch.setattr(
        Diagnostician, "look", failing_look(ValueError("no idea"))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arbiter = impactarbiter.watch()
        assert leaky_training() == expected
        assert not _core.is_active()
        report = arbiter.stop()
    assert any("no idea" in warning for warning in report.warnings)


def test_a_failure_keeps_the_exception_that_is_on_its_way() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with impactarbiter.watch(), pytest.raises(KeyError, match="mine"):
            try:
                raise KeyError("mine")
            finally:
                _core._fail("ours")


def test_on_finding_may_raise() -> None:
    def call(finding: impactarbiter.Finding) -> None:
        raise OSError("disk full")

    expected = leaky_training()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with impactarbiter.watch(on_finding=call) as arbiter:
            assert leaky_training() == expected
            assert _core.is_active()
    assert any("disk full" in text for text in arbiter.report().warnings)


def test_a_report_that_fails_breaks_no_with_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: Diagnostician) -> None:
        raise ValueError("no idea")

    monkeypatch.setattr(Diagnostician, "report", fail)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with impactarbiter.watch(step="manual") as arbiter:
            pass
    (said,) = ours(caught)
    assert "no idea" in said
    assert not any(_torch.installed().values())
    assert any("no idea" in text for text in arbiter.report().warnings)


def fails(self: Diagnostician, *_: object) -> None:
    raise MemoryError


@pytest.mark.parametrize("masked", [False, True])
def test_a_report_that_fails_leaves_what_looks_have_found(
    masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Diagnostician, "report", fails)
    kept = []
    with (
        pytest.warns(RuntimeWarning, match="made: MemoryError$"),
        impactarbiter.watch(step="manual", obfuscate=masked) as arbiter,
    ):
        for _ in range(30):
            kept.append(torch.ones(64))
            arbiter.step()
    report = arbiter.report()
    assert not report.complete and report.steps == 30
    assert len(alarming(report)) == 1
    why = "" if masked else ": MemoryError"
    assert report.warnings[:2] == (
        f"no report could be made{why}",
        "what is found here is what the last look had found",
    )
    assert Report.from_dict(report.to_dict()) == report


def test_a_report_that_cannot_be_made_says_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Diagnostician, "report", fails)
    monkeypatch.setattr(Diagnostician, "glance", fails)
    with pytest.warns(RuntimeWarning), impactarbiter.watch() as arbiter:
        pass
    report = arbiter.report()
    assert str(report).splitlines() == [
        "ImpactArbiter: no report could be made",
        "warning: no report could be made: MemoryError",
    ]
    assert gate(report, "critical") == UNJUDGED


CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def test_a_clock_that_the_program_put_in_place_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test's mock counts its calls, and has so many answers."""
    asked: list[str] = []

    def ask(name: str) -> float:
        asked.append(name)
        return 0.0

    kept: list[torch.Tensor] = []
    with impactarbiter.watch(step="manual") as arbiter:
        for name in (*CLOCKS, "sleep"):
            monkeypatch.setattr(
                time, name, lambda *_, name=name: ask(name)
            )
        for _ in range(60):
            kept.append(torch.ones(1000))
            arbiter.step()
        assert arbiter.report().findings
    monkeypatch.undo()
    assert asked == []


@pytest.mark.parametrize("step", ["auto", "manual"])
def test_an_interrupt_during_a_look_reaches_the_program(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(self: Diagnostician, step: int) -> None:
        looks.append(step)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Diagnostician, "look", look)
    # A job in the background is started with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.collect()  # an optimizer of before: steps would be its steps
    gc.disable()  # what is raised in a callback of the collector is lost
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with impactarbiter.watch(step=step) as arbiter:
            with pytest.raises(KeyboardInterrupt):
                for _ in range(30):
                    weight = torch.ones(3, requires_grad=True)
                    kept.append((weight * 2).sum())
                    kept[-1].backward()
                    if step == "manual":
                        arbiter.step()
            assert len(looks) == 1
    gc.enable()
    signal.signal(signal.SIGINT, before)


# -- results ------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(8, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.Dropout(0.2),
            torch.nn.ReLU(),
        )
        self.head = torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x))


def seeded_training(kept: list[torch.Tensor]) -> dict[str, Any]:
    """All that a run leaves behind, as bytes and numbers."""
    torch.manual_seed(11)
    np.random.seed(11)
    random.seed(11)
    gc.collect()
    gc.disable()
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        x = torch.rand(16, 8) + float(np.random.rand()) + random.random()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().numpy().tobytes())
        kept.append(loss)
        ring: list[Any] = [x.detach()]
        ring.append(ring)
    counts = {
        "model": sys.getrefcount(model),
        "loss": sys.getrefcount(loss),
        "kept": [sys.getrefcount(t) for t in kept],
        "parameters": [sys.getrefcount(p) for p in model.parameters()],
        "gradients": [sys.getrefcount(p.grad) for p in model.parameters()],
        "state": [
            sys.getrefcount(t)
            for state in optimizer.state.values()
            for t in state.values()
        ],
        "classes": [sys.getrefcount(c) for c in (Net, torch.nn.Parameter)],
        "code": sys.getrefcount(Net.forward.__code__),
        "dict": len(model.__dict__),
    }
    del model, optimizer, loss, x, ring
    kept.clear()
    return {
        "losses": losses,
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": np.random.get_state()[1].tobytes(),
        "python": random.getstate(),
        "counts": counts,
        "collected": gc.collect(),
        "garbage": len(gc.garbage),
    }


def test_results_are_the_same() -> None:
    was = gc.isenabled()
    try:
        seeded_training([])
        without = seeded_training([])
        with impactarbiter.watch() as arbiter:
            watched = seeded_training([])
        assert _core.status()["callback_seconds"] > 0  # it did look
        assert arbiter.report().steps == 30
        again = seeded_training([])
    finally:
        if was:
            gc.enable()
    for name in without:
        assert watched[name] == without[name], name
        assert again[name] == without[name], name


#: Told of what is kept within 40 steps.
SOON: dict[str, Any] = {"step": "manual", "warmup": 1, "window": 2}


class Kept(list[torch.Tensor]):
    """Grows at steps that no code of ours in Python ends."""

    def grow(self) -> None:
        weight = torch.rand(4, requires_grad=True)
        for _ in range(40):
            self.append((weight * torch.rand(4)).square().sum())
            _core.step()


def is_ours(frame: FrameType) -> bool:
    package = os.path.dirname(impactarbiter.__file__)
    return frame.f_code.co_filename.startswith(package)


@pytest.mark.parametrize("how", ["settrace", "setprofile"])
def test_looks_are_not_traced_and_what_they_call_is(how: str) -> None:
    """Neither a debugger nor a profiler has to do with our code; a
    breakpoint in what a look calls is met."""
    seen: list[str] = []
    ours: list[str] = []
    told: list[int] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        (ours if is_ours(frame) else seen).append(frame.f_code.co_name)
        return trace

    def note(finding: impactarbiter.Finding) -> None:
        told.append(len(seen))

    def is_allowed(finding: impactarbiter.Finding) -> bool:
        return False

    before = sys.gettrace(), sys.getprofile()
    kept, allow = Kept(), (is_allowed,)
    with impactarbiter.watch(on_finding=note, allow=allow, **SOON):
        getattr(sys, how)(trace)
        try:
            kept.grow()
            after = sys.gettrace(), sys.getprofile()
        finally:
            sys.settrace(before[0])
            sys.setprofile(before[1])
        assert told and trace in after
    assert {"note", "is_allowed", "grow"} <= set(seen)
    assert len(seen) > told[-1]  # as before, when the look was over
    assert ours == []


def test_a_callback_may_set_a_tracer() -> None:
    """As a debugger does that is started there: it stays."""
    seen: list[str] = []
    ours: list[str] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        (ours if is_ours(frame) else seen).append(frame.f_code.co_name)
        return trace

    def inner() -> None:
        pass

    def note(finding: impactarbiter.Finding) -> None:
        sys.settrace(trace)
        inner()

    kept = Kept()
    before = sys.gettrace()
    try:
        with impactarbiter.watch(on_finding=note, **SOON):
            kept.grow()
            assert sys.gettrace() is trace
            inner()
            sys.settrace(before)
    finally:
        sys.settrace(before)
    assert len(seen) > 2 and set(seen) == {"inner"}
    assert ours == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no sys.monitoring")
def test_looks_are_not_monitored() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    files: list[str] = []
    tool = monitoring.COVERAGE_ID
    kept = Kept()
    with impactarbiter.watch(**SOON):
        monitoring.use_tool_id(tool, "test")
        try:
            monitoring.register_callback(
                tool,
                monitoring.events.PY_START,
                lambda code, at: files.append(code.co_filename),
            )
            monitoring.set_events(tool, monitoring.events.PY_START)
            kept.grow()
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
    package = os.path.dirname(impactarbiter.__file__)
    assert __file__ in files
    assert not any(file.startswith(package) for file in files)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    was, threshold = gc.isenabled(), gc.get_threshold()
    frozen, debug = gc.get_freeze_count(), gc.get_debug()
    try:
        if not enabled:
            gc.disable()
        with impactarbiter.watch() as arbiter:
            leaky_training()
            assert gc.isenabled() == enabled
            arbiter.report()
            assert gc.isenabled() == enabled
        assert gc.isenabled() == enabled
        assert gc.get_threshold() == threshold
        assert gc.get_debug() == debug
        # What was frozen may die: caches of the `typing` module's do.
        assert frozen / 2 <= gc.get_freeze_count() <= frozen
    finally:
        if was:
            gc.enable()


def test_the_collector_stays_off_though_a_look_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    was = gc.isenabled()
    monkeypatch.setattr(Diagnostician, "look", failing_look(ValueError()))
    gc.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with impactarbiter.watch():
            leaky_training()
            assert not _core.is_active()
            assert gc.isenabled()
    if not was:
        gc.disable()


class Explosive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError("in the backward")


def explode_in_backward() -> None:
    weight = torch.ones(3, requires_grad=True)
    Explosive.apply(weight * 2).sum().backward()


def explode_in_hook() -> None:
    def hook(gradient: torch.Tensor) -> None:
        raise ArithmeticError("in the hook")

    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(hook)
    (weight * 2).sum().backward()


def explode_in_forward() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError("in the forward")

    torch.nn.Sequential(Layer())(torch.ones(1))


def explode_twice() -> None:
    weight = torch.ones(3, requires_grad=True)
    loss = weight.exp().sum()
    loss.backward()
    loss.backward()


def explode_in_grad() -> None:
    torch.autograd.grad(torch.ones(1), torch.ones(1))


def explode_in_optimizer() -> None:
    weight = torch.ones(3, requires_grad=True)

    def closure() -> float:
        raise ArithmeticError("in the closure")

    torch.optim.SGD([weight], lr=0.1).step(closure)


def explode_in_allocation() -> None:
    torch.empty(2**62)


def traceback_of(work: Callable[[], None]) -> str:
    try:
        work()
    except (ArithmeticError, RuntimeError):
        return traceback.format_exc()
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "work",
    [
        explode_in_backward,
        explode_in_hook,
        explode_in_forward,
        explode_twice,
        explode_in_grad,
        explode_in_optimizer,
        explode_in_allocation,
    ],
)
def test_tracebacks_are_the_same(work: Callable[[], None]) -> None:
    without = traceback_of(work)
    with impactarbiter.watch():
        watched = traceback_of(work)
        assert traceback_of(work) == watched
        assert _core.is_active() and _core.consistent()
    assert watched == without


def test_a_failed_backward_ends_no_step() -> None:
    with impactarbiter.watch() as arbiter:
        for _ in range(5):
            traceback_of(explode_in_backward)
        assert not any(_core.status()["counts"][:-1])  # but turns of the loop
    assert arbiter.report().step_kind == "loop turn"


def test_gradients_by_autograd_grad_are_the_same() -> None:
    def gradients() -> list[list[float]]:
        weight = torch.linspace(0, 1, 5, requires_grad=True)
        (first,) = torch.autograd.grad(
            weight.exp().sum(), weight, create_graph=True
        )
        (second,) = torch.autograd.grad(first.sum(), weight)
        return [first.tolist(), second.tolist()]

    without = gradients()
    with impactarbiter.watch():
        assert gradients() == without


def test_copies_and_pickles_of_models_are_the_same() -> None:
    with impactarbiter.watch():
        model = Net()
        twin = copy.deepcopy(model)
        assert list(twin.state_dict()) == list(model.state_dict())
        for mine, other in zip(
            model.parameters(), twin.parameters(), strict=True
        ):
            assert torch.equal(mine, other) and mine is not other
    assert vars(model).keys() == vars(Net()).keys()


# -- references ---------------------------------------------------------------


def watched_objects() -> dict[str, Any]:
    """One of each kind that we look at."""
    space: dict[str, Any] = {"torch": torch}
    exec("def make(): return torch.ones(3, requires_grad=True)", space)
    make = space.pop("make")
    model = Net()
    tensor = make()
    out = model(torch.rand(4, 8)).sum() + tensor.sum()
    return {
        "tensor": tensor,
        "result": out,
        "module": model,
        "parameter": model.head.weight,
        "optimizer": torch.optim.Adam(model.parameters()),
        "function": make,
        "code": make.__code__,
        "array": torch.from_numpy(np.ones(5)),
        "class": type("Kind", (torch.Tensor,), {}),
    }


def test_nothing_of_ours_keeps_an_object_alive() -> None:
    with impactarbiter.watch(step="manual", warmup=1) as arbiter:
        held = []
        for _ in range(16):
            held.append(watched_objects())
            arbiter.step()
        report = arbiter.report()
        assert any(f.verdict == "leak" for f in report.findings)
        assert _core.status()["callback_seconds"] > 0
        seen = {
            (i, name): weakref.ref(value)
            for i, objects in enumerate(held)
            for name, value in objects.items()
        }
        assert all(ref() is not None for ref in seen.values())
        held.clear()
        objects = None  # noqa: F841 - no name of ours either
        # A class, and a module's own cycles, need the collector.
        gc.collect()
        left = [name for name, ref in seen.items() if ref() is not None]
        assert left == []
        assert report.findings
        arbiter.step()
    assert _core.totals()["live_bytes"] == 0


def test_a_tensor_dies_with_its_last_reference() -> None:
    gc.collect()
    gc.disable()
    try:
        with impactarbiter.watch(step="manual", warmup=0) as arbiter:
            kept: list[torch.Tensor] = []
            for step in range(12):
                kept.append(torch.ones(5))
                seen = weakref.ref(torch.ones(3))
                assert seen() is None
                arbiter.step()
                if step > 8:
                    arbiter.report()
            refs = [weakref.ref(t) for t in kept]
            kept.clear()
            assert [ref() for ref in refs] == [None] * 12
            assert _core.totals()["live_bytes"] == 0
    finally:
        gc.enable()


def test_locals_of_a_running_frame_are_left_alone() -> None:
    """f_locals would keep the values of the frame in a dict."""
    with impactarbiter.watch(step="manual", warmup=0) as arbiter:
        kept = []
        for _ in range(12):
            tensor = torch.ones(5)
            kept.append(torch.ones(3))
            arbiter.step()
        arbiter.report()
        seen = weakref.ref(tensor)
        del tensor
        assert seen() is None


# -- import -------------------------------------------------------------------


def run(code: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose interpreter may have imported torch."""
    if fresh:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            timeout=100,
        )
    else:
        done = warm.run(["-c", code], modules=warm.WITHOUT_US)
    assert done.returncode == 0, done.stderr
    return done


def test_import_takes_no_framework_and_no_hook() -> None:
    code = """if True:
        import gc, sys
        import impactarbiter
        for name in ("torch", "numpy", "transformers", "matplotlib", "rich"):
            assert name not in sys.modules, name
        assert gc.callbacks == []
        assert sys.gettrace() is None and sys.getprofile() is None
        assert "_core" not in vars(impactarbiter)
    """
    run(code, fresh=True)


def test_import_beside_torch_takes_no_hook() -> None:
    code = """if True:
        import gc, torch
        from torch.autograd import Variable
        from torch.optim import optimizer
        engine, callbacks = Variable._execution_engine, list(gc.callbacks)
        import impactarbiter
        from impactarbiter import _core, _torch, watch
        assert not any(_torch.installed().values())
        assert not _core.is_active()
        assert Variable._execution_engine is engine
        assert gc.callbacks == callbacks
        assert not optimizer._global_optimizer_post_hooks
    """
    run(code, fresh=True)


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)"])
def test_the_program_may_end_while_watched(end: str) -> None:
    code = f"""if True:
        import threading, torch, impactarbiter
        arbiter = impactarbiter.watch()
        kept = [torch.ones(i + 1) for i in range(100)]
        weight = torch.ones(3, requires_grad=True)
        loss = (weight * 2).sum()
        loss.backward()
        {end}
    """
    done = run(code, fresh=end == "pass")
    assert (done.stdout, done.stderr) == ("", "")


def test_watch_leaves_for_later_what_looks_need() -> None:
    code = """if True:
        import sys, torch, impactarbiter
        def loaded():
            return {name for name in sys.modules
                    if name.startswith("impactarbiter.")}
        others = "sysconfig" in sys.modules
        arbiter = impactarbiter.watch(step="manual")
        early = loaded()
        assert len(early) < 27, sorted(early)
        for room in ("core.wire", "knowledge", "model", "reports"):
            assert "impactarbiter." + room not in early, room
        assert others or "sysconfig" not in sys.modules
        arbiter.step()
        assert "impactarbiter.judging.diagnostician" in loaded()
        late = loaded()
        kept = []
        for _ in range(30):
            kept.append(torch.ones(1000))
            arbiter.step()
        assert loaded() == late, loaded() - late
        arbiter.dismiss()
    """
    run(code)


def test_a_watch_may_end_before_anything_was_loaded() -> None:
    code = """if True:
        import sys, torch, warnings, impactarbiter
        warnings.simplefilter("error")
        arbiter = impactarbiter.watch(step="manual")
        arbiter.dismiss()
        assert "impactarbiter.watching.looks" not in sys.modules
        assert not impactarbiter.watching.arbiter.current()
        assert arbiter.report().warnings == ("dismissed before its end",)
        with impactarbiter.watch(step="manual") as arbiter:
            assert arbiter.known_findings() == ()
        assert not arbiter.report().warnings
    """
    run(code)


def test_what_cannot_be_loaded_ends_the_watch_and_no_more() -> None:
    """The files are gone, say, by the time of the first step."""
    code = """if True:
        import sys, torch, warnings, impactarbiter
        from impactarbiter import _torch
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            arbiter = impactarbiter.watch(step="manual")
            sys.modules["impactarbiter.model"] = None
            arbiter.step()
            arbiter.step()
        assert len(told) == 1, told
        assert "impactarbiter is off" in str(told[0].message), told
        assert torch.ones(3).sum() == 3
        del sys.modules["impactarbiter.model"]
        arbiter.stop()
        assert not any(_torch.installed().values())
    """
    run(code)


@pytest.mark.parametrize("steps", [0, 30])
def test_the_package_may_be_thrown_out_of_sys_modules(steps: int) -> None:
    """As tools do that load a project anew: no other copy comes of it.

    What looks need is loaded at the first step; nothing is, after it.
    """
    code = (
        f"STEPS = {steps}\n"
        + """if True:
        import sys, torch, warnings, impactarbiter
        from impactarbiter import _torch
        warnings.simplefilter("error")
        arbiter, kept = impactarbiter.watch(step="manual"), []
        def go(steps):
            for _ in range(steps):
                kept.append(torch.ones(1000))
                arbiter.step()
        go(STEPS)
        ours = [name for name in sys.modules
                if name.partition(".")[0] == "impactarbiter"]
        for name in ours:
            del sys.modules[name]

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                assert name.partition(".")[0] != "impactarbiter", name

        sys.meta_path.insert(0, Refuse())
        go(30 - STEPS)
        report = arbiter.stop()
        assert [f.verdict for f in report.findings] == ["leak"], report
        assert not any(_torch.installed().values())
        assert not report.warnings, report.warnings
        assert not [name for name in sys.modules
                    if name.partition(".")[0] == "impactarbiter"]
        assert [type(finder) for finder in sys.meta_path].count(Refuse) == 1
        assert type(sys.meta_path[0]) is Refuse
    """
    )
    run(code)


def test_a_look_before_watch_has_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread ends steps as soon as the hooks are in."""
    start = hooks.start

    def and_step(**options: Any) -> hooks.Hooks:
        made = start(**options)
        options["callback"](5)
        return made

    monkeypatch.setattr(hooks, "start", and_step)
    with impactarbiter.watch() as arbiter:
        assert not arbiter.report().warnings


PROFILED = """if True:
    import sys, torch
    from torch.profiler import profile
    import impactarbiter

    weight = torch.nn.Parameter(torch.ones(8))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    kept = []

    def train():
        for _ in range(20):
            optimizer.zero_grad()
            loss = weight.sum()
            loss.backward()
            optimizer.step()
            kept.append(loss)

    if sys.argv[1:] == ["before"]:
        arbiter = impactarbiter.watch()
    with profile(with_stack=True) as seen:
        if sys.argv[1:] != ["before"]:
            arbiter = impactarbiter.watch()
        train()
        arbiter.report()
    arbiter.stop()
    names = [event.name() for event in seen.profiler.kineto_results.events()]
    print(*(name for name in names if "(0): " in name), sep="\\n")
"""


@pytest.mark.parametrize("when", ["before", "within"])
def test_what_is_imported_is_no_matter_of_torchs_profiler(when: str) -> None:
    """It keeps where the name of a module's code was, which is gone in the
    end: what lies there is a text by chance alone."""
    done = warm.run(["-c", PROFILED, when], modules=warm.WITHOUT_US)
    assert done.returncode == 0, done.stderr
    ours_or_torchs = ("impactarbiter" + os.sep, "torch" + os.sep)
    lines = [line for line in done.stdout.splitlines() if "(0)" in line]
    assert [one for one in lines if one.startswith(ours_or_torchs)] == []
