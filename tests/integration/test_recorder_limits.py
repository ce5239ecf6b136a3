"""The flight recorder where it counts: under a limit, and when killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm

from impactarbiter.reports.read_bundle import bundles, read_bundle

PROGRAM = """
import os, resource, sys, threading
import torch
import impactarbiter
from impactarbiter import FlightRecorder

MIB = 1 << 20

def limit(more):
    pages = int(open("/proc/self/statm").read().split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))

recorder = FlightRecorder(sys.argv[1], interval=0)
"""

#: A leak that grows until the allocator gets nothing.
LEAK = """
kept = []

def step():
    kept.append(torch.empty(MIB // 4).fill_(1))

with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
    recorder.start()
    for _ in range(12):
        step(); arbiter.step()
    limit(64 * MIB)
    try:
        while True:
            step(); arbiter.step()
    except RuntimeError as error:
        print(type(error).__name__, error)
    recorder.stop()
print(len(kept))
"""

#: The same, with the rest of the memory gone too: Python gets nothing.
STARVED = """
kept, hoard = [], []

def step():
    kept.append(torch.empty(MIB // 4).fill_(1))

with impactarbiter.watch(step="manual") as arbiter:
    recorder.start()
    for _ in range(5):
        step()
    limit(16 * MIB)
    size = MIB
    while size >= 16:  # every block that the C library still has
        try:
            hoard.append(bytearray(size))
        except MemoryError:
            size //= 2
    try:
        while True:
            step()
    except BaseException as error:
        name = type(error).__name__
    del hoard
    print(name)
    recorder.stop()
"""

#: Two threads run out of memory again and again.
RACE = """
recorder.start()
kept = [torch.ones(100) for _ in range(2000)]

def fail():
    for _ in range(100000):
        try:
            torch.empty(10**15)
        except RuntimeError:
            pass

print("ready", flush=True)
threads = [threading.Thread(target=fail) for _ in range(2)]
for thread in threads:
    thread.start()
"""


def fresh(source: str, folder: Path) -> subprocess.Popen[str]:
    """A program of its own: what it has allocated before, others have not."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM + source, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def start(source: str, folder: Path) -> warm.Program:
    return warm.start(["-c", PROGRAM + source, str(folder)])


def test_under_a_limit(tmp_path: Path) -> None:
    """The bundle is whole, and its second stage names the leak."""
    process = fresh(LEAK, tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    said, count = out.strip().splitlines()[0], int(out.split()[-1])
    assert said.startswith("RuntimeError") and "DefaultCPUAllocator" in said
    (path,) = bundles(tmp_path)
    bundle = read_bundle(path)
    assert bundle.header.reason == "out of memory"
    assert bundle.header.asked_bytes == 1 << 20
    assert bundle.header.live_bytes == count << 20
    ((site, storages, size),) = bundle.by_site()
    assert (storages, size) == (count, count << 20) and "in step" in site
    assert bundle.events["kind"][-1] == 3
    assert (bundle.events["kind"][:-1] == 1).all()
    assert bundle.report is not None
    (finding,) = bundle.report.findings
    assert "kept" in str(finding.path) and finding.verdict == "leak"


def test_with_nothing_left_at_all(tmp_path: Path) -> None:
    """The first stage takes no memory; the second one may get none."""
    process = fresh(STARVED, tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    said, found = out.strip(), bundles(tmp_path)
    if said == "MemoryError" and not found:
        return  # Python was short of it first: torch was asked for none
    assert said in ("RuntimeError", "MemoryError")
    (path,) = found[:1]
    bundle = read_bundle(path)
    assert bundle.header.reason == "out of memory"
    assert bundle.header.live_count >= 5
    assert bundle.by_site()[0][2] == bundle.header.live_bytes


def whole(folder: Path) -> int:
    """How many bundles there are; each must be readable."""
    paths = bundles(folder)
    for path in paths:
        bundle = read_bundle(path)
        assert bundle.header.live_count == 2000
        assert bundle.header.asked_bytes == 4 * 10**15
    return len(paths)


SEEDS = [
    0,
    1,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_at_any_moment(seed: int, tmp_path: Path) -> None:
    """No half bundle under a final name, and never more than were asked."""
    process = start(RACE, tmp_path)
    assert process.stdout.readline() == "ready\n"
    time.sleep(random.Random(seed).uniform(0.01, 0.4))
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    count = whole(tmp_path)
    assert count <= 6  # five, and the newest before the oldest has gone
    left = [n for n in os.listdir(tmp_path) if n.endswith(".partial")]
    assert len(left) <= 2
    # The next run clears what was left half, and keeps the rest.
    done = start("recorder.start(); recorder.stop()", tmp_path)
    _, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    assert whole(tmp_path) == min(count, 5)
    assert [n for n in os.listdir(tmp_path) if n.startswith(".")] == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for it."""
    process = start(
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = [torch.ones(10) for _ in range(3000)]
recorder.start()
for _ in range(3000):
    torch.ones(3)
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    torch.empty(10**15)
except RuntimeError as error:
    print(type(error).__name__)
print(impactarbiter._core.recorder_status()["error"])
recorder.stop()
""",
        tmp_path,
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines() == ["RuntimeError", "File too large"]
    assert os.listdir(tmp_path) == []


def test_the_tracker_in_a_program(tmp_path: Path) -> None:
    """As a user would: a script, its crash, then the command."""
    process = start(
        """
from impactarbiter import MemoryTracker
kept = []
def load(size):
    kept.append(torch.empty(size))
with MemoryTracker(
    "cpu", enable_oom_flight_recorder=True, oom_dump_dir=sys.argv[1]
) as tracker:
    with tracker.phase("epoch 1"):
        for i in range(3):
            load(MIB)
        load(10**15)
""",
        tmp_path,
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.rstrip().splitlines()[-1].startswith("RuntimeError")
    assert "impactarbiter" not in err.rstrip().splitlines()[-1]
    (path,) = bundles(tmp_path)
    assert set(os.listdir(path)) == {
        "events.npy",
        "holders.json",
        "recorder.json",
        "report.json",
        "sites.npy",
    }
    shown = warm.run(["-m", "impactarbiter", "report", str(path)])
    assert shown.returncode == 0, shown.stderr
    assert "kept[*]" in shown.stdout and "12.0 MiB" in shown.stdout
    events = read_bundle(path).events
    assert events["phase"].max() == 1
    header = json.loads((Path(path) / "recorder.json").read_text())
    assert header["reason"] == "out of memory"
