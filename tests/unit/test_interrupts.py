"""What comes in between: signals, callbacks, other threads, forks, the end.

The program gets what it would get without us, at any point of a look; what we
lose by it is said, or made up for.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import _core, _torch
from impactarbiter.base.signals import is_programs
from impactarbiter.core import heap, hooks
from impactarbiter.judging.diagnostician import Diagnostician
from impactarbiter.judging.holders.memory import HolderHistory
from impactarbiter.watching.arbiter import current

STEPS = 40
WATCH: dict[str, Any] = {"step": "manual", "warmup": 1, "window": 2}


@pytest.fixture(autouse=True)
def nothing_stays(nobody_watches: None) -> Iterator[None]:
    yield
    assert not any(_torch.installed().values()) and not _core.is_active()


class Training:
    """Keeps what it makes, and computes the same numbers each time."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.weight = torch.rand(4, requires_grad=True)
        self.kept: list[torch.Tensor] = []
        self.numbers: list[float] = []

    def step(self) -> None:
        loss = (self.weight * torch.rand(4)).square().sum()
        loss.backward()
        self.kept.append(loss)
        self.numbers.append(loss.item())


def plain() -> list[float]:
    training = Training()
    for _ in range(STEPS):
        training.step()
    return training.numbers


def watched(**options: Any) -> tuple[list[float], impactarbiter.Report]:
    training = Training()
    with impactarbiter.watch(**WATCH, **options) as arbiter:
        for _ in range(STEPS):
            training.step()
            arbiter.step()
        report = arbiter.report()
    assert _core.consistent()
    return training.numbers, report


def leaks(report: impactarbiter.Report) -> list[str]:
    found = [f for f in report.findings if f.verdict == "leak"]
    return [f.holder.type for f in found if f.holder is not None]


# -- signals ------------------------------------------------------------------


@pytest.fixture
def alarms() -> Iterator[Callable[[Callable[..., object]], None]]:
    """Installs a handler of SIGALRM."""
    before = signal.getsignal(signal.SIGALRM)

    def install(handler: Callable[..., object]) -> None:
        signal.signal(signal.SIGALRM, handler)

    yield install
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def in_look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Does something in the middle of the first looks."""
    real = heap.walk

    def install(work: Callable[[], object], times: int = 1) -> None:
        left = [work] * times

        def walk(*args: Any, **how: Any) -> Any:
            found = real(*args, **how)
            if left and any(_torch.installed().values()):
                left.pop()()
            return found

        monkeypatch.setattr(heap, "walk", walk)

    return install


def raise_alarm() -> None:
    signal.raise_signal(signal.SIGALRM)


class Handler:
    """As an object, a method or a function."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.ring(number, frame)

    def ring(self, number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the program's")


def ring(number: int, frame: FrameType | None) -> None:
    Handler().ring(number, frame)


def once(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise TimeoutError("the program's")


def once_of_all(*given: Any) -> None:
    once(*given)


@pytest.mark.parametrize(
    "handler",
    [
        ring,
        Handler(),
        Handler().ring,
        once,
        once_of_all,
        lru_cache(maxsize=None)(ring),
    ],
)
def test_what_a_handler_raises_reaches_the_program(
    handler: Callable[..., object],
    alarms: Callable[..., None],
    in_look: Callable[..., None],
) -> None:
    """A time limit by alarm is the program's, though it ends in a look."""
    def alarm() -> None:
        alarms(handler)  # some put it out again
        raise_alarm()

    in_look(alarm, times=3)
    training, caught = Training(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with impactarbiter.watch(**WATCH) as arbiter:
            for _ in range(STEPS):
                training.step()
                try:
                    arbiter.step()
                except TimeoutError as error:
                    assert str(error) == "the program's"
                    caught += 1
            while True:
                try:
                    report = arbiter.report()
                    break
                except TimeoutError:
                    caught += 1
            assert _core.is_active()
    assert caught == 3
    assert training.numbers == plain()
    assert leaks(report) == ["list"]


def test_a_handler_in_a_callback(alarms: Callable[..., None]) -> None:
    alarms(ring)

    def tell(finding: impactarbiter.Finding) -> None:
        raise_alarm()

    with pytest.raises(TimeoutError):
        watched(on_finding=tell)


def test_a_handler_in_a_rule(alarms: Callable[..., None]) -> None:
    alarms(ring)

    def rule(finding: impactarbiter.Finding) -> bool:
        raise_alarm()
        return False

    with pytest.raises(TimeoutError):
        watched(allow=(rule,))


def test_a_handler_while_stopping(
    alarms: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms(ring)
    monkeypatch.setattr(Diagnostician, "report", lambda self: raise_alarm())
    arbiter = impactarbiter.watch(**WATCH)
    with pytest.raises(TimeoutError):
        arbiter.stop()
    assert arbiter.stop().warnings == ("no report could be made",)


@pytest.mark.parametrize("what", ["report", "step", "stop", "explain"])
def test_a_handler_that_asks_us(
    what: str, alarms: Callable[..., None], in_look: Callable[..., None]
) -> None:
    """It runs inside the look that it asks about."""
    asked = []

    def handler(number: int, frame: FrameType | None) -> None:
        arbiter = current()
        assert arbiter is not None
        if what == "explain":
            asked.append(impactarbiter.explain(training.kept[0]))
        else:
            asked.append(getattr(arbiter, what)())

    alarms(handler)
    in_look(raise_alarm)
    training = Training()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with impactarbiter.watch(**WATCH) as arbiter:
            for _ in range(STEPS):
                training.step()
                arbiter.step()
            arbiter.report()
    assert len(asked) == 1
    assert training.numbers == plain()


def test_alarms_all_the_time(
    alarms: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two bytecodes of looks and reports."""
    rung, training, reports = 0, Training(), []

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal rung
        rung += 1
        assert len([torch.ones(3) for _ in range(3)]) == 3
        # Not here, where nothing catches it: the next test would get it.
        here = frame is None or frame.f_code.co_filename == __file__
        if rung % 3 == 0 and not here:
            raise TimeoutError

    alarms(handler)
    # Python ignores what comes in a finalizer, and says so.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arbiter = impactarbiter.watch(**WATCH)
        for _ in range(STEPS):
            training.step()
            signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-3)
            try:
                arbiter.step()
                reports.append(arbiter.report())
            except TimeoutError:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert _core.is_active()
        report = arbiter.stop()
    assert rung > STEPS
    assert training.numbers == plain()
    assert leaks(report) == ["list"]
    assert _core.consistent()


# -- callbacks and rules ------------------------------------------------------


CALLS: dict[str, Callable[[impactarbiter.Finding], object]] = {
    "report": lambda f: current().report(),  # type: ignore[union-attr]
    "step": lambda f: current().step(),  # type: ignore[union-attr]
    "explain": lambda f: impactarbiter.explain(torch.ones(3)),
    "snapshot": lambda f: impactarbiter.snapshot(),
    "watch": lambda f: impactarbiter.watch(),
    "backward": lambda f: torch.ones(3, requires_grad=True).sum().backward(),
}


#: A rule is called as a callback is; `make sweep` has all of them.
ASKS = [
    pytest.param(
        option,
        what,
        marks=[pytest.mark.slow]
        if option == "allow" and what not in ("report", "step")
        else [],
    )
    for option in ("on_finding", "allow")
    for what in CALLS
]


@pytest.mark.parametrize(("option", "what"), ASKS)
def test_a_callback_that_asks_us(what: str, option: str) -> None:
    call, called = CALLS[what], 0

    def callback(finding: impactarbiter.Finding) -> bool:
        nonlocal called
        called += 1
        call(finding)
        return False

    value = callback if option == "on_finding" else (callback,)
    numbers, report = watched(**{option: value})
    assert called
    assert numbers == plain()
    assert leaks(report) == ["list"]


@pytest.mark.parametrize("option", ["on_finding", "allow"])
def test_a_callback_that_stops_us(option: str) -> None:
    def callback(finding: impactarbiter.Finding) -> bool:
        arbiter = current()
        if arbiter is not None:
            arbiter.stop()
        return False

    value = callback if option == "on_finding" else (callback,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers, _report = watched(**{option: value})
    assert numbers == plain()


#: Frames of a look's, which the program did not call.
JUDGING = "impactarbiter.judging"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("option", ["on_finding", "allow"])
def test_a_callback_that_ends_the_program(
    option: str, error: type[BaseException]
) -> None:
    def callback(finding: impactarbiter.Finding) -> bool:
        raise error

    value = callback if option == "on_finding" else (callback,)
    with pytest.raises(error) as raised:
        watched(**{option: value})
    frames = [entry.frame.raw for entry in raised.traceback]
    assert frames[-1].f_code is callback.__code__
    modules = {frame.f_globals["__name__"] for frame in frames}
    if option == "on_finding":  # a rule is asked by the report, too
        assert not [one for one in modules if one.startswith(JUDGING)]


class UnsayableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("option", ["on_finding", "allow"])
@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError("no room"), "no room"), (UnsayableError(), "UnsayableError")],
)
def test_a_callback_that_raises(
    option: str, error: Exception, words: str
) -> None:
    def callback(finding: impactarbiter.Finding) -> bool:
        raise error

    value = callback if option == "on_finding" else (callback,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers, report = watched(**{option: value})
    assert numbers == plain()
    assert leaks(report) == ["list"]
    assert any(words in said for said in report.warnings)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("change", ["starts_over", "consists_of", "observe"])
def test_a_look_that_is_cut_short_leaves_what_was_known(
    change: str,
    after: bool,
    alarms: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Just before something is remembered of the list, or after it."""
    alarms(ring)
    real = getattr(HolderHistory, change)
    left = [None]

    def cut(history: HolderHistory, *given: object) -> None:
        if after:
            real(history, *given)
        if left:
            left.pop()
            raise_alarm()
        if not after:
            real(history, *given)

    monkeypatch.setattr(HolderHistory, change, cut)
    kept: list[torch.Tensor] = []
    lost = 0
    with impactarbiter.watch(**WATCH) as arbiter:
        for _ in range(STEPS):
            kept.append(torch.ones(9))
            try:
                arbiter.step()
            except TimeoutError:
                lost += 1
        report = arbiter.report()
    assert lost == 1 and not left
    assert leaks(report) == ["list"]


# -- the end of the stack -----------------------------------------------------


def deeper(calls: int, work: Callable[[], None]) -> None:
    if calls:
        deeper(calls - 1, work)
    else:
        work()


def deepest(work: Callable[[], None], most: int) -> int:
    """In how many calls there is still room for it."""
    for calls in range(most, 0, -1):
        try:
            deeper(calls, work)
            return calls
        except RecursionError:
            pass
    raise AssertionError


def test_a_look_has_no_room_on_the_stack() -> None:
    """It is made when there is; the program has all the room that it had."""
    kept: list[torch.Tensor] = []
    weight = torch.ones(3, requires_grad=True)

    def step() -> None:
        kept.append(torch.ones(9))
        (weight * 2).sum().backward()

    limit = sys.getrecursionlimit()
    most = deepest(step, limit)
    for calls in range(most - 30, most + 1, 3):  # of ours, some twenty deep
        kept.clear()
        with impactarbiter.watch(warmup=1, window=2) as arbiter:
            for _ in range(STEPS):
                deeper(calls, step)
            report = arbiter.report()
        assert report.warnings == ()
        assert leaks(report) == ["list"]


# -- other threads ------------------------------------------------------------


def elsewhere(work: Callable[[], object]) -> object:
    """The work's result, from a thread that is waited for."""
    given: list[object] = []
    thread = threading.Thread(target=lambda: given.append(work()))
    thread.start()
    thread.join()
    (result,) = given
    return result


@pytest.mark.parametrize("what", ["report", "stop", "step"])
def test_another_thread_in_a_look(
    what: str, in_look: Callable[..., None]
) -> None:
    training, given = Training(), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with impactarbiter.watch(**WATCH) as arbiter:
            in_look(lambda: given.append(elsewhere(getattr(arbiter, what))))
            for _ in range(STEPS):
                training.step()
                arbiter.step()
            arbiter.report()
    assert len(given) == 1
    assert training.numbers == plain()
    if what == "report":
        assert isinstance(given[0], impactarbiter.Report)
        assert "a look was just being made" in given[0].warnings[0]


@pytest.fixture
def collecting() -> Iterator[None]:
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def many_cycles() -> None:
    for _ in range(10 * gc.get_threshold()[0]):
        cycle: list[object] = []
        cycle.append(cycle)


@pytest.mark.usefixtures("collecting")
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("where", ["on_finding", "another thread"])
def test_the_collector_is_the_program_s_in_a_look(
    where: str, wanted: bool, in_look: Callable[..., None]
) -> None:
    """What it wants of it in the middle of a look is so, then and after."""
    seen: list[bool] = []

    def work() -> None:
        seen.append(gc.isenabled())
        (gc.enable if wanted else gc.disable)()
        seen.append(gc.isenabled())

    def tell(finding: impactarbiter.Finding) -> None:
        if not seen:
            work()

    if not wanted:
        given = [True, False]
    else:
        gc.disable()
        given = [False, True]
    if where == "on_finding":
        numbers, _report = watched(on_finding=tell)
    else:
        in_look(lambda: elsewhere(work))
        numbers, _report = watched()
    assert seen == given
    assert gc.isenabled() == wanted
    assert numbers == plain()


@pytest.mark.usefixtures("collecting")
def test_no_collection_begins_in_a_look_by_itself(
    in_look: Callable[..., None],
) -> None:
    phases: list[str] = []
    begun: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        phases.append(phase)

    def work() -> None:
        del phases[:]
        many_cycles()
        begun.append(len(phases))
        gc.collect()  # what is asked for is done
        begun.append(len(phases))

    in_look(work)
    gc.callbacks.append(note)
    try:
        watched()
        del phases[:]
        many_cycles()
    finally:
        gc.callbacks.remove(note)
    assert begun == [0, 2]
    assert phases  # and all is as ever
    assert 0 <= gc.get_count()[0] < 10 * gc.get_threshold()[0]


@pytest.mark.usefixtures("collecting")
def test_walks_let_nobody_see_the_collector_off() -> None:
    """A walk waits a little for threads that run without the GIL."""
    seen: set[bool] = set()
    over = threading.Event()

    def watch_it() -> None:
        while not over.is_set():
            seen.add(gc.isenabled())

    thread = threading.Thread(target=watch_it)
    thread.start()
    try:
        watched()
    finally:
        over.set()
        thread.join()
    assert seen == {True}


@pytest.mark.usefixtures("collecting")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_child_of_a_fork_in_a_look_collects(
    in_look: Callable[..., None],
) -> None:
    codes: list[int] = []

    def fork() -> None:
        before = gc.get_stats()[0]["collections"]
        child = os.fork()
        if child == 0:
            many_cycles()
            after = gc.get_stats()[0]["collections"]
            os._exit(0 if gc.isenabled() and after > before else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    in_look(lambda: elsewhere(fork))
    watched()
    assert codes == [0]


def test_all_threads_stop_at_once() -> None:
    training, barrier = Training(), threading.Barrier(6)
    arbiter = impactarbiter.watch(**WATCH)
    for _ in range(STEPS):
        training.step()
        arbiter.step()
    given: list[impactarbiter.Report] = []

    def stop() -> None:
        barrier.wait()
        given.append(arbiter.stop())

    threads = [threading.Thread(target=stop) for _ in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(given) == 6
    whole = [report for report in given if report is arbiter.stop()]
    assert whole and leaks(whole[0]) == ["list"]
    for report in given:
        assert report in whole or "a look was just" in report.warnings[0]


def test_containers_change_while_they_are_walked() -> None:
    """Everything that a path leads through comes and goes."""
    over, wrong = threading.Event(), []
    shared: dict[str, Any] = {"list": [], "dict": {}, "set": set()}

    class Box:
        pass

    def change() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            shared["list"].append([torch.ones(3)])
            shared["dict"][turn] = (torch.ones(3), Box())
            shared["set"].add(torch.ones(3))
            setattr(Box, f"a{turn % 7}", torch.ones(3))
            shared[f"more{turn % 50}"] = {turn: [torch.ones(2)]}
            box = Box()
            box.__dict__ = {"x": torch.ones(3), "me": box}
            if turn % 20 == 0:
                shared["list"].clear()
                shared["dict"] = {}
                shared["set"] = set()
            if not torch.equal(
                shared["list"][-1][0] if shared["list"] else torch.ones(3),
                torch.ones(3),
            ):
                wrong.append(turn)

    def guarded() -> None:
        try:
            change()
        except (IndexError, RuntimeError, KeyError):
            pass  # the program's own races
        finally:
            ended.append(1)

    ended: list[int] = []
    threads = [threading.Thread(target=guarded) for _ in range(3)]
    training = Training()
    with impactarbiter.watch(**WATCH) as arbiter:
        for thread in threads:
            thread.start()
        try:
            for step in range(STEPS):
                training.step()
                arbiter.step()
                if step % 8 == 7:
                    impactarbiter.explain(training.kept[-1])
                    report = arbiter.report()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert _core.consistent()
    assert not wrong
    assert training.numbers == plain()
    assert "list" in leaks(report)


# -- forks --------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="beside a GPU, torch lets no child of a fork go backward",
)
@pytest.mark.parametrize("where", ["on_finding", "allow", "look"])
def test_a_fork_in_a_look(where: str, in_look: Callable[..., None]) -> None:
    """Both go on, and compute what they would."""
    codes: list[int] = []
    expected = plain()

    def fork(*_: object) -> bool:
        if codes:
            return False
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            codes.append(-1)
            return False
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return False

    options = {"on_finding": fork, "allow": (fork,)}
    if where == "look":
        in_look(fork)
    try:
        numbers, report = watched(
            **({where: options[where]} if where in options else {})
        )
        right = numbers == expected
        if codes == [-1]:
            with impactarbiter.watch(**WATCH):
                training = Training()
                training.step()
            os._exit(0 if right else 3)
    except BaseException:
        if codes == [-1]:
            import traceback

            traceback.print_exc()
            os._exit(4)
        raise
    assert codes == [0]
    assert right
    assert leaks(report) == ["list"]


# -- the end ------------------------------------------------------------------


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


LEAK = """if True:
    import atexit, os, sys, threading, time, torch, impactarbiter
    kept = []
    def leak(arbiter, steps=40):
        for i in range(steps):
            kept.append(torch.ones(3, requires_grad=True) * 2)
            arbiter.step()
"""


def test_a_program_that_leaves_at_once_in_a_callback() -> None:
    done = run(
        LEAK
        + """
    def tell(finding):
        print(finding.verdict, flush=True)
        os._exit(7)
    leak(impactarbiter.watch(step="manual", warmup=1, window=2,
                             on_finding=tell))
    """
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "leak\n", "")


def test_the_end_with_everything_alive(tmp_path: Any) -> None:
    """Arbiter, recorder, tracker, threads, objects with finalizers."""
    done = run(
        LEAK
        + f"""
    from impactarbiter.analysis import tracker as _  # noqa
    class Last:
        def __init__(self):
            self.tensor = torch.ones(3)
        def __del__(self):
            self.tensor = torch.ones(4) + 1
            kept.append(self.tensor)
    last = Last()
    last.me = last
    arbiter = impactarbiter.watch(step="manual", warmup=1, window=2)
    recorder = impactarbiter.FlightRecorder({str(tmp_path)!r})
    recorder.start()
    def work():
        # Not torch: it aborts where such a thread ends in it.
        mine = [torch.ones(3) for _ in range(9)]
        while True:
            time.sleep(0.001)
    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    def late():
        weight = torch.ones(3, requires_grad=True)
        (weight * 2).sum().backward()
        arbiter.step()
        impactarbiter.explain(weight)
        print("late", len(arbiter.report().findings) > 0, flush=True)
    atexit.register(late)
    leak(arbiter)
    print("end", flush=True)
    sys.exit(5)
    """
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        5,
        "end\nlate True\n",
        "",
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_is_ended_by_a_signal(number: int) -> None:
    """Without a handler of its own it dies of it, in a look too."""
    done = run(
        LEAK
        + f"""
    import signal
    signal.signal({int(number)}, signal.SIG_DFL)
    def tell(finding):
        print("told", flush=True)
        signal.raise_signal({int(number)})
    leak(impactarbiter.watch(step="manual", warmup=1, window=2,
                             on_finding=tell))
    """
    )
    assert (done.returncode, done.stdout) == (-number, "told\n")


def test_a_handler_that_exits() -> None:
    done = run(
        LEAK
        + """
    import signal
    def handler(number, frame):
        raise SystemExit(9)
    signal.signal(signal.SIGTERM, handler)
    def tell(finding):
        signal.raise_signal(signal.SIGTERM)
    arbiter = impactarbiter.watch(step="manual", warmup=1, window=2,
                                  on_finding=tell)
    try:
        leak(arbiter)
        print("went on")
    finally:
        print(len(kept) < 40)
    """
    )
    assert (done.returncode, done.stdout) == (9, "True\n"), done.stderr


# -- what another thread raises -----------------------------------------------


class Halt(Exception):
    pass


class Away(BaseException):
    pass


def raise_in(thread: int, kind: type[BaseException]) -> Callable[..., object]:
    """Of C alone: at the end of the call the thread raises it."""
    return partial(
        ctypes.pythonapi.PyThreadState_SetAsyncExc,
        ctypes.c_ulong(thread),
        ctypes.py_object(kind),
    )


@pytest.mark.parametrize("where", ["the main thread", "another one"])
@pytest.mark.parametrize("kind", [Halt, Away])
def test_what_another_thread_raises_in_a_look_comes_to_the_program(
    kind: type[BaseException], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught: list[int] = []

    def work() -> None:
        training, here = Training(), threading.get_ident()
        with monkeypatch.context() as patch:
            patch.setattr(hooks, "look_at", raise_in(here, kind))
            try:
                for _ in range(STEPS):
                    training.step()
                    arbiter.step()
            except kind:
                caught.append(here)
            assert len(training.numbers) < STEPS
        for _ in range(STEPS):
            training.step()
            arbiter.step()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with impactarbiter.watch(**WATCH) as arbiter:
            if where == "another one":
                elsewhere(work)
            else:
                work()
            assert len(caught) == 1 and _core.is_active()
    assert (caught[0] == threading.get_ident()) == (where != "another one")


def test_who_looks_at_frames_is_no_handler() -> None:
    """What a callback's helper raises is a callback's."""

    def helper(depth: int, above: FrameType) -> None:
        raise OSError("no source")

    def helped() -> None:
        caller = sys._getframe(1)
        assert caller.f_code
        raise OSError("no source")

    for work in (helped, lambda: helper(1, sys._getframe(1))):
        try:
            work()
        except OSError as error:
            assert not is_programs(error)
        else:
            raise AssertionError


def test_what_another_thread_raises_is_known_by_its_place() -> None:
    """Of any class; what code raises by itself is not."""
    ready = threading.Event()

    def wait() -> None:
        ready.set()
        while True:
            pass

    def work() -> bool:
        try:
            wait()
        except ValueError as error:
            return is_programs(error)
        raise AssertionError

    given: list[bool] = []
    thread = threading.Thread(target=lambda: given.append(work()))
    thread.start()
    ready.wait()
    assert thread.ident is not None
    loop = wait.__code__.co_firstlineno + 2
    while True:  # until it is in there: the call of set() would have it
        frame = sys._current_frames()[thread.ident]
        if frame.f_code is wait.__code__ and frame.f_lineno >= loop:
            break
    del frame
    raise_in(thread.ident, ValueError)()
    thread.join()
    assert given == [True]
    for kind in (ValueError, Halt, MemoryError):
        try:
            raise kind
        except kind as error:
            assert not is_programs(error)


@pytest.mark.parametrize("kind", [ValueError, TimeoutError, Exception])
def test_what_another_thread_raises_at_a_call_is_known_by_its_silence(
    kind: type[Exception],
) -> None:
    """A walk is one call of C, which ends with what came meanwhile."""
    here = threading.get_ident()

    def of_c() -> None:
        raise_in(here, kind)()

    def says() -> None:
        int("none")

    def ends() -> None:
        next(iter(()))

    for work, programs in ((of_c, True), (says, False), (ends, False)):
        try:
            work()
        except Exception as error:
            assert is_programs(error) == programs
        else:
            raise AssertionError


# -- memory that fails for ever -----------------------------------------------


#: Run by each Python that is here: they compile the same source differently.
FAR_HANDLERS = """
import dis, sys
from pathlib import Path
from types import CodeType

def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)

for path in sorted(Path(sys.argv[1]).rglob("*.py")):
    for code in code_objects(compile(path.read_text(), path, "exec")):
        for e in dis._parse_exception_table(code):
            if e.lasti and e.end // 2 > 257:
                print(path.name, code.co_qualname)
"""


def pythons() -> list[str]:
    """This one, and others of pyenv's that have tables of handlers."""
    others = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [
        sys.executable,
        *(
            str(python)
            for python in sorted(others.glob("versions/3.1[1-9].*/bin/python"))
            if not python.samefile(sys.executable)
        ),
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="handlers in tables")
@pytest.mark.parametrize(
    "room", ["base", "core", "judging", "knowledge", "model", "watching"]
)
def test_handlers_of_a_look_need_no_memory(room: str) -> None:
    """An interpreter that cannot make the number of the instruction that
    raised goes to the same handler again, without end: numbers up to 256 it
    has already."""
    package = Path(impactarbiter.__file__).parent
    for python in pythons():
        far = subprocess.run(
            [python, "-c", FAR_HANDLERS, package / room],
            capture_output=True,
            text=True,
            check=True,
        )
        assert far.stdout == "", python
