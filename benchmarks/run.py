"""Benchmarks: what watching and looking cost, as ratios of pairs.

    python benchmarks/run.py [--effort F] [--json FILE] [--against FILE]
        [NAME ...]

Each benchmark runs in a process of its own.  Without names all of them do.
With ``--against`` the exit status is 1 where something is clearly worse than
in the results of that file.
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

from against import Change, change_line, changes
from machine import describe, remark
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


def programs(effort: float) -> list[Row]:
    import programs as module

    return module.run(effort)


BENCHMARKS: dict[str, Benchmark] = {
    "transformer": step("transformer"),
    "tiny_mlp": step("tiny_mlp"),
    "smallest_op": step("smallest_op"),
    "arrays": step("arrays"),
    "pipeline": step("pipeline"),
    "pauses": pauses,
    "walk_200k": walk(200_000),
    "walk_1m": walk(1_000_000),
    "walk_2m": walk(2_000_000),
    "walk_1m_shuffled": walk(1_000_000, shuffled=True),
    "tracker": tracker,
    "programs": programs,
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


def compare_with(path: str, rows: list[Row]) -> list[Change]:
    """Prints what has changed since; ValueError says what the file lacks."""
    old = json.loads(Path(path).read_text())
    found = changes([Row(**fields) for fields in old["rows"]], rows)
    print(f"\nagainst {path}: {remark(old['machine'])}")
    for change in found:
        print(change_line(change))
    return found


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--effort",
        type=float,
        default=1.0,
        help="so many times the usual number of rounds",
    )
    parser.add_argument("--json", metavar="FILE", help="write the rows here")
    parser.add_argument(
        "--against", metavar="FILE", help="compare with what is written here"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(
            f"no benchmark named {', '.join(sorted(unknown))}: there are "
            + ", ".join(BENCHMARKS)
        )
    if options.against and not Path(options.against).is_file():
        parser.error(f"no results at {options.against}: --json writes them")
    return options


def main() -> int:
    options = options_of()
    if options.one:
        rows = BENCHMARKS[options.names[0]](options.effort)
        json.dump([row.to_json() for row in rows], sys.stdout)
        return 0
    machine = describe("torch", "impactarbiter", "numpy")
    print(line(TITLES), flush=True)
    all_rows, failed = [], False
    for name in options.names or BENCHMARKS:
        rows = in_own_process(name, options.effort)
        failed |= not rows
        for row in rows:
            print(row_line(row), flush=True)
        all_rows += rows
    if options.json:
        data = {
            "machine": machine,
            "rows": [row.to_json() for row in all_rows],
        }
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n")
    if options.against:
        found = compare_with(options.against, all_rows)
        failed |= any(change.verdict == "worse" for change in found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
