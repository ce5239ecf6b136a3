"""Files of ours: whole or not there, and for their owner's eyes alone."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import impactarbiter
from impactarbiter import MemoryTracker
from impactarbiter.base import files
from impactarbiter.base.errors import ReportError
from impactarbiter.base.files import PUBLIC, write_atomic
from impactarbiter.integrations import startup_file
from impactarbiter.model.finding import Finding, Site
from impactarbiter.model.report import History, Report
from impactarbiter.reports.outputs import write_files
from impactarbiter.reports.read_bundle import read_bundle

REPORT = Report(
    findings=(
        Finding(
            verdict="leak",
            allocated_at=Site("/home/me/train.py", 3, "step"),
            bytes_per_step=100.0,
        ),
    ),
    steps=40,
    live_bytes=4000,
    history=History(tuple(range(40)), tuple(range(0, 4000, 100))),
)


def to_text(report: Report, path: str) -> None:
    write_files(report, path)


#: Every writer of a report.
WRITERS: dict[str, Callable[[Report, str], object]] = {
    "x.json": Report.to_json,
    "x.html": Report.to_html,
    "x.sarif": Report.to_sarif,
    "x.png": Report.plot,
    "x.svg": Report.plot,
    "x.pdf": Report.plot,
    "x": to_text,
}
writers = pytest.mark.parametrize(
    ("name", "write"), WRITERS.items(), ids=list(WRITERS)
)


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)  # what we don't ask for, nobody forbids
    yield
    os.umask(before)


# -- for whom -----------------------------------------------------------------


@writers
def test_a_report_is_its_owners(
    name: str, write: Callable[[Report, str], object], tmp_path: Path
) -> None:
    write(REPORT, str(tmp_path / name))
    files = list(tmp_path.iterdir())
    assert files
    assert {mode(file) for file in files} == {0o600}


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.touch()
    path.chmod(0o644)
    REPORT.to_json(path)
    assert mode(path) == 0o644 and path.stat().st_size > 100


@pytest.mark.parametrize("umask", [0o777, 0o277, 0o477])
def test_a_umask_takes_nothing_from_the_owner(
    tmp_path: Path, umask: int
) -> None:
    """A file that nobody could open again would be lost."""
    path = tmp_path / "x.json"
    os.umask(umask)
    REPORT.to_json(path)
    assert mode(path) == 0o600
    write_atomic(path.with_suffix(".txt"), b"for all", mode=PUBLIC)
    assert mode(path.with_suffix(".txt")) == PUBLIC & ~umask | 0o600


def test_what_all_must_read_is_everybodys(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    startup_file.write(str(path))
    assert mode(path) == PUBLIC


def test_a_bundle_is_its_owners(tmp_path: Path) -> None:
    with impactarbiter.FlightRecorder(tmp_path / "dumps") as recorder:
        bundle = recorder.capture("test")
    assert bundle is not None
    assert mode(bundle) == 0o700
    names = {path.name: mode(path) for path in Path(bundle).iterdir()}
    assert set(names.values()) == {0o600}
    assert {"recorder.json", "events.npy", "report.json"} <= set(names)


def test_no_one_can_lay_a_link_in_the_way(tmp_path: Path) -> None:
    """The unfinished file is made new; a link by its name is left alone."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for attempt in range(3):
        link = tmp_path / f".x.json.{os.getpid()}.{attempt}.tmp"
        link.symlink_to(victim)
    REPORT.to_json(tmp_path / "x.json")
    assert victim.read_text() == "precious"
    assert Report.load(tmp_path / "x.json") == REPORT


# -- whole or not there -------------------------------------------------------


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: a disk that is full."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)


@writers
@pytest.mark.parametrize("before", [b"", b"old"], ids=["new", "old"])
def test_a_full_disk(
    name: str,
    write: Callable[[Report, str], object],
    before: bytes,
    tmp_path: Path,
) -> None:
    """Each writer fails on its way."""
    import matplotlib.backends.backend_agg  # noqa: F401 - it caches fonts

    path = tmp_path / name
    if before:
        path.write_bytes(before)
    REPORT.plot(str(tmp_path / "fonts.png"))
    (tmp_path / "fonts.png").unlink()
    with (
        small_files(100),
        pytest.raises(ReportError, match=r"cannot write .* too large"),
    ):
        write(REPORT, str(path))
    assert left(tmp_path) == ([name] if before else [])
    assert not before or path.read_bytes() == before


@pytest.mark.parametrize("size", [0, 100, 1000, 3000, 10_000])
def test_a_bundle_on_a_full_disk(size: int, tmp_path: Path) -> None:
    """It is whole, but for the report that is added to it, or not there."""
    with impactarbiter.FlightRecorder(tmp_path, events=64) as recorder:
        kept = [torch.ones(3) for _ in range(20)]
        with small_files(size):
            bundle = recorder.capture("full")
        assert left(tmp_path) == ([Path(bundle).name] if bundle else [])
        if bundle is not None:
            sites = read_bundle(bundle).by_site()
            assert sum(count for _, count, _ in sites) >= len(kept)
        again = recorder.capture("space again")
    assert again is not None and again != bundle
    assert read_bundle(again).report is not None


def test_what_is_read_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with impactarbiter.FlightRecorder(tmp_path, events=64) as recorder:
        bundle = recorder.capture("now")
    assert bundle is not None
    file = tmp_path / "report.json"
    REPORT.to_json(file)
    monkeypatch.setattr(files, "MOST_READ", file.stat().st_size)
    assert Report.load(file).steps == REPORT.steps
    monkeypatch.setattr(files, "MOST_READ", 10)
    with pytest.raises(ReportError, match=r"cannot read .*: file too large"):
        Report.load(file)
    with pytest.raises(ReportError, match=r"recorder\.json: file too large"):
        read_bundle(bundle)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_events_on_a_full_disk(form: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text("old")
    tracker = MemoryTracker("cpu", sampling_interval=0.001)
    with tracker:
        while not tracker.get_events():
            time.sleep(0.001)
        with small_files(10), pytest.raises(ReportError, match="too large"):
            tracker.export_events(str(path), form)
    assert left(tmp_path) == ["events"] and path.read_text() == "old"


@contextmanager
def deadly_limit(size: int) -> Iterator[None]:
    """What a program does that wants to be ended at the limit."""
    with small_files(size):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        yield


def blocked_and_pending() -> tuple[bool, bool]:
    return (
        signal.SIGXFSZ in signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        signal.SIGXFSZ in signal.sigpending(),
    )


def test_a_limit_of_size_ends_no_program(tmp_path: Path) -> None:
    """It raises a signal in whoever writes beyond it."""
    path = tmp_path / "x.json"
    with deadly_limit(10):
        with pytest.raises(ReportError, match="too large"):
            write_atomic(path, b"more than ten bytes")
        assert blocked_and_pending() == (False, False)
        write_atomic(path, b"fits")
    assert left(tmp_path) == ["x.json"] and path.read_bytes() == b"fits"


def test_a_signal_of_size_that_waited_before_waits_on(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXFSZ})
    try:
        with deadly_limit(10):
            signal.pthread_kill(threading.get_ident(), signal.SIGXFSZ)
            with pytest.raises(ReportError, match="too large"):
                write_atomic(tmp_path / "x", b"more than ten bytes")
            assert blocked_and_pending() == (True, True)
            assert signal.sigwait({signal.SIGXFSZ}) == signal.SIGXFSZ
            with pytest.raises(ReportError, match="too large"):
                write_atomic(tmp_path / "x", b"more than ten bytes")
            assert blocked_and_pending() == (True, False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert left(tmp_path) == []


def test_a_limit_of_size_ends_no_program_with_a_recorder(
    tmp_path: Path,
) -> None:
    with (
        impactarbiter.FlightRecorder(tmp_path, events=64) as recorder,
        deadly_limit(100),
    ):
        assert recorder.capture("full") is None
        assert blocked_and_pending() == (False, False)
    assert left(tmp_path) == []


def test_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes into one waits for no reader, nor long for a slow one."""
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ReportError, match="nobody reads this pipe"):
        write_atomic(pipe, b"x")
    data = bytes(range(256)) * 4000
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open(reader, "rb") as stream:
        with pytest.raises(ReportError, match="too slow"):
            write_atomic(pipe, data)  # more than it holds
        assert data.startswith(stream.read())
        os.set_blocking(reader, True)
        keeper = os.open(pipe, os.O_WRONLY)  # until then, no end is read
        monkeypatch.setattr(files, "PATIENCE", 60.0)
        thread = threading.Thread(target=write_atomic, args=(pipe, data))
        thread.start()
        assert stream.read(len(data)) == data
        thread.join()
        os.close(keeper)
    with pytest.raises(ReportError, match="nobody reads this pipe"):
        write_atomic(pipe, b"x")


@writers
def test_a_device_that_is_full(
    name: str, write: Callable[[Report, str], object], tmp_path: Path
) -> None:
    """A device cannot be replaced, only written to."""
    path = tmp_path / name
    path.symlink_to("/dev/full")
    for suffix in ("json", "txt", "html"):
        (tmp_path / f"x.{suffix}").unlink(missing_ok=True)
        (tmp_path / f"x.{suffix}").symlink_to("/dev/full")
    with pytest.raises(ReportError, match="no space left"):
        write(REPORT, str(path))
    assert Path("/dev/full").is_char_device()


#: Root may write anywhere: the capabilities that let it are given up first.
UNPRIVILEGED = """
import ctypes, sys
version, none = 0x20080522, (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(version), none) == 0
"""


def run_unprivileged(code: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *args],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    code = (
        "import impactarbiter, impactarbiter.reports.outputs as outputs\n"
        "import matplotlib.backends.backend_agg, jinja2\n"
        "from impactarbiter.model.report import Report\n"
        "from impactarbiter import FlightRecorder\n"
        "from impactarbiter.base.errors import ReportError\n"
        + UNPRIVILEGED
        + "folder = sys.argv[1]\n"
        "report = Report()\n"
        "def recorder(path):\n"
        "    FlightRecorder(path).start()\n"
        "for write in (report.to_json, report.to_html, report.to_sarif,\n"
        "              lambda p: report.plot(p + '.png'), recorder,\n"
        "              lambda p: outputs.write_files(report, p)):\n"
        "    try:\n"
        "        write(folder + '/x')\n"
        "    except ReportError as error:\n"
        "        assert 'permission denied' in str(error).lower(), error\n"
        "        print('refused')\n"
    )
    tmp_path.chmod(0o555)
    assert run_unprivileged(code, str(tmp_path)) == "refused\n" * 6
    tmp_path.chmod(0o755)
    assert left(tmp_path) == []


def test_what_may_not_be_changed(tmp_path: Path) -> None:
    code = (
        "from impactarbiter.base.files import check_changeable\n"
        "from impactarbiter.base.errors import ReportError\n"
        + UNPRIVILEGED
        + "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        check_changeable(path)\n"
        "        print('may be')\n"
        "    except ReportError as error:\n"
        "        print(error)\n"
    )
    names = ["own.py", "two.py", "locked.py", "gone.py"]
    own, two, locked, gone = (tmp_path / name for name in names)
    for path in (own, two, locked):
        path.write_text("x")
    (tmp_path / "link.py").symlink_to(own)
    os.link(two, tmp_path / "same.py")
    locked.chmod(0o444)
    paths = map(str, (own, tmp_path / "link.py", two, locked, gone))
    said = run_unprivileged(code, *paths).splitlines()
    assert said[:2] == ["may be"] * 2
    assert "2 names (hard links) stand for it; copy it" in said[2]
    assert "the file is read-only; make it writable" in said[3]
    assert "no such file" in said[4]
    assert all("or apply the diff by hand" in text for text in said[2:])


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert left(tmp_path) == ["x.json"] and path.read_text() == "old"


OUTPUT = """
import sys
from impactarbiter.base.files import check_writable, write_atomic
print("before", flush=True)
check_writable(sys.argv[1])
write_atomic(sys.argv[1], b"ours\\n")
print("after", flush=True)
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("piped", [True, False])
def test_what_is_open_is_written_on(
    name: str, piped: bool, tmp_path: Path
) -> None:
    """A log that the output goes to is neither replaced nor emptied."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    log = tmp_path / "log"
    log.write_text("old\n")
    command = [sys.executable, "-c", OUTPUT, name]
    with log.open("a") as stream:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE if piped else stream,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.stderr == ""
    output = "old\n" + done.stdout if piped else log.read_text()
    assert output == "old\nbefore\nours\nafter\n"
    assert sorted(os.listdir(tmp_path)) == ["link", "log"]


@pytest.mark.parametrize("how", ["<&-", "<log"])
def test_what_is_not_open_for_writing(how: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("old\n")
    program = (
        "from impactarbiter.base.files import check_writable\n"
        "check_writable('/dev/fd/0')\n"
    )
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -c \"{program}\" {how}"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "ReportError: cannot write '/dev/fd/0': " in done.stderr
    assert (tmp_path / "log").read_text() == "old\n"


@pytest.mark.parametrize("name", ["\0", "\ud800"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ReportError):
        files.check_writable(name)
    with pytest.raises(ReportError):
        files.check_changeable(name)
    with pytest.raises(ReportError):
        write_atomic(name, b"data")
    assert files.is_no_file(name)


def test_links_that_lead_to_each_other(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(ReportError, match="too many levels"):
        files.check_writable(tmp_path / "one")
    with pytest.raises(ReportError, match="too many levels"):
        write_atomic(tmp_path / "one", b"data")
    assert (tmp_path / "one").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_is_there_keeps_its_owner(tmp_path: Path) -> None:
    target = tmp_path / "train.py"
    target.write_text("x = 1\n")
    target.chmod(0o640)
    os.chown(target, 1234, 1235)
    write_atomic(target, b"x = 2\n")
    there = target.stat()
    assert (there.st_uid, there.st_gid) == (1234, 1235)
    assert stat.S_IMODE(there.st_mode) == 0o640
