"""``merge`` of generated jobs: seconds and peak memory by number of files.

usage: python -P benchmarks/merge.py [FILES ...]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from impactarbiter.model.finding import Finding, Holder, Site, TensorExample
from impactarbiter.model.process import Process
from impactarbiter.model.report import History, Report

SIZES = (64, 512, 10_000)
#: A usual file: 12 frames of stack, 500 points of history.
FRAMES, POINTS = 12, 500


def fill(folder: Path, size: int) -> None:
    """A job of which half of the ranks leak."""
    stack = tuple(
        Site(f"/home/me/{n}.py", n, "forward", "a line of source")
        for n in range(FRAMES)
    )
    leak = Finding(
        verdict="leak",
        severity="warning",
        allocated_at=Site("/home/me/data.py", 88, "fetch", "kept.append(x)"),
        stack=stack,
        holder=Holder("__main__.kept", "list", 30),
        bytes_per_step=2.1 * 2**20,
        first_step=4,
        tensors=(TensorExample((1, 2), "float32", "cpu", 4, 8),) * 3,
    )
    history = History(tuple(range(POINTS)), tuple(range(POINTS)))
    for rank in range(size):
        process = Process(
            rank=rank,
            world_size=size,
            host=f"node{rank // 8}",
            pid=1000 + rank,
            begin=1000.0,
            seen=2000.0,
            end=2000.0,
            ended="finished",
        )
        Report(
            findings=(leak,) * (rank % 2),
            steps=1000,
            live_bytes=2**30 + rank,
            history=history,
            process=process,
        ).to_json(folder / process.file_name)


def measure(size: int) -> str:
    """Seconds of the processor and the peak of one merge."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), size)
        call = [sys.executable, "-P", "-m", "impactarbiter", "merge", folder]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime
    spent -= before.ru_utime + before.ru_stime
    return (
        f"{size:>6} files  {spent:6.2f} s  {after.ru_maxrss / 1024:6.1f} MiB"
    )


def main() -> None:
    for size in sorted(map(int, sys.argv[1:])) or SIZES:
        print(measure(size), flush=True)


if __name__ == "__main__":
    main()
