"""The criterion on recorded traces: which lines it names, which are true.

    python tools/traces/replay.py [--record] [--jobs N] [NAMES...]

Each program of tests/whole and tests/leaks is recorded once, into
build/traces; its events are then given to the ledger again, in order and
without torch.  A line for each program that is missed or named without a
cause, then the sums.  Lines alone are judged here, by what survives: graphs
are not in a trace, and the product asks the holder, too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from impactarbiter import _core

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "build" / "traces"
RECORD = Path(__file__).resolve().parent / "record.py"
TIMEOUT = 600
WARMUP, WINDOW = 3, 5  # as the product's own defaults


@dataclass(frozen=True)
class Program:
    """One variant of one program; ``guilty``: (file, line) that leak."""

    name: str
    script: Path
    arguments: tuple[str, ...]
    guilty: tuple[tuple[str, int], ...]

    @property
    def trace(self) -> Path:
        """Where its trace lies."""
        return TRACES / f"{self.name.replace('/', '.')}.npz"


@dataclass
class Answer:
    """Lines that were named; each as (file name, line)."""

    at_end: set[tuple[str, int]] = field(default_factory=set)
    in_passing: set[tuple[str, int]] = field(default_factory=set)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _whole() -> Iterable[Program]:
    truth = _module(ROOT / "tests" / "whole" / "truth.py")
    for program in truth.load([]):
        for variant in ("leaky", "fixed"):
            script = truth.script_of(program.name, variant)
            guilty = set()
            for leak in program.leaks if variant == "leaky" else ():
                file = leak.allocated_file
                lines = truth.lines_of(script, file, leak.allocated)
                guilty |= {(file or script.name, line) for line in lines}
            yield Program(
                f"whole/{program.name}_{variant}",
                script,
                program.args,
                tuple(sorted(guilty)),
            )


def _leaks() -> Iterable[Program]:
    verdicts = _module(ROOT / "benchmarks" / "verdicts.py")
    for case in verdicts.cases():
        if case.missing or "--manual" in case.options:
            continue
        guilty = []
        if case.leaky:
            wanted = verdicts.any_of(case.expect.get("line", ()))
            text = case.path.read_text(encoding="utf-8").splitlines()
            guilty = [
                (case.path.name, number)
                for number, line in enumerate(text, 1)
                if any(part in line for part in wanted)
            ]
        yield Program(
            f"leaks/{case.name}", case.path, case.arguments, tuple(guilty)
        )


def record(program: Program) -> None:
    """Runs it in a copy of its folder."""
    folder = TRACES / "run" / program.name.replace("/", ".")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(program.script.parent, folder)
    subprocess.run(
        [
            sys.executable,
            "-P",
            str(RECORD),
            str(program.trace),
            str(folder / program.script.name),
            *program.arguments,
        ],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT,
        check=False,
    )
    shutil.rmtree(folder, ignore_errors=True)


# -- replay -------------------------------------------------------------------


def _births(lines: list[list[Any]]) -> list[Any]:
    """One function for each line, whose births are that line's."""
    made = []
    for number, _line in enumerate(lines):
        space: dict[str, Any] = {"born": _core._born}
        text = "def birth(key, size):\n    born(key, size)\n"
        exec(compile(text, f"/trace/{number}.py", "exec"), space)
        made.append(space["birth"])
    return made


def _named(age: int, lines: list[list[Any]]) -> set[tuple[str, int]]:
    found = set()
    for suspect in _core.suspects(age):
        frame = _core.site_source(suspect["site"])
        if frame is not None:
            file, line, _function = lines[int(Path(frame[0]).stem)]
            found.add((Path(file).name, line))
    return found


def replay(trace: Path) -> Answer:
    """What the criterion says of a trace, by the strongest kind of event."""
    with np.load(trace) as stored:
        ticks, events = stored["ticks"], stored["events"]
        lines = json.loads(str(stored["lines"]))
    answer = Answer()
    if not len(ticks):
        return answer
    births = _births(lines)
    kind = int(np.argmax(ticks["counts"][-1] > 0))
    position = at = 0
    _core.start(manual=True, warmup=WARMUP, window=WINDOW)
    try:
        for tick in ticks:
            end = at + int(
                np.searchsorted(events["tick"][at:], tick["tick"], "right")
            )
            for _t, site, number, size, born in events[at:end].tolist():
                if born:
                    births[site](64 * (number + 1), size)
                else:
                    _core._died(64 * (number + 1))
            at = end
            for _turn in range(int(tick["counts"][kind]) - position):
                _core.step()
                answer.in_passing |= _named(_core.AGE_TO_TELL, lines)
            position = int(tick["counts"][kind])
        answer.at_end = _named(_core.AGE_FOR_REPORT, lines)
    finally:
        _core.stop()
    return answer


def _text(lines: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{file}:{line}" for file, line in sorted(lines))


def main() -> int:
    """Records what is missing, replays all, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--record", action="store_true", help="record again what there is"
    )
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    programs = [
        p
        for p in (*_whole(), *_leaks())
        if not options.names or any(n in p.name for n in options.names)
    ]
    TRACES.mkdir(parents=True, exist_ok=True)
    missing = [p for p in programs if options.record or not p.trace.exists()]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(record, missing))
    shutil.rmtree(TRACES / "run", ignore_errors=True)
    began = time.perf_counter()
    leaky = found = healthy = flagged = passing = 0
    for program in programs:
        if not program.trace.exists():
            print(f"{program.name:44} no trace: the program did not run")
            continue
        answer = replay(program.trace)
        guilty = set(program.guilty)
        wrong, said = answer.at_end - guilty, answer.in_passing - guilty
        if guilty:
            leaky += 1
            found += bool((answer.at_end | answer.in_passing) & guilty)
        else:
            healthy += 1
            flagged += bool(wrong)
            passing += bool(said)
        if guilty and not (answer.at_end | answer.in_passing) & guilty:
            print(f"{program.name:44} missed: {_text(guilty)}")
        elif not guilty and (wrong or said):
            at_end = f"named: {_text(wrong)}; " if wrong else ""
            print(f"{program.name:44} {at_end}in passing: {_text(said)}")
    print(
        f"{found} of {leaky} leaky programs have a guilty line named; of"
        f" {healthy} others {flagged} have a line named at the end,"
        f" {passing} in passing; {time.perf_counter() - began:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
