"""Is the truth true?  Measures each program without the product.

    python tests/whole/check.py [--jobs 2] [NAMES...]

Each twin runs with PYTHONMALLOC=malloc, so that glibc's mallinfo2 counts
every byte of tensors, graph nodes and Python objects.  The bytes in use are
read at steps, after a collection where the program leaves the collector on.
A leaky program must grow in its last half, and end above its fixed twin; the
twin must not grow in its last third.  A tick is a call of Optimizer.step or,
in programs without an optimizer, of an outermost module.
"""

from __future__ import annotations

import argparse
import array
import concurrent.futures
import ctypes
import gc
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import truth

READINGS = 60  # in a run; each costs a collection
NOISE = 300  # bytes a step: malloc and torch still settle in short runs
SMALL = 0.1  # of the leaky twin's rate
TIMEOUT = 1800  # seconds a run, on a busy machine
GROWS = 5.0  # times the fixed twin's rate


class MallInfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def child(
    kind: str, every: int, output: str, script: str, args: list[str]
) -> None:
    """Run the script here, reading malloc's bytes in use at its steps."""
    import torch
    import torch.optim.optimizer as optimizers

    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo2
    # Neither array grows: the readings must not be what they count.
    steps, sizes = array.array("q", [0] * 400), array.array("q", [0] * 400)
    count = filled = 0

    def tick(*_: object) -> None:
        nonlocal count, filled
        count += 1
        if count == 1:  # the first step has imported what steps need
            gc.collect()
            gc.freeze()
        if count % every == 0 and filled < len(steps):
            if gc.isenabled():
                gc.collect()
            info = mallinfo()
            sizes[filled] = info.uordblks + info.hblkhd
            steps[filled] = count
            filled += 1

    if kind == "optimizer":
        optimizers.register_optimizer_step_post_hook(tick)
    else:
        depth = 0

        def enter(*_: object) -> None:
            nonlocal depth
            depth += 1

        def leave(*_: object) -> None:
            nonlocal depth
            depth -= 1
            if depth == 0:
                tick()

        torch.nn.modules.module.register_module_forward_pre_hook(enter)
        torch.nn.modules.module.register_module_forward_hook(leave)
    sys.argv = [script, *args]
    sys.path[0] = str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        pairs = list(zip(steps[:filled], sizes[:filled], strict=True))
        Path(output).write_text(json.dumps([count, pairs]))


def readings_of(
    program: truth.Program, variant: str
) -> tuple[int, list[list[int]]]:
    script = truth.script_of(program.name, variant)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "readings.json")
        command = [sys.executable, __file__, "--child"]
        every = str(max(1, program.ticks // READINGS))
        command += [program.step_kind, every, str(output), str(script)]
        env = os.environ | {
            "PYTHONMALLOC": "malloc",
            # A free block that a thread caches counts as in use.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
        }
        done = subprocess.run(
            [*command, *program.args],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        if done.returncode != program.exit:
            raise SystemExit(
                f"{script.name}: exit {done.returncode}, "
                f"expected {program.exit}\n{done.stderr[-3000:]}"
            )
        count, readings = json.loads(output.read_text())
        return count, readings


def level(readings: list[list[int]], share: float) -> tuple[float, float]:
    """Median step and bytes of the readings around a share of the run."""
    width = max(2, len(readings) // 12)
    begin = min(int(share * len(readings)), len(readings) - width)
    part = readings[max(begin, 0) : begin + width]
    return (
        statistics.median(step for step, _ in part),
        statistics.median(size for _, size in part),
    )


def slope(readings: list[list[int]], share: float) -> float:
    """Bytes gained a step from a share of the run to its end."""
    (step0, size0), (step1, size1) = level(readings, share), level(readings, 1)
    return (size1 - size0) / max(step1 - step0, 1)


def check(program: truth.Program) -> tuple[bool, str]:
    count, leaky = readings_of(program, "leaky")
    _, fixed = readings_of(program, "fixed")
    rate, fixed_rate = slope(leaky, 0.5), slope(fixed, 0.66)
    steps, at_end = level(leaky, 1)
    excess = (at_end - level(fixed, 1)[1]) / steps
    flat = fixed_rate < max(NOISE, SMALL * rate)
    least = GROWS * max(fixed_rate, 20.0)
    grows = excess > least and (rate > least or program.gathers_once)
    right = flat and grows and count == program.ticks
    line = (
        f"{'ok' if right else 'WRONG':5} {program.name:26} "
        f"{count:6} ticks  leaky {rate:12,.0f} B/tick "
        f"(over its twin {excess:12,.0f})  fixed {fixed_rate:8,.1f}"
    )
    return right, line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    programs = truth.load(options.names)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = []
        for right, line in pool.map(check, programs):
            print(line, flush=True)
            answers.append(right)
    sys.exit(0 if all(answers) else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        kind, every, output, script = sys.argv[2:6]
        child(kind, int(every), output, script, sys.argv[6:])
    else:
        main()
