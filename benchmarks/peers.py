"""Ours and others: what each costs a step, and who finds the holder.

    pip install impactarbiter[bench]
    python benchmarks/peers.py [--effort F] [--objects N] [--plot FILE]
        [--json FILE] [TOOL ...]
    python benchmarks/peers.py --from FILE --plot FILE

Each measurement has a process of its own; what is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# -P leaves the script's folder out, lest the source tree be imported.
sys.path.append(str(Path(__file__).resolve().parent))

PACKAGES = (
    "torch",
    "impactarbiter",
    "memray",
    "stormlog",
    "objgraph",
    "guppy3",
    "refcycle",
    "pympler",
)


def in_own_process(what: list[str]) -> dict[str, Any] | None:
    command = [sys.executable, "-P", __file__, "--one", *what]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode != 0:
        print(f"{' '.join(what)}: failed (exit status {done.returncode})")
        return None
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure_one(what: list[str]) -> dict[str, Any]:
    if what[0] == "step":
        import peers_steps

        _, tool, kind, effort = what
        return peers_steps.measure(tool, kind, float(effort)).to_json()
    import peers_holders

    _, tool, objects = what
    return peers_holders.ask_all(tool, int(objects)).to_json()


def step_rows(chosen: list[str], effort: float) -> list[dict[str, Any]]:
    import peers_steps

    print(f"{'step':12} {'':34} {'ratio':>6}  {'quartiles':13} {'MB':>7}")
    rows = []
    for kind in peers_steps.KINDS:
        for tool in peers_steps.TOOLS:
            if chosen and tool not in chosen:
                continue
            if not peers_steps.is_installed(tool):
                print(f"{kind:12} {tool:34} not installed")
                continue
            row = in_own_process(["step", tool, kind, str(effort)])
            if row is not None:
                print(step_line(row), flush=True)
                rows.append(row)
    return rows


def step_line(row: dict[str, Any]) -> str:
    return (
        f"{row['kind']:12} {row['tool']:34} {row['ratio']:6.3f}"
        f"  {row['low']:.3f}-{row['high']:.3f}"
        f"   {row['extra'] / 1e6:7.1f}"
    )


def holder_rows(chosen: list[str], objects: int) -> list[dict[str, Any]]:
    import peers_holders

    print(f"\n{'':15} {'collections':>11} {'MB':>7}  Y right and named")
    rows = []
    for tool in peers_holders.TOOLS:
        if chosen and tool not in chosen:
            continue
        if not peers_holders.is_installed(tool):
            print(f"{tool:15} not installed")
            continue
        row = in_own_process(["holder", tool, str(objects)])
        if row is not None:
            print(holder_line(row), flush=True)
            rows.append(row)
    return rows


def holder_line(row: dict[str, Any]) -> str:
    marks = "".join(reply["mark"] for reply in row["replies"])
    return (
        f"{row['tool']:15} {row['median'] / row['collection']:11.2f}"
        f" {row['extra'] / 1e6:7.1f}  {marks}"
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    from machine import describe

    data = {"machine": describe(*PACKAGES)}
    data["steps"] = step_rows(options.tools, options.effort)
    data["holders"] = holder_rows(options.tools, options.objects)
    return data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tools", nargs="*", metavar="TOOL")
    parser.add_argument("--effort", type=float, default=1.0)
    parser.add_argument(
        "--objects", type=int, default=300_000, help="of the heap"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument("--plot", metavar="FILE", help="draw them")
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="measure nothing"
    )
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure_one(options.one)))
        return 0
    if options.source:
        data = json.loads(Path(options.source).read_text())
    else:
        data = measure(options)
    if options.json:
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n")
    if options.plot:
        from peers_plot import draw

        draw(data, Path(options.plot))
    return 0


if __name__ == "__main__":
    sys.exit(main())
