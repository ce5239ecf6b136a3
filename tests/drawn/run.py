"""Programs drawn by lot, each run by the launcher: what is said of each
beside what is true.

    python tests/drawn/run.py [--from SEED] [--count N] [--jobs N] [--keep DIR]

The exit status is 1 where an answer is wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "whole"))

from program import Drawn, draw
from runs import Run, Script, last_line, watched

#: Part by which a rate may differ from the true one.
TOLERANCE = 0.1


def of_one(seed: int, folder: Path) -> list[str]:
    """What is wrong of it; one that could not be run ends no other."""
    try:
        return answer(seed, folder)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [f"not run: {error}"]


def answer(seed: int, folder: Path) -> list[str]:
    drawn = draw(seed)
    file = folder / f"drawn_{seed}.py"
    file.write_text(drawn.text)
    run = watched(Script(file), gate=False)
    (folder / f"drawn_{seed}.txt").write_text(run.stderr)
    if run.exit != 0 or run.report is None:
        return [f"exit {run.exit}: {last_line(run)}"]
    return list(wrong(drawn, run))


def wrong(drawn: Drawn, run: Run) -> list[str]:
    report = run.report or {}
    told = [f for f in report["findings"] if f["severity"] != "info"]
    said = [f"{f['verdict']} ({f['rule']})" for f in told]
    if not drawn.leaks:
        passing = ["taken back"] if "taken back" in run.stderr else []
        return said + passing
    if not told:
        rules = [f["rule"] for f in report["findings"]]
        return [f"missed; for information: {', '.join(rules) or 'nothing'}"]
    found = []
    rate = sum(f["bytes_per_step"] for f in told)
    if drawn.rate and abs(rate / drawn.rate - 1) > TOLERANCE:
        found.append(f"{rate:.0f} B a step, {drawn.rate:.0f} are true")
    if len(told) > 1:
        found.append(f"{len(told)} findings for one leak")
    for finding in told:
        grown = finding["grown_at"]
        if grown is None:
            found.append("statement not seen")
        elif grown["line"] != drawn.line:
            found.append(f"grown at {grown['line']}, true: {drawn.line}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="programs, what was said")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            answers = pool.map(lambda seed: of_one(seed, folder), seeds)
            for seed, found in zip(seeds, answers, strict=True):
                bad += bool(found)
                if found:
                    print(f"{seed}: {'; '.join(found)}", flush=True)
                    print(f"    {draw(seed).says}", flush=True)
    print(f"{options.count - bad} of {options.count} answered right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
