"""What is true of the programs: truth.toml, read and looked up."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
MAIN_FILE = "train.py"  # of a program that is a folder


@dataclass(frozen=True)
class Leak:
    """One leak: texts are whole source lines without their indent."""

    file: str  # in the program's folder; empty: the script itself
    grown: tuple[str, ...]  # lines that grow the holder, any is right
    allocated: tuple[str, ...]  # lines that allocate what is kept
    allocated_file: str  # as file, where it is another one
    holders: tuple[str, ...]  # regular expressions on the whole holder
    verdicts: tuple[str, ...]
    dominates: str  # "tensors" or "graph"
    bytes_per_step: float  # about; 0 where it is not constant
    advice: str  # what a right advice or patch must do


@dataclass(frozen=True)
class Program:
    name: str
    description: str
    step_kind: str  # what a person would call a step
    steps: int  # how many of them a person would count
    ticks: int  # calls of Optimizer.step, or of outermost modules
    args: tuple[str, ...]
    exit: int
    stdout_varies: bool
    gathers_once: bool  # its leak has stopped before the run's last half
    grows: tuple[str, ...]  # what is said to grow in the fixed one, too
    leaks: tuple[Leak, ...]


def _texts(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def leak_of(record: dict) -> Leak:
    return Leak(
        file=record.get("file", ""),
        grown=_texts(record["grown"]),
        allocated=_texts(record["allocated"]),
        allocated_file=record.get("allocated_file", record.get("file", "")),
        holders=_texts(record["holders"]),
        verdicts=_texts(record.get("verdicts", "leak")),
        dominates=record["dominates"],
        bytes_per_step=record.get("bytes_per_step", 0),
        advice=record["advice"],
    )


def load(names: list[str], file: Path = HERE / "truth.toml") -> list[Program]:
    """All programs of the file, or those that are named."""
    with file.open("rb") as stream:
        records = tomllib.load(stream)["program"]
    programs = [
        Program(
            name=record["name"],
            description=record["description"],
            step_kind=record.get("step_kind", "optimizer"),
            steps=record["steps"],
            ticks=record.get("ticks", record["steps"]),
            args=tuple(record.get("args", ())),
            exit=record.get("exit", 0),
            stdout_varies=record.get("stdout_varies", False),
            gathers_once=record.get("gathers_once", False),
            grows=_texts(record.get("grows", [])),
            leaks=tuple(map(leak_of, record["leak"])),
        )
        for record in records
    ]
    unknown = set(names) - {program.name for program in programs}
    if unknown:
        sys.exit(f"no such program: {', '.join(sorted(unknown))}")
    return [p for p in programs if not names or p.name in names]


def script_of(name: str, variant: str, folder: Path = PROGRAMS) -> Path:
    script = folder / f"{name}_{variant}.py"
    return script if script.exists() else folder / script.stem / MAIN_FILE


def lines_of(script: Path, file: str, texts: tuple[str, ...]) -> set[int]:
    """Numbers of the lines with one of these texts; all texts must occur."""
    path = script.parent / file if file else script
    source = [line.strip() for line in path.read_text().splitlines()]
    missing = [text for text in texts if text not in source]
    if missing:
        raise LookupError(f"{path.name} has no line {missing[0]!r}")
    return {n for n, line in enumerate(source, 1) if line in texts}


def holder_fits(leak: Leak, expression: str) -> bool:
    return any(re.fullmatch(holder, expression) for holder in leak.holders)
