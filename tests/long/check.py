"""Long and large programs: memory of ours and time per step stay flat.

Each case runs in a process of its own and says what it did; the table is
Markdown, as docs/safety.md has it.  Exits with 1 where a limit is broken.

    make check-long                         a fifth of everything
    make check-long ARGS="--scale 1"        a million steps and storages
    make check-long ARGS="many_steps"       one case: a function below
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

#: CPU time of a step in the last quarter of a run, as a multiple of that in
#: its second; a busy machine alone makes 1.2, though each is undisturbed().
STEP_RATIO = 1.5
#: Memory of ours and of the process may grow by so much between the first
#: half of a run that keeps nothing and its end: tables double, once each.
GROWTH_MIB = 8
#: Memory of ours at the end of a run that keeps nothing.
OURS_MIB = 24
#: Per live storage, with the tensor that holds it: a row, an entry and their
#: places in two tables that are half empty.
STORAGE_BYTES = 256
#: Per line that something alive was born on: its totals, its past, its names.
#: 1,770 where the tables are full; just after they doubled, twice as many.
SITE_BYTES = 3584
#: A report, and the last one at stop(), of a million things that are alive.
REPORT_SECONDS = 5.0

MIB = 2**20


def resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def undisturbed(parts: list[float]) -> float:
    """Other programs only add to a part's time: the fastest quarter's end.

    What grows with the run adds to every part, the fastest too.
    """
    return statistics.quantiles(parts, n=4)[0]


def ours() -> float:
    from impactarbiter import _core

    size: int = _core.totals()["ledger_bytes"]
    return size / MIB


@dataclass
class Result:
    """What one case did; empty ``broken`` is a pass."""

    case: str
    amount: str = ""
    ours_half: float = 0
    ours_end: float = 0
    resident_growth: float = 0
    step_us: float = 0
    ratio: float = 1
    note: str = ""
    broken: list[str] = field(default_factory=list)

    def limit(self, what: str, value: float, most: float) -> None:
        if value > most:
            self.broken.append(f"{what} is {value:.4g}: at most {most:g}")


class Run:
    """Steps of a watched program, measured in a hundred parts."""

    def __init__(self, result: Result, arbiter: Any) -> None:
        self.result, self.arbiter = result, arbiter

    def steps(self, count: int, step: Callable[[int], object]) -> None:
        parts, each = [], max(count // 100, 1)
        half = resident_half = 0.0
        for part in range(100):
            begin = time.process_time()
            for i in range(part * each, (part + 1) * each):
                step(i)
                self.arbiter.step()
            parts.append((time.process_time() - begin) / each)
            if part == 49:
                gc.collect()
                half, resident_half = ours(), resident()
        gc.collect()
        result = self.result
        result.ours_half, result.ours_end = half, ours()
        result.resident_growth = resident() - resident_half
        result.step_us = 1e6 * undisturbed(parts[75:])
        result.ratio = undisturbed(parts[75:]) / undisturbed(parts[25:50])
        result.limit(
            "the time of a step, to before,", result.ratio, STEP_RATIO
        )

    def keeps_nothing(self) -> None:
        r = self.result
        r.limit("memory of ours, MiB,", r.ours_end, OURS_MIB)
        r.limit("growth of it, MiB,", r.ours_end - r.ours_half, GROWTH_MIB)
        r.limit("growth of the process, MiB,", r.resident_growth, GROWTH_MIB)

    def reports(self) -> None:
        """Both reports in time; what they say is checked elsewhere."""
        seconds = []
        for report in (self.arbiter.report, self.arbiter.stop):
            begin = time.process_time()
            report()
            seconds.append(time.process_time() - begin)
            self.result.limit(
                f"{report.__name__}(), s,", seconds[-1], REPORT_SECONDS
            )
        self.result.note = "report() {:.2f} s, stop() {:.2f} s".format(
            *seconds
        )


# -- the cases --------------------------------------------------------------


def many_steps(run: Run, scale: float) -> str:
    import torch

    count = int(1_000_000 * scale)
    weight = torch.ones(4, requires_grad=True)
    run.steps(count, lambda i: (weight * i).sum().backward())
    run.keeps_nothing()
    return f"{count:,} steps, each with a backward"


def new_paths(run: Run, scale: float) -> str:
    import torch

    generator = random.Random(0)
    weight = torch.randn(4, 4, requires_grad=True)

    def left(depth: int) -> Any:
        if depth == 0:
            return torch.randn(1, 4)
        return (left if generator.random() < 0.5 else right)(depth - 1)

    def right(depth: int) -> Any:
        if depth == 0:
            return torch.randn(1, 4) @ weight
        if generator.random() < 0.5:
            return left(depth - 1)
        return right(depth - 1)

    count = int(200_000 * scale)
    run.steps(count, lambda i: left(40))
    run.keeps_nothing()
    return f"{count:,} recursions, no two by one path"


def new_code(run: Run, scale: float) -> str:
    import torch

    def step(i: int) -> None:
        text = "def f(x):\n    return x + 1\ny = f(x)"
        space = {"x": torch.ones(3)}
        exec(compile(text, f"/generated/file_{i}.py", "exec"), space)

    count = int(200_000 * scale)
    run.steps(count, step)
    run.keeps_nothing()
    return f"{count:,} files of generated code, each run once"


def many_sites(run: Run, scale: float) -> str:
    import torch

    count = int(100_000 * scale)
    kept = []
    for i in range(count):
        space = {"torch": torch}
        exec(compile("t = torch.empty(1)", f"/lines/{i}.py", "exec"), space)
        kept.append(space["t"])
    run.steps(1000, lambda i: torch.empty(1))
    r = run.result
    r.limit(
        "memory of ours per site, bytes,", r.ours_end * MIB / count, SITE_BYTES
    )
    run.reports()
    return f"{count:,} sites, of each a storage that is alive"


def many_storages(run: Run, scale: float) -> str:
    import torch

    count = int(1_000_000 * scale)
    kept: list[Any] = []
    run.steps(
        1000,
        lambda i: kept.extend(torch.empty(1) for _ in range(count // 1000)),
    )
    r = run.result
    r.limit(
        "memory of ours per storage, bytes,",
        r.ours_end * MIB / count,
        STORAGE_BYTES,
    )
    run.reports()
    return f"{count:,} live storages in one list"


def large_graph(run: Run, scale: float) -> str:
    import torch

    count = int(1_000_000 * scale)
    losses: list[Any] = []
    state = [torch.ones(1, requires_grad=True) * 1]

    def step(i: int) -> None:
        for _ in range(count // 2000):
            state[0] = state[0] * 1.0 + 0
        losses.append(state[0])

    run.steps(1000, step)
    run.reports()
    return f"a kept graph of {count:,} nodes"


def many_threads(run: Run, scale: float) -> str:
    import torch

    waves = max(int(20 * scale), 2)

    def work(barrier: threading.Barrier) -> None:
        barrier.wait()
        for i in range(100):
            torch.empty(i + 1)

    def wave(i: int) -> None:
        barrier = threading.Barrier(500)
        threads = [
            threading.Thread(target=work, args=(barrier,)) for _ in range(500)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for i in range(waves):
        wave(i)
        run.arbiter.step()
        if i == waves // 2 - 1:
            run.result.ours_half, before = ours(), resident()
    run.result.ours_end = ours()
    run.result.resident_growth = resident() - before
    run.keeps_nothing()
    return f"{waves} times 500 threads at once, {waves * 50_000:,} tensors"


def many_greenlets(run: Run, scale: float) -> str:
    import torch

    if importlib.util.find_spec("greenlet") is None:
        return "skipped: no greenlet"
    from greenlet import greenlet  # type: ignore[import-untyped]

    def dive(depth: int) -> Any:
        if depth:
            return dive(depth - 1)
        main.switch()
        made = torch.empty(7)
        main.switch()
        return made

    def step(i: int) -> None:
        alive = [greenlet(dive) for _ in range(100)]
        for j, one in enumerate(alive):
            one.switch(j % 40)
        for one in alive:
            one.switch()
        for one in alive:
            one.switch()

    main = greenlet.getcurrent()
    count = int(2000 * scale)
    run.steps(count, step)
    run.keeps_nothing()
    return f"{100 * count:,} greenlets, 100 at once, on stacks of their own"


def many_tasks(run: Run, scale: float) -> str:
    import torch

    async def work(depth: int) -> Any:
        if depth:
            return await work(depth - 1)
        await asyncio.sleep(0)
        return torch.empty(5)

    async def several() -> None:
        await asyncio.gather(*(work(i % 30) for i in range(100)))

    count = int(2000 * scale)
    with asyncio.Runner() as runner:
        run.steps(count, lambda i: runner.run(several()))
    run.keeps_nothing()
    return f"{100 * count:,} asyncio tasks, 100 at once"


CASES: dict[str, Callable[[Run, float], str]] = {
    case.__name__: case
    for case in (
        many_steps,
        new_paths,
        new_code,
        many_sites,
        many_storages,
        large_graph,
        many_threads,
        many_greenlets,
        many_tasks,
    )
}


# -- running them -----------------------------------------------------------


def child(name: str, scale: float) -> None:
    import torch

    import impactarbiter
    from impactarbiter import _core

    torch.set_num_threads(1)
    result = Result(name)
    arbiter = impactarbiter.watch(step="manual")
    result.amount = CASES[name](Run(result, arbiter), scale)
    if not _core.consistent():
        result.broken.append("the totals are not the sums over the rows")
    report = arbiter.stop()
    result.broken += [w for w in report.warnings if "watching ended" in w]
    print("RESULT " + json.dumps(asdict(result)))


def results(names: list[str], scale: float) -> Iterator[Result]:
    for name in names:
        run = [sys.executable, "-P", __file__, "--child", name, str(scale)]
        done = subprocess.run(run, stdout=subprocess.PIPE, text=True)
        said = [s for s in done.stdout.splitlines() if s[:7] == "RESULT "]
        if done.returncode or not said:
            yield Result(name, broken=[f"ended with {done.returncode}"])
        else:
            yield Result(**json.loads(said[-1][7:]))


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], float(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=str([*CASES]))
    parser.add_argument(
        "--scale",
        type=float,
        default=0.2,
        help="1: all of it; 0.2, the default, takes two minutes",
    )
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}")
    broken = 0
    print(
        "| what | ours, half way | at the end | CPU time a step | to half"
        " way before | |\n|---|---:|---:|---:|---:|---|"
    )
    for r in results(options.cases or [*CASES], options.scale):
        print(
            f"| {r.amount or r.case} | {r.ours_half:.1f} MiB |"
            f" {r.ours_end:.1f} MiB | {r.step_us:.0f} \u00b5s |"
            f" {r.ratio:.2f} | {r.note} |",
            flush=True,
        )
        for said in r.broken:
            print(f"  BROKEN {r.case}: {said}", flush=True)
        broken += len(r.broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
