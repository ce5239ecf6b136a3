"""``impactarbiter attach``: processes that run are watched, then let go."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm

from impactarbiter.attaching import entrance, errand, inside, target
from impactarbiter.attaching.target import AttachError
from impactarbiter.base.errors import UsageError
from impactarbiter.watching import attended, named

pytest.importorskip("pyinjector")

ATTACH = ["-m", "impactarbiter", "attach"]

LOOP = """
    import sys, time, torch

    class Trainer:
        def __init__(self):
            self.history = []

    def main():
        trainer = Trainer()
        net = torch.nn.Linear(8, 8)
        opt = torch.optim.SGD(net.parameters(), lr=0.01)
        print("ready", flush=True)
        while True:
            loss = net(torch.randn(4, 8)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
            trainer.history.append(loss)
            {pause}

    {before}
    main()
"""


#: Those that are watched do not know of us yet.
WITHOUT_US = "numpy", "torch", "torch._dynamo"


@contextlib.contextmanager
def running(folder: Path, text: str) -> Iterator[warm.Program]:
    """A program that has said that it is ready."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    with warm.start([str(path)], modules=WITHOUT_US) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def loop(pause: str = "time.sleep(0.005)", before: str = "") -> str:
    return LOOP.format(pause=pause, before=before)


@pytest.fixture(scope="module")
def trainer(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[warm.Program]:
    with running(tmp_path_factory.mktemp("loop"), loop()) as process:
        yield process


def attach(
    process: warm.Program, *args: str
) -> subprocess.CompletedProcess[str]:
    return warm.run([*ATTACH, *args, str(process.pid)])


def started(process: warm.Program, folder: Path) -> subprocess.Popen[str]:
    """An attacher that watches by now, with its folder in ``folder``."""
    folder.mkdir(exist_ok=True)
    attacher = subprocess.Popen(
        [sys.executable, "-P", *ATTACH, str(process.pid)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        # A shell's background job leaves it ignored.
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),
    )
    assert attacher.stderr is not None
    assert "watching process" in attacher.stderr.readline()
    return attacher


def until_free(process: warm.Program) -> None:
    """Waits until nobody watches the process any more."""
    for _ in range(100):
        said = attach(process, "--report").stderr
        if "is not watched" in said:
            return
        time.sleep(0.1)
    raise AssertionError(said)


def nothing_is_left(process: warm.Program, threads: set[str]) -> None:
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert "door.so" not in maps
    assert set(os.listdir(f"/proc/{process.pid}/task")) == threads
    assert process.poll() is None


def test_three_times_in_a_row(trainer: warm.Program, tmp_path: Path) -> None:
    threads = set(os.listdir(f"/proc/{trainer.pid}/task"))
    for _ in range(3):
        done = attach(
            trainer, "--steps", "40", "--json", str(tmp_path / "r.json")
        )
        assert done.returncode == 0, done.stderr
        assert "main().trainer.history" in done.stdout
        data = json.loads((tmp_path / "r.json").read_text())
        (finding,) = data["findings"]
        assert finding["verdict"] == "leak"
        assert finding["grown_at"]["source"] == "trainer.history.append(loss)"
        assert 40 <= data["steps"] < 200
        nothing_is_left(trainer, threads)


def test_what_it_held_before_counts(tmp_path: Path) -> None:
    text = loop().replace(
        "net = torch",
        "trainer.history += torch.ones(3000).split(1)\n"
        "        trainer.history[:] = [t.clone() for t in trainer.history]\n"
        "        net = torch",
    )
    with running(tmp_path, text) as process:
        out = tmp_path / "r.json"
        done = attach(process, "--steps", "40", "--json", str(out))
        assert done.returncode == 0, done.stderr
    data = json.loads(out.read_text())
    (finding,) = data["findings"]
    holder = finding["holder"]
    assert 3000 <= holder["older"] < holder["length"]
    assert finding["retained_bytes"] == 4 * holder["length"]
    assert sum(data["older"].values()) >= 4 * 3000
    assert "of them since the watch" in done.stdout


def test_explain(trainer: warm.Program, tmp_path: Path) -> None:
    page = tmp_path / "held.html"
    html = ("--html", str(page))
    done = attach(trainer, "--explain", "trainer.history[0]", *html)
    assert done.returncode == 0, done.stderr
    assert "main().trainer.history[0]" in done.stdout
    assert "main().trainer.history[0]" in page.read_text()
    done = attach(trainer, "--explain", "torch.nn.Linear", *html)
    assert done.stdout.startswith("1 live instance of Linear")
    assert "where the instances of Linear hang" in page.read_text()
    done = attach(trainer, "--explain", "trainer", "--json", "-")
    assert done.returncode == 2 and "expected --html F" in done.stderr
    done = attach(trainer, "--explain", "trainer.future")
    assert done.returncode == 2
    assert "trainer has no attribute 'future'" in done.stderr


def test_who_asks_again_and_who_interrupts(
    trainer: warm.Program, tmp_path: Path
) -> None:
    attacher = started(trainer, tmp_path / "ours")
    again = attach(trainer, "--steps", "5")
    assert again.returncode == 2
    assert "is watched already" in again.stderr
    report = attach(trainer, "--report")
    assert report.returncode == 0, report.stderr
    assert "watched" in report.stdout
    attacher.send_signal(signal.SIGINT)
    out, err = attacher.communicate(timeout=60)
    assert attacher.returncode == 0, err
    assert "watched" in out
    assert os.listdir(tmp_path / "ours") == []
    until_free(trainer)


def test_lets_go_when_the_attacher_is_killed(
    trainer: warm.Program, tmp_path: Path
) -> None:
    threads = set(os.listdir(f"/proc/{trainer.pid}/task"))
    attacher = started(trainer, tmp_path / "ours")
    attacher.kill()
    attacher.communicate()
    until_free(trainer)
    nothing_is_left(trainer, threads)
    assert os.listdir(tmp_path / "ours") == []


TIMER = """
    import signal, time, torch
    came = []
    signal.signal(signal.SIGALRM, lambda *_: came.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    print("ready", flush=True)
    while True:
        time.sleep(0.001)
        if len(came) > 200:
            came.clear()
"""


def test_a_process_with_a_timer(tmp_path: Path) -> None:
    with running(tmp_path, TIMER) as process:
        for _ in range(3):
            done = attach(process, "--for", "200ms")
            assert done.returncode == 0, done.stderr
        status = Path(f"/proc/{process.pid}/status").read_text()
        (blocked,) = re.findall(r"SigBlk:\s*(\w+)", status)
        assert int(blocked, 16) == 0


DEEP = """
    import sys, time, torch
    def deep(n):
        if n:
            return deep(n - 1)
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
    sys.setrecursionlimit(120)
    deep(100)
"""


def test_a_process_that_has_few_calls_left(tmp_path: Path) -> None:
    with running(tmp_path, DEEP) as process:
        done = attach(process, "--for", "500ms")
    assert done.returncode == 0, done.stderr
    assert "ImpactArbiter: no step was seen" in done.stdout


WORKERS = """
    import torch

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, index):
            return torch.full((4,), float(index))

    kept = []
    net = torch.nn.Linear(4, 4)
    opt = torch.optim.SGD(net.parameters(), lr=1e-9)
    loader = torch.utils.data.DataLoader(Numbers(), 4, num_workers=2)
    for step, batch in enumerate(loader):
        if step == 1:
            print("ready", flush=True)
        net(batch).sum().backward()
        opt.step()
        kept.append(batch.clone())
"""


def test_workers_of_a_loader_stay(tmp_path: Path) -> None:
    with running(tmp_path, WORKERS) as process:
        children = Path(
            f"/proc/{process.pid}/task/{process.pid}/children"
        ).read_text()
        done = attach(process, "--steps", "40")
        assert done.returncode == 0, done.stderr
        assert "__main__.kept" in done.stdout
        assert (
            Path(
                f"/proc/{process.pid}/task/{process.pid}/children"
            ).read_text()
            == children
        )


@pytest.mark.parametrize(
    "call",
    [
        "sum(range(2_000_000))",  # keeps the interpreter to itself
        pytest.param("torch.mm(big, big)", marks=pytest.mark.slow),
    ],
)
def test_a_process_in_long_calls(tmp_path: Path, call: str) -> None:
    text = loop(call, "big = torch.randn(2000, 2000)")
    with running(tmp_path, text) as process:
        done = attach(process, "--steps", "12", "--warmup", "0")
        assert done.returncode == 0, done.stderr
        assert "main().trainer.history" in done.stdout


def test_a_process_that_ends_meanwhile(tmp_path: Path) -> None:
    text = loop("time.sleep(.01); len(trainer.history) > 200 and sys.exit(5)")
    with running(tmp_path, text) as process:
        done = attach(process)
        assert process.wait(60) == 5
        assert done.returncode == 0, done.stderr
        assert "watched" in done.stdout


FAILS = """
    from impactarbiter.judging import diagnostician
    diagnostician.Diagnostician.look = lambda *_: 1 / 0
"""


def test_a_watch_that_ends_by_itself(tmp_path: Path) -> None:
    text = loop(before=textwrap.indent(textwrap.dedent(FAILS), "    ").strip())
    with running(tmp_path, text) as process:
        done = attach(process, "--steps", "1000000")
        assert done.returncode == 0, done.stderr
        assert "watching ended early: " in done.stdout
        assert "ZeroDivisionError" in done.stdout


def test_a_process_that_is_killed_meanwhile(
    tmp_path: Path,
) -> None:
    with running(tmp_path, loop()) as process:
        attacher = started(process, tmp_path / "ours")
        process.kill()
        _, err = attacher.communicate(timeout=60)
    assert attacher.returncode == 2
    assert f"process {process.pid} ended after" in err
    assert err.count("\n") == 1


HIDDEN = {
    "missing": ("sys.modules['impactarbiter'] = None", "cannot import"),
    "build": (
        "sys.path.insert(0, '{folder}')",
        "would import another build of impactarbiter",
    ),
}


@pytest.mark.parametrize(
    "what", ["missing", pytest.param("build", marks=pytest.mark.slow)]
)
def test_another_build(tmp_path: Path, what: str) -> None:
    (tmp_path / "impactarbiter").mkdir()
    (tmp_path / "impactarbiter" / "__init__.py").write_text("print('ran')")
    before, said = HIDDEN[what]
    text = loop(before=before.format(folder=tmp_path))
    with running(tmp_path, text) as process:
        threads = set(os.listdir(f"/proc/{process.pid}/task"))
        done = attach(process)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        nothing_is_left(process, threads)


def refusal(pid: int) -> str:
    with pytest.raises(AttachError) as caught:
        target.find(pid)
    return str(caught.value)


def test_refused_before_anything_is_touched(tmp_path: Path) -> None:
    assert "there is no process" in refusal(1 << 30)
    assert "is this command itself" in refusal(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert "is no Python program" in refusal(sleeper.pid)
        sleeper.send_signal(signal.SIGSTOP)
        os.waitpid(sleeper.pid, os.WUNTRACED)
        assert f"kill -CONT {sleeper.pid}" in refusal(sleeper.pid)
        sleeper.kill()
    assert "there is no process" in refusal(sleeper.pid)
    sleeps = "print('ready', flush=True); import time; time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", sleeps], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert "has not imported torch" in refusal(process.pid)
        seize = 0x4206
        assert ctypes.CDLL(None).ptrace(seize, process.pid, None, None) == 0
        assert f"traced by process {os.getpid()}" in refusal(process.pid)
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_s_process() -> None:
    with subprocess.Popen(["sleep", "60"], user=65534) as sleeper:
        assert "belongs to user 65534" in refusal(sleeper.pid)
        sleeper.kill()


def test_another_python() -> None:
    ours = "{}{}".format(*sys.version_info[:2])
    torch = "/v/torch/_C.cpython-{}-x86_64-linux-gnu.so"
    target._check_python(1, [torch.format(ours)])
    for version, said in (("310", "Python 3.10,"), (f"{ours}t", "t, this")):
        with pytest.raises(AttachError, match=said):
            target._check_python(1, [torch.format(version)])
    numpy = f"/v/numpy/_core/umath.cpython-{ours}-x86_64-linux-gnu.so"
    for other in (
        "/v/jaxlib/_jax.so",
        "/v/tensorflow/python/_pywrap_tensorflow_internal.so",
    ):
        target._check_python(1, [numpy, other])
    with pytest.raises(AttachError, match="torch, JAX or TensorFlow"):
        target._check_python(1, [numpy])
    core = "/v/impactarbiter/_core.cpython-311-x86_64-linux-gnu.so (deleted)"
    with pytest.raises(AttachError, match="was replaced since"):
        target._check_python(1, [torch.format(ours), core])


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (0, "--cap-add SYS_PTRACE"),
        (1, "ptrace_scope"),
        (2, "CAP_SYS_PTRACE"),
        (3, "until a reboot"),
    ],
)
def test_what_forbids_it(
    monkeypatch: pytest.MonkeyPatch, scope: int, said: str
) -> None:
    monkeypatch.setattr(target, "_scope", lambda: scope)
    text = target.forbidden(7)
    assert said in text and "\n" not in text


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["x"],
        ["1", "2"],
        ["1", "--for", "soon"],
        ["1", "--for", "1m", "--steps", "3"],
    ],
)
def test_wrong_calls(
    capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    from impactarbiter.commands import main

    assert main(["attach", *args]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- names -------------------------------------------------------------------


def test_names_are_read_and_nothing_is_called() -> None:
    store = {"a": [1, 2], -1: "last"}
    assert named.resolve("store['a'][-1]") == 2
    assert named.resolve("store[-1]") == "last"
    assert named.resolve("os.path.sep") == "/"
    for wrong in ("store.pop('a')", "1 + 1", "store[", "f'{store}'", ""):
        with pytest.raises(UsageError, match="is no name"):
            named.resolve(wrong)
    for absent in ("nowhere", "store['b']", "store.b", "store['a'][9]"):
        with pytest.raises(UsageError):
            named.resolve(absent)
    assert store


def test_reading_a_variable_keeps_nothing() -> None:
    def holder() -> Iterator[int]:
        kept = [object()]
        yield sys.getrefcount(kept)
        yield sys.getrefcount(kept)

    frames = holder()
    before = next(frames)
    assert named._local(frames.gi_frame, "kept")  # type: ignore[attr-defined]
    assert next(frames) == before


def test_a_build_is_what_was_compiled(tmp_path: Path) -> None:
    (tmp_path / "_core.x.so").write_bytes(b"one")
    (tmp_path / "words.py").write_bytes(b"a")
    first = inside.build_of(str(tmp_path))
    (tmp_path / "words.py").write_bytes(b"b")
    assert inside.build_of(str(tmp_path)) == first
    (tmp_path / "_core.x.so").write_bytes(b"two")
    assert inside.build_of(str(tmp_path)) != first


MAPS = """\
1000-2000 r-xp 00000000 00:00 1 /usr/bin/python3.11
3000-4000 r-xp 00000000 00:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6
4000-5000 rw-p 00000000 00:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6
5000-6000 r-xp 00000000 00:00 3 /usr/lib/x86_64-linux-gnu/ld-2.36.so
7000-8000 r-xp 00000000 00:00 4 /usr/lib/libjemalloc.so.2
8000-9000 rw-p 00000000 00:00 0
"""
AWAKE = "-1"
READ, MMAP, MASK, CLONE = (f"{n} 0x3 0x7f 0x40" for n in (0, 9, 14, 56))
LOCK, CONDITION = (f"202 0x7f {how} 0x2" for how in ("0x80", "0x189"))


@pytest.mark.parametrize(
    ("call", "at", "safe"),
    [
        (READ, "libc", True),
        (READ, "python", True),
        (READ, "loader", False),
        (READ, "jemalloc", False),
        (MMAP, "libc", False),
        (MASK, "libc", False),
        (CLONE, "libc", False),
        (LOCK, "libc", False),
        (LOCK, "python", True),
        (CONDITION, "libc", True),
        (AWAKE, "libc", False),
        (AWAKE, "loader", False),
        (AWAKE, "python", True),
        (AWAKE, "behind the loader", True),
    ],
)
def test_where_a_library_may_be_loaded(
    monkeypatch: pytest.MonkeyPatch, call: str, at: str, safe: bool
) -> None:
    places = {
        "python": 0x1800,
        "libc": 0x3800,
        "loader": 0x5FFF,
        "behind the loader": 0x6000,
        "jemalloc": 0x7800,
    }
    here = f"{call} 0x7ffe {places[at]:#x}\n"
    files = {"maps": MAPS, "syscall": here}
    monkeypatch.setattr(
        entrance, "kernel_file", lambda pid, name: io.StringIO(files[name])
    )
    monkeypatch.setattr(entrance.platform, "machine", lambda: "x86_64")
    assert entrance._is_safe(1, entrance._unsafe_code(1)) is safe


class Other:
    """Another tracer, which holds the process for so many looks."""

    def __init__(self, looks: float) -> None:
        self.looks = looks

    @contextlib.contextmanager
    def attach(self, pid: int) -> Iterator[str]:
        from pyinjector.api import LinuxInjectorPermissionError

        if self.looks > 0:
            self.looks -= 1
            raise LinuxInjectorPermissionError("injector_attach", -8, "no")
        yield "in"

    def status_of(self, pid: int, name: str) -> str:
        # It may be gone between the refusal and the question.
        return "77" if self.looks % 2 else "0"


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Other:
    here = Other(0)
    monkeypatch.setattr("pyinjector.api.attach", here.attach)
    monkeypatch.setattr(target, "status_of", here.status_of)
    monkeypatch.setattr(entrance, "_unsafe_code", lambda pid: [])
    monkeypatch.setattr(entrance, "_is_safe", lambda pid, unsafe: True)
    monkeypatch.setattr(
        entrance, "_vectors_kept", lambda pid: contextlib.nullcontext()
    )
    return here


def here() -> target.Target:
    stat = target._stat(os.getpid())
    assert stat is not None
    return target.Target(os.getpid(), stat[1])


def test_what_another_one_traces_is_waited_for(other: Other) -> None:
    other.looks = 8
    with entrance._stopped_safely(here()) as injector:
        assert injector == "in"


@pytest.mark.parametrize(
    ("tracer", "why"),
    [("77", "traced by process 77 already"), ("0", "this system forbids")],
    ids=["another one goes on", "nobody does"],
)
def test_what_lets_nobody_in(
    other: Other, monkeypatch: pytest.MonkeyPatch, tracer: str, why: str
) -> None:
    monkeypatch.setattr(entrance, "PATIENCE", 0.02)
    monkeypatch.setattr(target, "status_of", lambda pid, name: tracer)
    other.looks = float("inf")
    with (
        pytest.raises(AttachError, match=why),
        entrance._stopped_safely(here()),
    ):
        pass


def test_a_root_that_may_not_be_read_is_no_other_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = os.stat

    def refusing(path: object, **options: bool) -> os.stat_result:
        if str(path).startswith("/proc/"):
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(errand.os, "stat", refusing)
    with pytest.raises(AttachError, match="this system forbids"):
        errand._check_place(here(), str(tmp_path))


def test_one_of_two_that_come_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"action": "watch", "options": {}, "steps": None}
    folders = [tmp_path / "a", tmp_path / "b"]
    said = {}

    def ask(folder: Path) -> None:
        said[folder] = attended.begin(str(folder), task)

    def start(self: attended.Attended) -> None:
        monkeypatch.undo()
        second.start()
        second.join(0.2)  # it would be through by then
        self.start()

    second = threading.Thread(target=ask, args=(folders[1],))
    monkeypatch.setattr(attended.Attended, "start", start)
    with contextlib.ExitStack() as held:
        for folder in folders:
            folder.mkdir()
            alive = held.enter_context(open(folder / "alive", "w"))
            fcntl.flock(alive, fcntl.LOCK_EX)
        ask(folders[0])
        second.join()
        assert said == {
            folders[0]: {"wait": True},
            folders[1]: {"refused": "watched"},
        }
        (folders[0] / "stop").touch()
        for _ in range(3000):
            if (folders[0] / "report.json").exists():
                break
            time.sleep(0.01)
        else:
            raise AssertionError(os.listdir(folders[0]))
