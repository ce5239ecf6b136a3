"""Work that is put off to a moment at which it can be done."""

from __future__ import annotations

import _signal
import ctypes
import errno
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import impactarbiter
from impactarbiter import _signals
from impactarbiter.core import hooks, ledger
from impactarbiter.core.signals import Signals
from impactarbiter.core.wire import Counts
from impactarbiter.watching.moments import between_bytecodes

MAIN = threading.main_thread()


def from_a_thread(**how: object) -> tuple[threading.Thread, list[object]]:
    """Asks for work from another thread; whoever did it."""
    done: list[object] = []
    thread = threading.Thread(
        target=between_bytecodes,
        args=(lambda: done.append(threading.current_thread()),),
        kwargs=how,
    )
    thread.start()
    return thread, done


def test_the_main_thread_does_it_when_it_comes_by() -> None:
    thread, done = from_a_thread(patience=60.0)
    while thread.is_alive():
        sum(range(100))
    assert done == [MAIN]


def test_the_thread_does_it_where_the_main_one_cannot() -> None:
    elsewhere = lambda: threading.current_thread() is not MAIN  # noqa: E731
    thread, done = from_a_thread(patience=0.05, good=elsewhere)
    thread.join()
    assert done == [thread]
    for _ in range(1000):  # what was asked for is not done once more
        sum(range(100))
    assert done == [thread]


def test_a_bad_moment_passes() -> None:
    asked: list[int] = []

    def good() -> bool:
        asked.append(1)
        return len(asked) > 3

    thread, done = from_a_thread(patience=60.0, good=good)
    while thread.is_alive():
        time.sleep(0.001)
    assert (done, len(asked)) == ([MAIN], 4)


class TimeIsUp(Exception):
    """What a program's own time limit raises."""


def limited(work: Callable[[], None]) -> int:
    """Has it done from a thread while the main one computes, and nothing but
    that; how often the limit came up there."""
    caught, go = 0, threading.Event()
    thread = threading.Thread(
        target=lambda: (go.wait(), between_bytecodes(work))
    )
    thread.start()
    while thread.is_alive():
        try:
            go.set()
            while thread.is_alive():
                sum(range(100))
        except TimeIsUp:
            caught += 1
    return caught


def up(*_: object) -> None:
    raise TimeIsUp


def test_what_a_handler_raises_meanwhile_is_the_program_s() -> None:
    """Once, and after the work, which is done."""
    done: list[int] = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGALRM)
        for _ in range(10_000):
            sum(range(10))
        done.append(1)

    before = signal.signal(signal.SIGALRM, up)
    try:
        assert limited(work) == 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done == [1]


def test_what_another_thread_raises_meanwhile_is_the_program_s() -> None:
    """The work is done again."""
    begun: list[int] = []
    names = {
        "__name__": "impactarbiter.some_part",
        "begun": begun,
        "raise_in": ctypes.pythonapi.PyThreadState_SetAsyncExc,
        "main": ctypes.c_ulong(MAIN.ident or 0),
        "what": ctypes.py_object(TimeIsUp),
    }
    exec(
        "def work():\n"
        "    begun.append(1)\n"
        "    if len(begun) == 1:\n"
        "        raise_in(main, what)\n"
        "    for _ in range(10_000):\n"
        "        sum(range(10))\n",
        names,
    )
    assert limited(names["work"]) == 1  # type: ignore[arg-type]
    assert begun == [1, 1]


def test_what_we_raise_is_nobody_s() -> None:
    def fails() -> None:
        raise ValueError("ours")

    assert limited(fails) == 0


def test_a_signal_whose_report_is_interrupted_is_answered() -> None:
    """A second one, seconds later, must not end the program."""
    told: list[int] = []

    def tell(number: int) -> bool:
        told.append(number)
        raise TimeIsUp

    taken = Signals((signal.SIGUSR2,), tell)
    answered: list[int] = []
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_signals, "answer", answered.append)
            with pytest.raises(TimeIsUp):
                signal.raise_signal(signal.SIGUSR2)
    finally:
        _signals.answer(signal.SIGUSR2)
        taken.give_back()
    assert told == answered == [signal.SIGUSR2]


DEFAULT_AGAIN = """
import _signal, signal
from impactarbiter.core.signals import Signals

told = []

def tell(number):
    told.append(number)
    return True

pythons = _signal.signal
for _ in range(2):
    taken = Signals((signal.SIGTERM, signal.SIGUSR2), tell)
    ours = _signal.signal
    assert ours is not pythons and ours.__self__ is _signal
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.raise_signal(signal.SIGTERM)
    assert not told
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)
    assert told == [signal.SIGTERM]
    told.clear()
    taken.give_back()
    assert _signal.signal is pythons
    # Who had taken it for Python's goes on to.
    ours(signal.SIGTERM, int(signal.SIG_IGN))
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
taken = Signals((signal.SIGUSR2,), tell)
signal.raise_signal(signal.SIGUSR2)
print(told, flush=True)
signal.signal(signal.SIGUSR2, signal.SIG_DFL)  # which is to end it
signal.raise_signal(signal.SIGUSR2)
"""


def test_a_signal_to_end_is_taken_again_where_the_default_is_set() -> None:
    """Another one is the program's from then on."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", DEFAULT_AGAIN],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (
        -signal.SIGUSR2,
        f"[{int(signal.SIGUSR2)}]\n",
    ), ended


#: A process of its own sends them: a thread would hold the interpreter.
RAISED = """
import os, signal
from impactarbiter.core.signals import Signals

asked, ask = os.pipe()
program = os.getpid()
if os.fork() == 0:
    os.close(ask)
    while os.read(asked, 1):
        os.kill(program, signal.SIGUSR2)
    os._exit(0)

def interrupt(*_):
    raise TimeoutError

def set_default():
    while True:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

signal.signal(signal.SIGUSR2, interrupt)
taken = Signals((signal.SIGTERM,), lambda number: True)
for _ in range(100):
    try:
        os.write(ask, b"1")
        set_default()
    except TimeoutError:
        pass
print("each was raised")
"""


def test_what_a_handler_raises_while_the_default_is_set_is_raised() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", RAISED],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.stdout == "each was raised\n", ended


def test_who_stands_before_the_function_that_sets_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It calls ours, and ours must not call it."""
    taken = Signals((signal.SIGUSR1,), lambda _number: True)
    ours, calls = _signal.signal, []

    def theirs(number: int, handler: object) -> object:
        calls.append(number)
        return ours(number, handler)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(_signal, "signal", theirs)
        more = Signals((signal.SIGUSR2,), lambda _number: True)
        assert _signal.signal is theirs
        before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, before)
        assert calls == [signal.SIGUSR2] * 2
        more.give_back()
        assert _signal.signal is theirs
    taken.give_back()
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_what_comes_in_a_look_is_done_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    with impactarbiter.watch(step="manual") as arbiter:
        diagnostician = arbiter._diagnostician
        look = diagnostician._look

        def interrupted(tick: int) -> object:
            assert arbiter.looking
            arbiter.when_free(lambda: told.append("later"))
            told.append("look")
            return look(tick)

        monkeypatch.setattr(diagnostician, "_look", interrupted)
        arbiter._look(1)
        assert told == ["look", "later"]
        arbiter.when_free(lambda: told.append("now"))
        assert told[-1] == "now"


class Default(int):
    """What a signal is taken with."""

    def __call__(self, number: int, frame: object) -> None:
        raise TimeoutError(number)


def test_signals_of_others_are_left_alone() -> None:
    handler = Default(signal.SIG_DFL)
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        assert not _signals.take(signal.SIGUSR2, handler)
        assert not _signals.give_back(signal.SIGUSR2, handler)
    finally:
        signal.signal(signal.SIGUSR2, before)
    for wrong in (0, -1, signal.SIGKILL, 1 << 20):
        with pytest.raises(ValueError, match="no signal"):
            _signals.take(wrong, handler)
        assert not _signals.give_back(wrong, handler)
        _signals.answer(wrong)


def test_a_signal_that_is_taken_shows_as_before() -> None:
    """To all that ask Python; what is set afterwards is in charge."""
    handler = Default(signal.SIG_DFL)
    before = [signal.getsignal(n) for n in signal.valid_signals()]
    assert _signals.take(signal.SIGUSR2, handler)
    try:
        now = [signal.getsignal(n) for n in signal.valid_signals()]
        assert now == before
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
        with pytest.raises(TimeoutError):
            signal.raise_signal(signal.SIGUSR2)
        assert not _signals.take(signal.SIGUSR2, handler)  # ours by now
        old = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        assert old is signal.SIG_DFL
        signal.raise_signal(signal.SIGUSR2)
        assert not _signals.give_back(signal.SIGUSR2, handler)
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def ignore_in_c(number: int) -> None:
    """Python's table does not know of it."""
    set_in_c = ctypes.CDLL(None).signal
    set_in_c.argtypes = [ctypes.c_int, ctypes.c_void_p]
    set_in_c(number, int(signal.SIG_IGN))


def test_what_c_code_has_set_meanwhile_stays() -> None:
    handler = Default(signal.SIG_DFL)
    assert _signals.take(signal.SIGUSR2, handler)
    try:
        ignore_in_c(signal.SIGUSR2)
        assert not _signals.give_back(signal.SIGUSR2, handler)
        signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert _signals.take(signal.SIGUSR2, handler)
    assert _signals.give_back(signal.SIGUSR2, handler)


def test_what_c_code_has_set_stays_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change of Python's table would set the default one for a moment."""
    changed: list[int] = []
    handler = Default(signal.SIG_DFL)
    assert _signals.take(signal.SIGUSR2, handler)
    try:
        ignore_in_c(signal.SIGUSR2)
        with monkeypatch.context() as patch:
            patch.setattr("_signal.signal", lambda n, _: changed.append(n))
            assert not _signals.give_back(signal.SIGUSR2, handler)
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert not changed


GIVEN_BACK = """
import signal, threading
from impactarbiter import _signals
from impactarbiter.core.signals import Signals
taken = Signals((signal.SIGHUP, signal.SIGTERM), bool)
{way}
signal.raise_signal(signal.SIGTERM)
print("alive", flush=True)
"""


IN_A_THREAD = """
one = threading.Thread(target=taken.give_back)
one.start()
one.join()
"""
INTERRUPTED = """
import _signal
real = _signal.getsignal
def refuse(*_):
    _signal.getsignal = real
    raise TimeoutError
_signal.getsignal = refuse
try:
    taken.give_back()
except TimeoutError:
    signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.parametrize(
    "way",
    [
        IN_A_THREAD,
        f"_signals.hold(){IN_A_THREAD}_signals.let_go()",
        INTERRUPTED,
    ],
    ids=["thread", "waiting", "interrupted"],
)
def test_what_is_given_back_ends_a_program(way: str) -> None:
    """On any thread, while signals wait, and whatever is raised meanwhile."""
    text = GIVEN_BACK.format(way=way)
    ended = subprocess.run(
        [sys.executable, "-P", "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, ""), ended


HELD = """
import signal, time
from impactarbiter import _signals
from impactarbiter.core.signals import Signals
told = []
taken = Signals((signal.SIGTERM,), lambda n: told.append(n))
_signals.hold()
signal.raise_signal(signal.SIGTERM)
time.sleep(5.2)
{then}
print(told, flush=True)
"""


@pytest.mark.parametrize(
    ("then", "ended", "said"),
    [
        ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM, ""),
        ("_signals.let_go()", 0, "[15]\n"),
    ],
    ids=["again", "over"],
)
def test_while_signals_wait_a_second_one_ends_a_program_that_is_stuck(
    then: str, ended: int, said: str
) -> None:
    """One that has waited is the first."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", HELD.format(then=then)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (ended, said), done


THEIRS = """
import signal, time
from impactarbiter.base.waiting import handlers_wait

def came(number, _frame):
    print(number, inside, flush=True)

inside = True
numbers = signal.SIGTERM, signal.SIGUSR1, signal.SIGINT
for number in numbers:
    signal.signal(number, came)
with handlers_wait(but=signal.SIGINT):
    for pause in (5.2, 0):
        for number in numbers:
            signal.raise_signal(number)
        time.sleep(pause)
    inside = False
"""


def test_of_the_program_s_own_one_that_asks_for_an_end_again_is_handled() -> (
    None
):
    """Others wait, however long, and an interrupt does not."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", THEIRS],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done
    told = done.stdout.splitlines()
    term, usr1 = int(signal.SIGTERM), int(signal.SIGUSR1)
    assert told[:3] == ["2 True", f"{term} True", "2 True"]
    assert sorted(told[3:]) == sorted([f"{term} False", f"{usr1} False"])


@pytest.mark.parametrize(
    ("name", "waits"), [("code", False), ("numpy.ia_part", True)]
)
def test_a_program_s_own_module_is_not_waited_for(
    name: str,
    waits: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may go by the name of one that a report needs, and train in it."""
    place = tmp_path if not waits else tmp_path / "site-packages"
    place.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(str(place))
    (place / f"{name.rpartition('.')[2]}.py").write_text(
        "import sys\nsys.ia_seen.append(sys.ia_arbiter.ready)\n"
    )
    if waits:
        monkeypatch.setattr("numpy.__path__", [str(place)])
    seen: list[bool] = []
    monkeypatch.setattr(sys, "ia_seen", seen, raising=False)
    monkeypatch.delitem(sys.modules, name, raising=False)
    with impactarbiter.watch(step="manual") as arbiter:
        monkeypatch.setattr(sys, "ia_arbiter", arbiter, raising=False)
        importlib.import_module(name)
        assert arbiter.ready
    monkeypatch.delitem(sys.modules, name)
    assert seen == [not waits]


@pytest.mark.parametrize(
    "shortage",
    [
        MemoryError(),
        OSError(errno.EMFILE, "of the process"),
        OSError(errno.ENFILE, "of the machine"),
    ],
)
def test_a_look_that_gets_no_memory_is_made_later(
    monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    """A program near the end of its memory, or with no file left, is watched
    to the end."""
    kept: list[torch.Tensor] = []
    refused: list[int] = []
    with impactarbiter.watch(step="manual") as arbiter:
        look = arbiter._diagnostician._look

        def scarce(tick: int) -> object:
            if len(refused) < 3:
                refused.append(tick)
                raise type(shortage)(*shortage.args)
            return look(tick)

        monkeypatch.setattr(arbiter._diagnostician, "_look", scarce)
        for _ in range(60):
            kept.append(torch.ones(64))
            arbiter.step()
        assert len(refused) == 3
        (finding,) = arbiter.report().findings
    assert finding.verdict == "leak"
    assert finding.bytes_per_step == pytest.approx(256)


def test_looks_are_made_where_a_step_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    seen: list[Counts] = []

    def look(tick: int) -> None:
        seen.append(ledger.status().counts)
        hooks.look_at(tick + 1)

    with impactarbiter.watch() as arbiter:
        monkeypatch.setattr(arbiter._diagnostician, "_look", look)
        hooks.look_at(1)
        for _ in range(8):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        assert [c.optimizer for c in seen[2:]] == list(range(1, 9))
        assert all(c.optimizer == c.module for c in seen[2:])
        # What lasts longer than two steps' ticks is an evaluation.
        for _ in range(12):
            model(torch.ones(1, 2))
        assert [c.module for c in seen[10:]] == list(range(8 + 7, 8 + 13))
