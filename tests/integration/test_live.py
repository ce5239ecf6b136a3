"""What ``run`` says while a program goes on, and when it is told to end."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warm

from impactarbiter.base.errors import UsageError
from impactarbiter.commands.live import Live, signal_number
from impactarbiter.model.moment import Moment
from impactarbiter.model.report import Report
from impactarbiter.reports.status import StatusLine, status_text

RUN = ["-m", "impactarbiter", "run"]

LOOP = """
    import signal, sys, threading, time, torch
    history = []
    net = torch.nn.Linear(8, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    {before}
    print("ready", flush=True)
    for step in range({steps}):
        loss = net(torch.randn(4, 8)).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss)
        if step == 20:
            print("going", flush=True)
        time.sleep(0.002)
"""


def loop(before: str = "", steps: int = 1 << 30) -> str:
    return LOOP.format(before=before, steps=steps)


def default_signals() -> None:
    """A shell's background job has some of them ignored."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)


def start_fresh(command: list[str], cwd: Path) -> subprocess.Popen[str]:
    """``warm.start``, but an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-P", *command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )


@contextlib.contextmanager
def running(
    folder: Path,
    text: str,
    *args: str,
    ready: str = "going",
    start: Callable[..., Any] = warm.start,
    **options: object,
) -> Iterator[Any]:
    """A watched program that has come some steps far."""
    (folder / "program.py").write_text(textwrap.dedent(text))
    command = [*RUN, *args, "program.py"]
    with start(command, cwd=folder, **options) as process:
        try:
            for line in process.stdout:
                if line == f"{ready}\n":
                    break
            yield process
        finally:
            process.kill()


def report_of(folder: Path) -> dict[str, object]:
    """The whole report; fails where it is not whole."""
    data = json.loads((folder / "r.json").read_text())
    assert data["schema"] == "impactarbiter/1"
    assert isinstance(data, dict)
    return data


def appears(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


def only_report(folder: Path) -> bool:
    """Whether nothing half written is left."""
    return sorted(os.listdir(folder)) == ["program.py", "r.json"]


@pytest.mark.parametrize(
    ("number", "start"),
    [(signal.SIGTERM, start_fresh), (signal.SIGHUP, warm.start)],
    ids=["TERM", "HUP"],
)
def test_ends_with_a_report(
    tmp_path: Path, number: signal.Signals, start: Callable[..., Any]
) -> None:
    told = "--json", "r.json"
    with running(tmp_path, loop(), *told, start=start) as process:
        time.sleep(random.random())
        process.send_signal(number)
        time.sleep(0.01 * random.random())
        process.send_signal(number)  # timeout(1) sends it twice
        _, err = process.communicate(timeout=60)
    assert process.returncode == -number
    assert "__main__.history" in err
    assert report_of(tmp_path)["findings"]
    assert only_report(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("delay", range(12))
def test_ends_at_any_moment(tmp_path: Path, delay: int) -> None:
    with running(
        tmp_path, loop(), "--json", "r.json", ready="ready"
    ) as process:
        time.sleep(0.01 * 1.7**delay)
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert report_of(tmp_path)
    assert only_report(tmp_path)


#: A program with a time limit that comes up all the time, and goes on.
LIMITED = """
import os, signal, time
import torch
class Up(Exception): pass
came = []
def up(*_):
    came.append(1)
    raise Up
signal.signal(signal.SIGALRM, up)
weight = torch.nn.Parameter(torch.ones(4))
opt = torch.optim.SGD([weight], lr=0.1)
history, caught, step, told = [], 0, 0, False
while {goes_on}:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while {goes_on}:
            loss = weight.sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append(loss)
            step += 1
            if step >= 60 and not told:
                os.write(1, b"going\\n")  # whole, or once more
                told = True
            time.sleep(0.001)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Up:
        torch.set_grad_enabled(True)  # it may have come in no_grad()'s own end
        caught += 1
print(caught, len(came), flush=True)
"""


def is_ended_with_its_report(folder: Path, text: str) -> None:
    with running(folder, text, "--json", "r.json") as process:
        process.send_signal(signal.SIGTERM)
        _out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert report_of(folder)["findings"], err


def test_a_limit_that_comes_up_all_the_time_takes_no_last_report(
    tmp_path: Path,
) -> None:
    is_ended_with_its_report(tmp_path, LIMITED.format(goes_on="True"))


def test_what_a_handler_raises_while_we_are_told_to_end_takes_no_end(
    tmp_path: Path,
) -> None:
    text = LIMITED.format(goes_on="True").replace(
        "history, caught",
        """
from impactarbiter.watching.arbiter import Arbiter
free = Arbiter.when_free
def when_free(*args):
    signal.raise_signal(signal.SIGALRM)
    free(*args)
Arbiter.when_free = when_free
history, caught""",
        1,
    )
    is_ended_with_its_report(tmp_path, text)


def test_who_asks_for_a_report_after_the_last_one_ends_nothing(
    tmp_path: Path,
) -> None:
    text = """
        import atexit, os, sys, time, torch
        def last():
            print("going", flush=True)
            while not os.path.exists("asked"):
                time.sleep(0.01)
            print("done")
        atexit.register(last)
        sys.exit(7)
    """
    with running(tmp_path, text, "--json", "r.json") as process:
        process.send_signal(signal.SIGUSR1)
        (tmp_path / "asked").touch()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "done\n"), err


def test_a_program_that_has_its_own_way_to_ask_for_handlers(
    tmp_path: Path,
) -> None:
    text = """
        import _signal, sys, torch
        def getsignal(number):
            raise RuntimeError("the program's")
        print("going", flush=True)
        _signal.getsignal = getsignal
        sys.exit(4)
    """
    with running(tmp_path, text) as process:
        _out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "Traceback" not in err


def test_an_interrupt_while_a_report_is_made_ends_a_wait(
    tmp_path: Path,
) -> None:
    text = """
        import os, signal, threading, torch
        from impactarbiter.watching.arbiter import Arbiter
        free = Arbiter.when_free
        def when_free(*args):
            os.kill(os.getpid(), signal.SIGINT)
            free(*args)
        Arbiter.when_free = when_free
        try:
            print("going", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            print("interrupted")
    """
    with running(tmp_path, text, "--json", "r.json") as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "interrupted\n"), err
    assert report_of(tmp_path)


def test_what_a_limit_raises_in_a_report_is_the_program_s(
    tmp_path: Path,
) -> None:
    text = LIMITED.format(goes_on="step < 1500")
    with running(tmp_path, text, "--json", "r.json") as process:
        for _ in range(4):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    caught, came = map(int, out.split()[-2:])
    # Two that come at once are one exception.
    assert caught > 0.95 * came
    assert "no report" not in err
    assert report_of(tmp_path)["findings"]


def test_what_a_limit_raises_at_the_end_takes_no_report(
    tmp_path: Path,
) -> None:
    text = LIMITED.format(goes_on="step < 70")
    text += "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
    with running(tmp_path, text, "--json", "r.json") as process:
        _out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "no report" not in err
    assert report_of(tmp_path)["findings"]


def test_one_that_is_asked_again_in_a_long_call_ends_nothing(
    tmp_path: Path,
) -> None:
    """No bytecode comes by meanwhile, so the first has no answer yet."""
    text = loop(steps=30) + """
    from collections import deque
    from functools import partial
    from itertools import takewhile
    from operator import gt
    clock = iter(time.monotonic, None)
    print("long", flush=True)
    deque(takewhile(partial(gt, time.monotonic() + 9), clock), 0)
"""
    with running(tmp_path, text, ready="long") as process:
        for _ in range(4):
            process.send_signal(signal.SIGUSR1)
            time.sleep(1.9)
        _out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def test_asked_for_a_report(tmp_path: Path) -> None:
    """By the signal, and every now and then: always a whole file."""
    with running(
        tmp_path,
        loop("print(signal.getsignal(signal.SIGTERM))"),
        *("--json", "r.json", "--html", "r.html", "--report-every", "200ms"),
    ) as process:
        appears(tmp_path / "r.json")
        first = report_of(tmp_path)["steps"]
        assert isinstance(first, int)
        end = time.monotonic() + 2
        while report_of(tmp_path)["steps"] == first:
            assert time.monotonic() < end + 30
        while time.monotonic() < end:
            process.send_signal(signal.SIGUSR1)
            report_of(tmp_path)
            page = (tmp_path / "r.html").read_text()
            assert page.rstrip().endswith("</html>")
            time.sleep(0.01)
        assert process.poll() is None
        assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o600
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def test_findings_and_reports_are_told_on_stderr(tmp_path: Path) -> None:
    with running(tmp_path, loop(), "--signal", "USR2") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        told = next(lines)
        assert told.startswith("impactarbiter: step ")
        assert "__main__.history keeps" in told
        process.send_signal(signal.SIGUSR2)
        first = next(line for line in lines if line.startswith("ImpactArb"))
        assert "1 leak" in first
        process.send_signal(signal.SIGUSR1)  # not asked for: as in Python
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGUSR1


OWN = "signal.signal(signal.SIGTERM, lambda *_: (print('mine'), sys.exit(7)))"


def test_the_program_s_own_handler(tmp_path: Path) -> None:
    """It sees the default before, and what it sets is what happens."""
    before = f"assert not signal.getsignal(signal.SIGTERM); {OWN}"
    with running(tmp_path, loop(before), "--json", "r.json") as process:
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "mine\n"), err
    assert report_of(tmp_path)["findings"]


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """As under nohup."""
    with running(tmp_path, loop(), ignored=[signal.SIGHUP]) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


CHILDREN = """
    import os, signal, subprocess, sys, time
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    other = subprocess.Popen(["sleep", "60"])
    os.kill(child, signal.SIGTERM)
    other.terminate()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15
    assert other.wait() == -15
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.5)
    assert time.monotonic() - began >= 0.5
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        assert signal.getsignal(number) is signal.SIG_DFL
    import threading
    assert threading.active_count() == 1
    print("done")
"""


def test_children_die_as_ever_and_calls_go_on(tmp_path: Path) -> None:
    with running(tmp_path, CHILDREN, "-q", ready="done") as process:
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_other_signals_are_the_program_s(tmp_path: Path) -> None:
    """None is used to tell of those that are ours: all end a program and
    its children, and may be ignored."""
    text = """
        import os, signal
        others = [
            number for number in range(signal.SIGRTMIN, signal.SIGRTMAX)
            if signal.getsignal(number) is signal.SIG_DFL
        ]
        assert len(others) == signal.SIGRTMAX - signal.SIGRTMIN
        for number in others:
            child = os.fork()
            if child == 0:
                signal.raise_signal(number)
                os._exit(0)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert ended == -number, (ended, number)
            signal.signal(number, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            signal.pause()
    """
    with running(
        tmp_path, text, "--json", "r.json", ready="ready"
    ) as process:
        process.send_signal(signal.SIGRTMAX - 1)
        process.send_signal(signal.SIGUSR1)
        appears(tmp_path / "r.json")
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def test_a_real_time_signal_ends_the_program(tmp_path: Path) -> None:
    text = "import signal; signal.raise_signal(signal.SIGRTMAX - 1)"
    with running(tmp_path, text) as process:
        process.communicate(timeout=60)
    assert process.returncode == -(signal.SIGRTMAX - 1)


class Watch:
    """What makes reports, as far as ``Live`` asks it."""

    told = looking = False
    ready = True
    job = None

    def report(self) -> Report:
        return Report()

    stop = report

    def when_free(self, work: Callable[[], object]) -> None:
        work()

    def unsubscribe(self, listener: object) -> None:
        pass


def live(write: Callable[[Report], None], watch: Watch) -> Live:
    return Live(watch, None, write, write)  # type: ignore[arg-type]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which goes on when a test says so."""
    now = [100.0]
    monkeypatch.setattr(
        "impactarbiter.commands.live.monotonic", lambda: now[0]
    )
    return now


def start_by(
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[[Callable[..., None], tuple[object, ...]], object],
) -> None:
    monkeypatch.setattr(
        "impactarbiter.commands.live._thread",
        SimpleNamespace(start_new_thread=start),
    )


def test_a_program_has_as_long_for_itself_as_its_reports_take(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """However often it is asked, also while one is written."""
    later: list[Callable[[], None]] = []
    written: list[float] = []

    def write(report: Report) -> None:
        written.append(clock[0])
        clock[0] += 3
        ours._write_now()

    start_by(monkeypatch, lambda work, _: later.append(work))
    ours = live(write, Watch())
    ours._write_now()
    for _ in range(100):
        ours._write_now()
        clock[0] += 0.02
    assert written == [100.0] and len(later) == 1
    assert not ours._may_go_on()
    clock[0] = 106.0
    assert ours._may_go_on()
    ours._go_on()
    assert written == [100.0, 106.0]
    clock[0] = 120.0
    ours._write_now()  # who asks seldom is answered at once
    assert written == [100.0, 106.0, 120.0]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that were started."""
    threads: list[threading.Thread] = []

    def start(work: Callable[..., None], args: tuple[object, ...]) -> None:
        threads.append(threading.Thread(target=work, args=args))
        threads[-1].start()

    start_by(monkeypatch, start)
    return threads


def over(thread: threading.Thread) -> bool:
    """Whether it ends; the main thread comes by meanwhile."""
    end = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < end:
        time.sleep(0.001)
    return not thread.is_alive()


@pytest.mark.parametrize("ready", [True, False])
def test_what_was_put_off_is_done(
    ready: bool, clock: list[float], started: list[threading.Thread]
) -> None:
    """Where there was no report to be had, and where one was just made."""
    watch = Watch()
    watch.ready = ready
    written: list[Report] = []

    def write(report: Report) -> None:
        written.append(report)
        clock[0] += 3

    ours = live(write, watch)
    ours._write_now()
    assert len(written) == ready
    ours._write_now()
    (thread,) = started
    assert len(written) == ready and thread.is_alive()
    watch.ready = True
    clock[0] += 3
    assert over(thread)
    assert len(written) == ready + 1


def test_a_report_that_was_made_meanwhile_is_the_one_asked_for(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    waits: list[threading.Thread] = []
    start_by(
        monkeypatch,
        lambda work, args: waits.append(
            threading.Thread(target=work, args=args)
        ),
    )
    watch = Watch()
    watch.ready = False
    written: list[Report] = []
    ours = live(written.append, watch)
    ours._write_now()
    watch.ready = True
    ours._write_now()
    clock[0] += 10
    (thread,) = waits
    thread.start()
    assert over(thread)
    assert len(written) == 1


def test_nothing_is_asked_of_an_interpreter_that_may_end(
    monkeypatch: pytest.MonkeyPatch, started: list[threading.Thread]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        "impactarbiter.watching.moments.between_bytecodes",
        lambda *work: asked.append(work),
    )
    watch = Watch()
    watch.ready = False
    ours = live(lambda report: None, watch)
    ours._write_now()
    ours.end()
    assert over(started[0])
    assert not asked


def test_an_import_that_goes_on_keeps_no_program_from_its_end(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    ended: list[tuple[int, int]] = []
    threads: list[object] = []
    monkeypatch.setattr(os, "kill", lambda *to: ended.append(to))
    start_by(monkeypatch, lambda *work: threads.append(work))
    watch = Watch()
    watch.ready = False
    written: list[Report] = []
    ours = live(written.append, watch)
    ours._signal(signal.SIGTERM)
    clock[0] += 3
    ours._signal(signal.SIGTERM)  # it ends no later for that
    assert len(threads) == 1 and not ours._may_go_on()
    clock[0] += 2
    watch.looking = True  # which is over some time
    assert not ours._may_go_on()
    watch.looking = False
    assert ours._may_go_on()
    ours._go_on()
    assert ended == [(os.getpid(), signal.SIGTERM)] and not written


FIRST = """
import os, signal, torch
kept = []
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters())
for step in range(80):
    loss = net(torch.ones(2, 4)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    kept.append(loss)
    if step == 20:
        signal.raise_signal(signal.SIGTERM)
print(os.getpid(), len(kept), flush=True)
"""


def test_the_first_process_of_a_container_goes_on(tmp_path: Path) -> None:
    """SIGTERM does nothing to it by default; it is watched to its end."""
    alone = ["unshare", "--user", "--pid", "--fork", "--map-root-user"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    (tmp_path / "prog.py").write_text(FIRST)
    done = subprocess.run(
        [*alone, sys.executable, *RUN, "--json", "r.json", "prog.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "1 80\n"), done.stderr
    report = report_of(tmp_path)
    assert report["steps"] >= 79 and report["findings"]
    assert done.stderr.count("ImpactArbiter: ") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_no_first_process_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("impactarbiter.commands.live.getpid", lambda: 1)
    written: list[Report] = []
    ours = live(written.append, Watch())
    assert ours._signal(number)
    assert len(written) == 1 and not ours.came and not ours._over


def test_where_no_thread_is_left_a_program_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[tuple[int, int]] = []

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(os, "kill", lambda *to: ended.append(to))
    start_by(monkeypatch, refuse)
    watch = Watch()
    watch.ready = False
    ours = live(lambda report: None, watch)
    ours._signal(signal.SIGTERM)
    assert ended == [(os.getpid(), signal.SIGTERM)]


OWN_MODULE = """
import time
import torch
history = []
net = torch.nn.Linear(8, 8)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
while True:
    loss = net(torch.randn(4, 8)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss)
    if len(history) == 40:
        print("going", flush=True)
    time.sleep(0.002)
"""


def test_a_program_that_trains_in_a_module_named_as_a_library_s(
    tmp_path: Path,
) -> None:
    """Its reports are made, and it ends with one."""
    (tmp_path / "rich.py").write_text(OWN_MODULE)
    with running(
        tmp_path,
        "import os, sys; sys.path.insert(0, os.getcwd()); import rich",
        *("-q", "--json", "r.json", "--report-every", "100ms"),
        start=start_fresh,
    ) as process:
        appears(tmp_path / "r.json")
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert report_of(tmp_path)["findings"]


DEEP = """
import os, signal, sys, time
def deep(n):
    if n:
        return deep(n - 1)
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    for _ in range(10):
        time.sleep(0.01)
    print("back")
deep(sys.getrecursionlimit() - int(sys.argv[2]))
"""


@pytest.mark.parametrize("left", [10, 25, 60])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_a_program_that_has_few_calls_left(
    tmp_path: Path, name: str, left: int
) -> None:
    """Its report takes more of them than it has."""
    (tmp_path / "program.py").write_text(DEEP)
    done = warm.run(
        [*RUN, "-q", "program.py", name, str(left)], cwd=tmp_path
    )
    ends = name == "SIGTERM"
    assert done.returncode == (-signal.SIGTERM if ends else 0), done.stderr
    assert done.stdout == ("" if ends else "back\n")
    assert done.stderr.count("ImpactArbiter: ") == (1 if ends else 2)
    assert "RecursionError" not in done.stderr


LAST_OFF_MAIN = """
import signal, threading
from impactarbiter.commands.live import ENDING, Live
from impactarbiter.core.signals import Signals
ours = Live(None, None, None, None)
ours._over = True
ours._signals = Signals(ENDING, ours._signal)
signal.raise_signal(signal.SIGTERM)
assert ours.came == [signal.SIGTERM]
last = threading.Thread(target=ours.let_go)
last.start()
last.join()
print("alive", flush=True)
"""


def test_ends_where_the_last_report_is_made_in_a_thread() -> None:
    """Of ours, while the main one is in a call that lasts."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", LAST_OFF_MAIN],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, ""), ended


def test_where_no_thread_is_left_nothing_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the program, where a handler is called: it may ask again."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    start_by(monkeypatch, refuse)
    watch = Watch()
    watch.ready = False
    written: list[Report] = []
    ours = live(written.append, watch)
    ours._write_now()
    watch.ready = True
    ours._write_now()
    assert len(written) == 1


HALF = """
    import os, signal, sys, time
    class Finder:
        count = 0
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name.startswith("numpy"):
                cls.count += 1
                if cls.count == 10:
                    {comes}
    sys.meta_path.insert(0, Finder)
    import numpy
    print(numpy.unique([1, 1]), flush=True)
    while not os.path.exists("r.json"):
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("comes", "code"),
    [
        ("signal.raise_signal(signal.SIGUSR1)", 0),
        ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
        ("time.sleep(0.3)", 0),
    ],
    ids=["asked", "ended", "regular"],
)
def test_a_report_waits_for_an_import_of_the_program_s(
    tmp_path: Path, comes: str, code: int
) -> None:
    """It needs what is half there."""
    with running(
        tmp_path,
        HALF.format(comes=comes),
        *("--json", "r.json", "--report-every", "100ms"),
        start=start_fresh,
        ready="[1]",
    ) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert report_of(tmp_path)
    assert "warning" not in err


def test_a_main_thread_that_waits(tmp_path: Path) -> None:
    text = """
        import threading, time, torch
        history = []
        def work():
            net = torch.nn.Linear(8, 8)
            while True:
                loss = net(torch.randn(4, 8)).sum()
                loss.backward()
                history.append(loss)
                if len(history) == 40:
                    print("going", flush=True)
                time.sleep(0.002)
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    """
    with running(
        tmp_path, text, "--json", "r.json", "--report-every", "100ms"
    ) as process:
        appears(tmp_path / "r.json")
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert report_of(tmp_path)["findings"]


def test_a_look_that_never_ends(tmp_path: Path) -> None:
    """A second signal ends the program, some seconds after the first."""
    text = loop(
        """
    from impactarbiter.judging.diagnostician import Diagnostician
    def stuck(self, tick):
        print("stuck", flush=True)
        while True:
            time.sleep(0.01)
    Diagnostician._look = stuck
    """
    )
    with running(tmp_path, text, ready="stuck") as process:
        for _ in range(60):
            process.terminate()
            time.sleep(0.5)
            if process.poll() is not None:
                break
        assert process.poll() == -signal.SIGTERM


def test_quiet_and_stdout(tmp_path: Path) -> None:
    args = "-q", "--live", "--json", "-"
    with running(tmp_path, loop(steps=100), *args) as process:
        out, err = process.communicate(timeout=60)
    assert json.loads(out)["schema"] == "impactarbiter/1"
    assert err.startswith("\nImpactArbiter: ") and "1 leak: " in err
    assert err.count("\n") == 2 and "\x1b" not in err
    shown = warm.run(["-m", "impactarbiter", "report", "-", "-q"], text=out)
    assert shown.stdout.startswith("ImpactArbiter: ")
    assert shown.stdout.count("\n") == 1


def test_a_status_line_on_a_terminal(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    (tmp_path / "program.py").write_text(textwrap.dedent(loop(steps=150)))
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-P", *RUN, "--live", "program.py"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**env, "COLUMNS": "100", "LINES": "30"},
    ) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                written += part
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[1;29r" in written  # the last row is taken,
    assert b"\x1b[r" in written  # and given back
    assert b"\xc2\xb7 live " in written
    assert b"\x1b[1;33m" not in written  # no colour was asked for


def test_the_row_is_that_of_the_terminal_drawn_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Standard output may be a file, or another terminal."""
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as shown, open(theirs, "w") as stream:
        termios.tcsetwinsize(theirs, (50, 132))
        StatusLine(stream).show(Moment(3, "optimizer", 1, 2, 3))
        written = b""
        while not written.endswith(b"\x1b[K\x1b8"):  # as each drawing does
            written += shown.read(4096)
    assert b"\x1b[1;49r" in written and b"\x1b[50;1H" in written


def test_the_status_in_words() -> None:
    before = Moment(1204, "optimizer", 3 << 20, 4 << 20, 5 << 30)
    assert status_text(before) == (
        "step 1,204 \u00b7 live 3.0 MiB (peak 4.0 MiB) \u00b7 RSS 5.0 GiB"
        " \u00b7 no leak so far"
    )
    leaking = Moment(9, "backward", 1, 2, 0, 2048.0, 1, 50, 100.0)
    assert status_text(leaking).endswith(
        "1 leak \u00b7 2.0 KiB a step \u00b7 out of memory in 50 steps"
        " (~1 min 40 s)"
    )


def test_the_status_in_a_short_row() -> None:
    """What matters least is left out; the end is not cut off."""
    said = Moment(
        856, "optimizer", 3 << 20, 4 << 20, 5 << 30, 5837.0, 2, 4799466, 283000
    )
    rows = {room: status_text(said, room) for room in (160, 100, 90, 79, 64)}
    assert all(len(row) <= room for room, row in rows.items())
    head = "step 856 \u00b7 "
    leaks = "2 leaks \u00b7 5.7 KiB a step \u00b7 out of memory in "
    assert rows[160] == status_text(said)
    assert rows[100].startswith(head + "live 3.0 MiB \u00b7 2 leaks")
    assert rows[100].endswith("in 4,799,466 steps (~3 d 6 h)")
    assert rows[79] == f"{head}live 3.0 MiB \u00b7 {leaks}~3 d 6 h"
    assert rows[64] == f"{head}{leaks}~3 d 6 h"
    calm = Moment(1204, "optimizer", 3 << 20, 4 << 20, 5 << 30)
    assert status_text(calm, 42) == f"step 1,204 \u00b7 live 3.0 MiB{GOOD}"


#: The end of the row while nothing was found.
GOOD = " \u00b7 no leak so far"


def test_names_of_signals() -> None:
    assert signal_number("usr1") == signal.SIGUSR1
    assert signal_number("SIGUSR2") == signal.SIGUSR2
    assert signal_number("12") == 12
    assert signal_number("none") == 0
    for wrong in ("KILL", "TERM", "9", "INT", "soon", "0", "999"):
        with pytest.raises(UsageError):
            signal_number(wrong)
