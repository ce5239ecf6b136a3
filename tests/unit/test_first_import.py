"""Who asks for a report while what a report needs is being imported.

A handler of a signal waits until the import is over, and is answered; what
cannot be made to wait gets one line.
"""

from __future__ import annotations

import ctypes
import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from impactarbiter import _signals

#: What runs in the import of each of our modules, as an audit hook may.
PROGRAM = """if True:
    import os, signal, sys, threading, time, torch, impactarbiter
    asked = []
    def ask(number=None, frame=None):
        try:
            report = arbiter.report()
            impactarbiter.explain(kept)
            asked.append((type(report).__name__, arbiter.metrics() != {}))
        except BaseException as error:
            asked.append(repr(error))
    def come(event, args):
        if event == "import" and str(args[0]).startswith("impactarbiter."):
            seen.append(args[0])
            if len(seen) == NTH:
                MEANS
    signal.signal(signal.SIGUSR1, ask)
    signal.siginterrupt(signal.SIGUSR1, False)
    kept = [torch.ones(3)]
    arbiter = impactarbiter.watch(step="manual")
    seen = []
    sys.addaudithook(come)
    arbiter.step()
    seen += [None] * 1000
    for _ in range(200):
        if asked:
            break
        time.sleep(0.02)
    arbiter.step()
    print(len(asked), *asked, arbiter.stop().steps, sep="|")
"""
SENT = "os.kill(os.getpid(), signal.SIGUSR1)"


def run(means: str, nth: int) -> list[str]:
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            PROGRAM.replace("NTH", str(nth)).replace("MEANS", means),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip().split("|")


@pytest.mark.parametrize("nth", [1, 6, 25])
def test_a_handler_waits_for_the_import(nth: int) -> None:
    assert run(SENT, nth) == ["1", "('Report', True)", "2"]


def test_what_cannot_wait_gets_one_line() -> None:
    count, answer, steps = run("ask()", 6)
    assert (count, steps) == ("1", "2")
    assert answer.startswith("UsageError('asked for something in the middle")
    assert "\\n" not in answer


# -- the signals that wait ----------------------------------------------------


def test_signals_wait_and_come_once() -> None:
    came: list[int] = []
    before = signal.signal(
        signal.SIGUSR2, lambda number, _: came.append(number)
    )
    try:
        assert _signals.hold()
        assert not _signals.hold()  # they wait already
        signal.raise_signal(signal.SIGUSR2)
        signal.raise_signal(signal.SIGUSR2)
        assert came == []
        _signals.let_go()
        assert came == [signal.SIGUSR2]
        signal.raise_signal(signal.SIGUSR2)
        _signals.let_go()  # nothing is held
        assert came == [signal.SIGUSR2] * 2
    finally:
        _signals.let_go()
        signal.signal(signal.SIGUSR2, before)


def test_what_a_handler_raises_leaves_nothing_held() -> None:
    """It is the program's."""

    def handler(number: int, _frame: object) -> None:
        raise TimeoutError("the program's")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(TimeoutError):
            _signals.hold()
            signal.raise_signal(signal.SIGUSR2)
            _signals.let_go()
        with pytest.raises(TimeoutError):
            signal.raise_signal(signal.SIGUSR2)
    finally:
        _signals.let_go()
        signal.signal(signal.SIGUSR2, before)


def test_what_was_set_meanwhile_stays() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: came.append(1))
    try:
        _signals.hold()
        signal.signal(signal.SIGUSR2, lambda number, _: came.append(2))
        _signals.let_go()
        signal.raise_signal(signal.SIGUSR2)
        assert came == [2]
    finally:
        _signals.let_go()
        signal.signal(signal.SIGUSR2, before)


def test_a_fork_holds_nothing() -> None:
    """A child has its parent's handlers, and what came was the parent's."""
    came: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: came.append(1))
    try:
        _signals.hold()
        signal.raise_signal(signal.SIGUSR2)
        child = os.fork()
        if child == 0:
            signal.raise_signal(signal.SIGUSR2)
            seen = len(came)
            _signals.hold()
            signal.raise_signal(signal.SIGUSR2)
            seen = seen * 10 + len(came)
            _signals.let_go()
            os._exit(seen * 10 + len(came))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == 112
        assert came == []
    finally:
        _signals.let_go()
        signal.signal(signal.SIGUSR2, before)
    assert came == [1]


def test_all_but_one_wait() -> None:
    came: list[int] = []
    numbers = signal.SIGUSR1, signal.SIGUSR2
    before = [
        signal.signal(number, lambda number, _: came.append(number))
        for number in numbers
    ]
    try:
        with pytest.raises(TypeError):
            _signals.hold("USR2")  # type: ignore[arg-type]
        assert _signals.hold(signal.SIGUSR2)
        for number in numbers:
            signal.raise_signal(number)
        assert came == [signal.SIGUSR2]
    finally:
        _signals.let_go()
        for number, one in zip(numbers, before, strict=True):
            signal.signal(number, one)
    assert came == [signal.SIGUSR2, signal.SIGUSR1]


def test_on_another_thread_nothing_waits() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(_signals.hold).result()


def test_what_came_before_does_not_end_what_is_called_aside() -> None:
    """Its handler is called first, and what that raises is raised last."""
    done: list[str] = []

    def handler(_number: int, _frame: object) -> None:
        try:
            done.append("handled")
            raise LookupError("for another reason")
        except LookupError:
            raise TimeoutError("the program's")  # noqa: B904

    def work(word: str) -> None:
        for _ in range(1000):
            pass
        done.append(word)

    before = signal.signal(signal.SIGUSR2, handler)
    # No bytecode lies between the signal and the call.
    calls = [
        partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGUSR2)),
        partial(_signals.aside, work, "worked"),
    ]
    try:
        with pytest.raises(TimeoutError) as raised:
            list(map(operator.call, calls))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert done == ["handled", "worked"]
    assert isinstance(raised.value.__context__, LookupError)


@pytest.mark.parametrize("call", [_signals.aside, _signals.handling])
def test_what_is_raised_first_comes_first(call: Callable[..., None]) -> None:
    """One after the other, each wherever the program is by then."""
    last: Exception | None = None

    def handler(_number: int, _frame: object) -> None:
        raise ValueError("the handler's")

    def work() -> None:
        signal.raise_signal(signal.SIGUSR2)
        raise LookupError("the work's")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        try:
            call(work)
            for _ in range(100):
                pass
        finally:
            for _ in range(100):
                pass
    except (LookupError, ValueError) as error:
        last = error
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert str(last) == "the handler's"


def test_a_handler_that_waits_for_another_signal_gets_it() -> None:
    came: list[str] = []

    def handler(_number: int, _frame: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        give_up = time.monotonic() + 60
        while "alarm" not in came and time.monotonic() < give_up:
            time.sleep(0.01)
        came.append("handled")

    before = signal.signal(signal.SIGUSR2, handler)
    alarm = signal.signal(signal.SIGALRM, lambda *_: came.append("alarm"))
    calls = [
        partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGUSR2)),
        partial(_signals.aside, came.append, "worked"),
    ]
    try:
        list(map(operator.call, calls))
    finally:
        signal.signal(signal.SIGUSR2, before)
        signal.signal(signal.SIGALRM, alarm)
    assert came == ["alarm", "handled", "worked"]


NESTED = """
import sys
import impactarbiter

class Asks:
    count = 0

    def find_spec(self, name, path=None, target=None):
        self.count += name.startswith("impactarbiter.")
        if self.count == 20:  # others wait half-made for this one
            self.count += 1
            try:
                impactarbiter.watch
            except Exception as error:
                said.append(type(error).__name__)
        return None

said = []
sys.meta_path.insert(0, Asks())
assert callable(impactarbiter.watch)
print(*said)
"""


def test_a_question_in_the_middle_of_another_gets_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", NESTED],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.stdout, done.stderr) == ("UsageError\n", "")
