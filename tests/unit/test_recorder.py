"""Bundles: what is in them, how they are kept, and how they are read."""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import impactarbiter
from impactarbiter import FlightRecorder, ReportError, UsageError, _core
from impactarbiter.commands import main
from impactarbiter.core.bundle import EVENTS, KINDS
from impactarbiter.reports.read_bundle import bundles, read_bundle
from impactarbiter.watching import recorder as recorder_module
from impactarbiter.watching.arbiter import Arbiter, current
from impactarbiter.watching.recorder import is_out_of_memory

TOO_MUCH = 10**15


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    gc.collect()
    made = impactarbiter.watch(step="manual", warmup=1, window=2)
    yield made
    made.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


@pytest.fixture
def recorder(arbiter: Arbiter, folder: Path) -> Iterator[FlightRecorder]:
    made = FlightRecorder(folder, events=100, keep=3, interval=0)
    made.start()
    yield made
    made.stop()
    assert not _core.recorder_status()["armed"]


def run_out() -> RuntimeError:
    with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
        torch.empty(TOO_MUCH)
    return caught.value


# -- writing -----------------------------------------------------------------


def test_a_failing_allocation_writes(recorder: FlightRecorder) -> None:
    kept = [torch.ones(1000) for _ in range(5)]
    wanted = _core.totals()["live_bytes"]
    error = run_out()
    assert is_out_of_memory(error)
    assert recorder.last is not None
    bundle = read_bundle(recorder.last)
    assert bundle.header.reason == "out of memory"
    assert bundle.header.device == "cpu"
    assert bundle.header.asked_bytes == 4 * TOO_MUCH
    assert bundle.header.live_bytes == wanted == 20_000
    assert bundle.header.pid == os.getpid()
    assert bundle.header.resident_bytes > 1 << 20
    ((site, count, size),) = bundle.by_site()
    assert (count, size) == (5, 20_000) and "test_recorder.py" in site
    assert KINDS[bundle.events["kind"][-1]] == "mark"
    assert bundle.events["bytes"][-1] == 4 * TOO_MUCH
    assert bundle.report is not None and bundle.report.live_bytes == 20_000
    assert bundle.holders[0].bytes == 20_000
    assert bundle.holders[0].storages == 5
    assert "kept[*]" in bundle.holders[0].path
    assert kept


def test_the_exception_is_torchs_own(recorder: FlightRecorder) -> None:
    watched = str(run_out())
    recorder.stop()
    assert watched == str(run_out())


def test_events_are_the_last_ones(recorder: FlightRecorder) -> None:
    """A ring of 100: what happened, in order, oldest first."""
    for i in range(200):
        torch.ones(i + 1)
    rows = np.frombuffer(_core.recorder_events(), EVENTS)
    # At once: the arrays below are events, too.
    path = recorder.capture("by hand")
    assert len(rows) == 100
    births = rows[rows["kind"] == 1]
    deaths = rows[rows["kind"] == 2]
    assert births["bytes"].tolist() == [4 * n for n in range(151, 201)]
    assert deaths["bytes"].tolist() == births["bytes"].tolist()
    assert (rows["address"][::2] == rows["address"][1::2]).all()
    assert (np.diff(rows["nanoseconds"].astype("i8")) >= 0).all()
    assert rows["nanoseconds"][-1] <= time.monotonic_ns()
    assert len(set(rows["site"].tolist())) == 1
    assert path is not None
    bundle = read_bundle(path)
    assert (bundle.events[:-1] == rows[1:]).all()
    assert bundle.header.all_events == 401


def test_events_know_step_and_phase(
    recorder: FlightRecorder, arbiter: Arbiter
) -> None:
    torch.ones(1)
    arbiter.step()
    with arbiter.phase("late"):
        torch.ones(2)
    rows = np.frombuffer(_core.recorder_events(), EVENTS)
    born = rows[rows["kind"] == 1]
    assert born["step"].tolist() == [0, 1]
    assert born["phase"].tolist() == [0, 1]


def test_the_second_stage_tells_the_finding(
    recorder: FlightRecorder, arbiter: Arbiter
) -> None:
    kept = []
    for _ in range(12):
        kept.append(torch.ones(500))
        arbiter.step()
    arbiter.report()
    for _ in range(5):
        kept.append(torch.ones(500))
        arbiter.step()
    run_out()
    assert recorder.last is not None
    report = read_bundle(recorder.last).report
    assert report is not None
    assert [f.verdict for f in report.findings] == ["leak"]


def test_a_failing_second_stage_harms_nothing(
    recorder: FlightRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(Arbiter, "report", fail)
    monkeypatch.setattr(recorder_module, "holders_now", fail)
    kept = torch.ones(10)
    run_out()
    assert recorder.last is not None
    bundle = read_bundle(recorder.last)
    assert bundle.header.live_bytes == 40 and bundle.holders == ()
    assert bundle.report is not None
    assert "no diagnosis could be made" in bundle.report.warnings[0]
    assert "alive by line" in str(bundle)
    del kept


def test_an_interrupt_ends_the_program(arbiter: Arbiter, folder: Path) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    folder.mkdir()
    _core.recorder_arm(str(folder), (), second_stage=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            with suppress(RuntimeError):
                torch.empty(TOO_MUCH)
            for _ in range(1000):
                pass
    finally:
        _core.recorder_disarm()


def test_all_that_waits_is_completed_in_order(
    arbiter: Arbiter, folder: Path
) -> None:
    """Failures in a thread while the main thread runs no instruction."""
    done: list[str] = []

    def run_out_often() -> None:
        for _ in range(5):
            with suppress(RuntimeError):
                torch.empty(TOO_MUCH)

    folder.mkdir()
    _core.recorder_arm(str(folder), (), second_stage=done.append)
    try:
        thread = threading.Thread(target=run_out_often)
        thread.start()
        thread.join()
        for _ in range(1000):
            pass
        assert _core.recorder_status()["waiting"] == 0
    finally:
        _core.recorder_disarm()
    assert done == [os.path.basename(path) for path in bundles(folder)]
    assert len(done) == 5


def test_the_tenth_of_a_millisecond_follows_the_ninth(folder: Path) -> None:
    for name in ("oom-0000000000001-5-10", "oom-0000000000001-5-9"):
        (folder / name).mkdir(parents=True)
    names = [os.path.basename(path) for path in bundles(folder)]
    assert names == ["oom-0000000000001-5-9", "oom-0000000000001-5-10"]


def test_sites_beyond_the_room_are_the_small_ones(
    arbiter: Arbiter, folder: Path
) -> None:
    source = "kept = []\n" + "".join(
        f"kept.append(torch.ones({(n * 37) % 50 + 1}))\n" for n in range(50)
    )
    space = {"torch": torch}
    exec(compile(source, "many_lines.py", "exec"), space)
    folder.mkdir()
    _core.recorder_arm(str(folder), (), events=10, sites=8)
    name = _core.recorder_write("few")
    _core.recorder_disarm()
    assert name is not None
    bundle = read_bundle(folder / name)
    sizes = [size for _, _, size in bundle.by_site()]
    assert sizes == [4 * n for n in range(50, 42, -1)]
    assert bundle.header.sites_left_out == 42


def test_names_of_files_that_are_no_utf8(
    recorder: FlightRecorder,
) -> None:
    """Such a file's name is read back as Python has it."""
    file, space = "/me/w\udcff\u00e9\ud83d\U0001f600.py", {"torch": torch}
    exec(compile("kept = torch.ones(1000)", file, "exec"), space)
    run_out()
    assert recorder.last is not None
    sites = read_bundle(recorder.last).sources.values()
    assert file in {site.file for site in sites}
    assert _core.is_library(file) is False
    assert _core.is_library(os.path.dirname(torch.__file__) + "/\udcff.py")


def test_without_an_arbiter_it_watches_itself(folder: Path) -> None:
    with FlightRecorder(folder, interval=0) as recorder:
        assert current() is not None
        kept = torch.ones(100)
        run_out()
        assert recorder.last is not None
        assert read_bundle(recorder.last).header.live_bytes == 400
        del kept
    assert current() is None


def test_names_stay_inside_where_they_are_masked(folder: Path) -> None:
    with impactarbiter.watch(step="manual", obfuscate=True):
        kept = torch.ones(100)
        with FlightRecorder(folder, interval=0) as recorder:
            run_out()
        assert recorder.last is not None
        files = {f.name: f.read_bytes() for f in Path(recorder.last).iterdir()}
    assert "holders.json" not in files
    assert b"test_recorder" not in b"".join(
        data for name, data in files.items() if name != "report.json"
    )
    assert read_bundle(recorder.last).by_site()[0][2] == 400
    del kept


# -- keeping -----------------------------------------------------------------


def test_a_limited_number_is_kept(
    recorder: FlightRecorder, folder: Path
) -> None:
    for _ in range(5):
        run_out()
    assert _core.recorder_status()["written"] == 5
    kept = bundles(folder)
    assert len(kept) == 3 and kept[-1] == recorder.last
    assert sorted(os.listdir(folder)) == [os.path.basename(p) for p in kept]
    recorder.stop()
    with FlightRecorder(folder, keep=2, interval=0) as again:
        assert bundles(folder) == kept[1:]
        run_out()
        assert bundles(folder) == [kept[2], again.last]


def test_many_failures_at_once_write_one(
    arbiter: Arbiter, folder: Path
) -> None:
    with FlightRecorder(folder, interval=3600) as recorder:
        for _ in range(5):
            run_out()
        assert len(bundles(folder)) == 1
        # By hand there is no waiting.
        assert recorder.capture("more") and len(bundles(folder)) == 2


def test_what_was_left_half_is_cleared(arbiter: Arbiter, folder: Path) -> None:
    folder.mkdir()
    dead = folder / ".oom-0000000000001-999999999-1.partial"
    alive = folder / f".oom-0000000000001-{os.getppid()}-1.partial"
    other = folder / "notes.txt"
    for item in (dead, alive):
        item.mkdir()
        (item / "events.npy").write_bytes(b"half")
    other.write_text("mine")
    with FlightRecorder(folder):
        assert not dead.exists() and alive.exists() and other.exists()
        assert bundles(folder) == []


def test_bundles_of_processes_that_run_stay(
    arbiter: Arbiter, folder: Path
) -> None:
    folder.mkdir()
    theirs = [f"oom-000000000000{i}-{os.getppid()}-{i}" for i in range(3)]
    dead = [f"oom-000000000000{i}-999999999-{i}" for i in range(3)]
    for name in theirs + dead:
        (folder / name).mkdir()
    with FlightRecorder(folder, keep=1, interval=0) as recorder:
        assert sorted(os.listdir(folder)) == sorted([*theirs, dead[-1]])
        path = recorder.capture("one more")
    assert path is not None
    assert sorted(os.listdir(folder)) == sorted(
        [*theirs, os.path.basename(path)]
    )


def test_size_limits_the_number(folder: Path) -> None:
    recorder = FlightRecorder(
        folder, events=100_000, keep=50, max_bytes=32 << 20
    )
    assert recorder.keep == 4
    assert FlightRecorder(folder, keep=5, max_bytes=1).keep == 1


def test_one_at_a_time(recorder: FlightRecorder, folder: Path) -> None:
    with pytest.raises(UsageError, match="active already"):
        FlightRecorder(folder).start()
    recorder.start()  # itself: nothing changes
    run_out()
    assert recorder.last is not None


@pytest.mark.parametrize("options", [{"events": 0}, {"keep": 0}, {"keep": 65}])
def test_values_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="expected a whole number"):
        FlightRecorder(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "5"])
@pytest.mark.parametrize("name", ["interval", "max_bytes"])
def test_amounts_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} is .*: expected"):
        FlightRecorder(**{name: value})


def test_a_long_interval() -> None:
    with pytest.raises(UsageError, match="from 0 to 1e\\+09"):
        FlightRecorder(interval=1e10)


def test_a_folder_whose_name_is_no_unicode(
    arbiter: Arbiter, tmp_path: Path
) -> None:
    folder = os.path.join(tmp_path, os.fsdecode(b"d\xff"))
    with FlightRecorder(folder) as recorder:
        assert recorder.capture("why") is not None
    assert len(bundles(folder)) == 1


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot write below"):
        FlightRecorder(tmp_path / "file" / "x").start()
    assert current() is None


def test_a_folder_that_vanishes(
    recorder: FlightRecorder, folder: Path
) -> None:
    """The program sees torch's error and nothing of ours."""
    shutil.rmtree(folder)
    run_out()
    assert recorder.capture("again") is None
    assert _core.recorder_status()["error"] == "No such file or directory"


def test_off_in_the_child_of_a_fork(
    recorder: FlightRecorder, folder: Path
) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            torch.ones(5)
            try:
                torch.empty(TOO_MUCH)
            except RuntimeError:
                code = len(bundles(folder))
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    run_out()
    assert len(bundles(folder)) == 1


def test_a_child_of_a_fork_completes_nothing(
    arbiter: Arbiter, folder: Path
) -> None:
    """A fork while one bundle is completed and another one waits."""
    codes: list[int] = []

    def fork_while_one_waits(name: str) -> None:
        if codes:
            return
        thread = threading.Thread(target=run_out)
        thread.start()
        thread.join()
        waiting = _core.recorder_status()["waiting"]
        pid = os.fork()
        if pid == 0:
            os._exit(_core.recorder_status()["waiting"])
        codes.extend([waiting, os.waitpid(pid, 0)[1]])

    folder.mkdir()
    _core.recorder_arm(str(folder), (), second_stage=fork_while_one_waits)
    try:
        run_out()
        for _ in range(1000):
            pass
    finally:
        _core.recorder_disarm()
    assert codes == [1, 0]


def test_nothing_is_armed_by_itself(arbiter: Arbiter) -> None:
    assert _core.recorder_events() == b""
    assert _core.recorder_write("nothing") is None
    run_out()


# -- errors that are caught --------------------------------------------------


@pytest.mark.parametrize(
    "error, says",
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: x"), True),
        (RuntimeError("shapes differ"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_that_say_so(error: BaseException, says: bool) -> None:
    assert is_out_of_memory(error) is says


def test_a_caught_failure_has_one_bundle(
    recorder: FlightRecorder, folder: Path
) -> None:
    error = run_out()
    first = recorder.settle(str(error))
    assert first == recorder.last and len(bundles(folder)) == 1
    # One that no hook of ours saw.
    second = recorder.settle("another allocator's")
    assert second not in (None, first) and len(bundles(folder)) == 2
    reason = read_bundle(str(second)).header.reason
    assert reason == "another allocator's"


def test_caught_failures_within_the_interval_write_one(
    arbiter: Arbiter, folder: Path
) -> None:
    with FlightRecorder(folder, interval=3600) as recorder:
        first = recorder.settle("another allocator's")
        assert recorder.settle("again") == first is not None
        run_out()
    assert bundles(folder) == [first]


def test_with_writes_what_the_hooks_did_not_see(
    arbiter: Arbiter, folder: Path
) -> None:
    with pytest.raises(MemoryError), FlightRecorder(folder) as recorder:
        raise MemoryError("Python's own")
    assert recorder.last is not None
    with pytest.raises(KeyError), FlightRecorder(folder):
        raise KeyError
    assert len(bundles(folder)) == 1


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_any_message_is_written(
    arbiter: Arbiter, folder: Path, text: str
) -> None:
    with pytest.raises(MemoryError), FlightRecorder(folder) as recorder:
        raise MemoryError(text)
    assert not _core.recorder_status()["armed"]
    reason = read_bundle(str(recorder.last)).header.reason
    assert reason == f"MemoryError: {text}".replace("\0", "").replace(
        "\ud800", "?"
    )


def test_a_long_reason_is_cut_between_characters(
    arbiter: Arbiter, folder: Path
) -> None:
    """A buffer's end comes after each number of bytes of a character."""
    folder.mkdir()
    _core.recorder_arm(str(folder), (), interval=0)
    try:
        for sign in ("\xe9", "\u2603", "\U0001f525"):
            for before in range(4):
                text = "x" * before + sign * 300
                name = _core.recorder_write(text)
                assert name is not None
                reason = read_bundle(folder / name).header.reason
                assert text.startswith(reason)
                least = 200 - len(sign.encode())
                assert least <= len(reason.encode()) < 200
    finally:
        _core.recorder_disarm()


# -- reading -----------------------------------------------------------------


REASON = 'a "quoted"\\ reason\twith\x01 signs \N{SNOWMAN}'


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, written once."""
    with (
        impactarbiter.watch(step="manual"),
        FlightRecorder(tmp_path_factory.mktemp("dumps")) as recorder,
    ):
        kept = torch.ones(100)
        path = recorder.capture(REASON)
        del kept
    assert path is not None
    return Path(path)


@pytest.fixture
def written(sample: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(sample, tmp_path / sample.name))


def test_any_text_is_json(written: Path) -> None:
    assert read_bundle(written).header.reason == REASON


def test_the_command_shows_it(
    written: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["report", str(written)]) == 0
    said = capsys.readouterr().out
    assert "Flight recorder:" in said and "test_recorder.py" in said
    assert "held by" in said and "watched 0 steps" in said
    sarif = tmp_path / "x.sarif"
    assert main(["report", str(written), "--sarif", str(sarif)]) == 0
    assert sarif.exists() and capsys.readouterr().out == ""
    (written / "report.json").unlink()
    assert main(["report", str(written), "--sarif", str(sarif)]) == 2
    assert "memory was too short" in capsys.readouterr().err


def test_the_first_stage_is_enough(written: Path) -> None:
    for name in ("report.json", "holders.json"):
        (written / name).unlink()
    bundle = read_bundle(written)
    assert bundle.report is None and bundle.holders == ()
    assert "alive by line" in str(bundle)


def spoil(name: str, data: bytes) -> Any:
    return pytest.param(name, data, id=f"{name}-{data[:12]!r}")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os._exit, (9,))


@pytest.mark.parametrize(
    "name, data",
    [
        spoil("recorder.json", b""),
        spoil("recorder.json", b"[]"),
        spoil("recorder.json", b'{"schema": "other"}'),
        spoil("recorder.json", b'{"schema": "impactarbiter-bundle/1"}'),
        spoil("recorder.json", b"[" * 100_000),
        spoil("recorder.json", b"\xff\xfe"),
        spoil("events.npy", b""),
        spoil("events.npy", b"\x93NUMPY"),
        spoil("events.npy", pickle.dumps(Evil())),
        spoil("events.npy", b"\x93NUMPY\x01\x00\x08\x00{'a': (1"),
        spoil("sites.npy", b"no array"),
        spoil("holders.json", b'{"a": 1}'),
        spoil("holders.json", b'[{"path": 3}]'),
        spoil(
            "holders.json",
            b'[{"site": "a", "path": "b", "type": "c", "storages": 1,'
            b' "bytes": 1' + b"0" * 400 + b"}]",
        ),
        spoil("report.json", b"{}"),
    ],
)
def test_spoilt_bundles_are_refused(
    written: Path, name: str, data: bytes
) -> None:
    (written / name).write_bytes(data)
    with pytest.raises(ReportError) as caught:
        read_bundle(written)
    assert "\n" not in str(caught.value)
    assert main(["report", str(written)]) == 2


def test_other_columns_are_refused(written: Path) -> None:
    np.save(written / "events.npy", np.zeros(3))
    with pytest.raises(ReportError, match="other columns"):
        read_bundle(written)
    array = np.array([Evil()], dtype=object)
    np.save(written / "sites.npy", array, allow_pickle=True)
    with pytest.raises(ReportError):
        read_bundle(written)


@pytest.mark.parametrize("field", ["live_bytes", "reason", "sites", "device"])
def test_wrong_fields_are_refused(written: Path, field: str) -> None:
    file = written / "recorder.json"
    data = json.loads(file.read_text())
    data[field] = {"x": 1}
    file.write_text(json.dumps(data))
    with pytest.raises(ReportError):
        read_bundle(written)


@pytest.mark.parametrize("count", [10**400, -1, True])
@pytest.mark.parametrize("field", ["live_bytes", "asked_bytes", "live_count"])
def test_wrong_counts_are_refused(
    written: Path, field: str, count: int
) -> None:
    file = written / "recorder.json"
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | {field: count}))
    with pytest.raises(ReportError, match=f"{field} is no count"):
        read_bundle(written)


@pytest.mark.parametrize("line", ["1e999", "1" + "0" * 400, '"1"', "-2"])
@pytest.mark.parametrize("field", ["line", "site"])
def test_wrong_lines_are_refused(written: Path, field: str, line: str) -> None:
    file = written / "recorder.json"
    data = json.loads(file.read_text())
    site = {"site": 1, "file": "a.py", "line": 1, "function": "f"}
    data["sites"] = [site | {field: "LINE"}]
    file.write_text(json.dumps(data).replace('"LINE"', line))
    with pytest.raises(ReportError, match="no list of sites"):
        read_bundle(written)


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="is no bundle"):
        read_bundle(tmp_path)
    with pytest.raises(ReportError, match="cannot read"):
        bundles(tmp_path / "nothing")
