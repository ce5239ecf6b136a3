"""Benchmarks: what watching and looking cost, as ratios of pairs.

    python benchmarks/run.py [--effort F] [--json FILE] [NAME ...]

Each benchmark runs in a process of its own.  Without names all of them do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# -P leaves the script's folder out, lest the source tree be imported.
sys.path.append(str(Path(__file__).resolve().parent))

from pairs import TITLES, Row, line, row_line

Benchmark = Callable[[float], list[Row]]


def step(name: str) -> Benchmark:
    def run(effort: float) -> list[Row]:
        import steps

        chosen: Benchmark = getattr(steps, f"run_{name}")
        return chosen(effort)

    return run


def walk(objects: int, shuffled: bool = False) -> Benchmark:
    def run(effort: float) -> list[Row]:
        import walks

        return walks.run(effort, objects, shuffled)

    return run


def tracker(effort: float) -> list[Row]:
    import tracker as module

    return module.run(effort)


def pauses(effort: float) -> list[Row]:
    import pauses as module

    return module.run(effort)


BENCHMARKS: dict[str, Benchmark] = {
    "transformer": step("transformer"),
    "tiny_mlp": step("tiny_mlp"),
    "smallest_op": step("smallest_op"),
    "arrays": step("arrays"),
    "pauses": pauses,
    "walk_200k": walk(200_000),
    "walk_1m": walk(1_000_000),
    "walk_2m": walk(2_000_000),
    "walk_1m_shuffled": walk(1_000_000, shuffled=True),
    "tracker": tracker,
}


def in_own_process(name: str, effort: float) -> list[Row]:
    """One thread: two busy ones on a shared machine measure each other."""
    command = [sys.executable, "-P", __file__, "--one", name]
    command += ["--effort", str(effort)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode != 0:
        print(f"{name}: failed (exit status {done.returncode})")
        return []
    return [Row(**fields) for fields in json.loads(done.stdout)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--effort",
        type=float,
        default=1.0,
        help="so many times the usual number of rounds",
    )
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(
            f"no benchmark named {', '.join(sorted(unknown))}: there are "
            + ", ".join(BENCHMARKS)
        )
    if options.one:
        rows = BENCHMARKS[options.names[0]](options.effort)
        json.dump([row.to_json() for row in rows], sys.stdout)
        return 0
    print(line(TITLES), flush=True)
    all_rows, failed = [], False
    for name in options.names or BENCHMARKS:
        rows = in_own_process(name, options.effort)
        failed |= not rows
        for row in rows:
            print(row_line(row), flush=True)
        all_rows += rows
    if options.json:
        text = json.dumps([row.to_json() for row in all_rows], indent=1)
        Path(options.json).write_text(text + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
