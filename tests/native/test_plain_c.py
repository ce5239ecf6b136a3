"""The parts that are plain C, compiled alone and run without Python.

`make tsan` runs the one with threads for longer: IMPACTARBITER_TURNS.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CORE = HERE.parent.parent / "src" / "core"
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
FAILING = [f"-D{f}=ia_test_{f}" for f in ("malloc", "calloc", "realloc")]
TURNS = os.environ.get("IMPACTARBITER_TURNS", "5000")

#: How a program is compiled and run.
KINDS = {
    "plain": ["-O2"],
    "asan": [
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ],
    "tsan": ["-O1", "-g", "-fsanitize=thread"],
    "valgrind": ["-O1", "-g"],
}


@dataclass(frozen=True)
class Program:
    """A test of its own and the files of src/core that it tests.

    ``short``: their memory can be made to fail.  ``python``: they read what
    Python's headers declare, and nothing of them calls into Python.
    """

    tested: tuple[str, ...]
    own: tuple[str, ...] = ()
    short: bool = True
    python: bool = False
    arguments: tuple[str, ...] = ()


#: The ledger, and what a sweep of it needs.
LEDGER = (
    "ledger/birthplace",
    "ledger/book",
    "ledger/journal",
    "ledger/survivors",
    "ledger/intervals",
    "ledger/ledger",
    "ledger/libraries",
    "ledger/lock",
    "ledger/recurrence",
    "ledger/ring",
    "ledger/samples",
    "ledger/sites",
    "ledger/sources",
    "ledger/stacks",
    "steps/criterion",
    "steps/sweep",
    "base/array",
    "base/memory",
    "base/ptrmap",
    "base/utf8",
    "native/dump",
)

#: What stands for the rest of the interpreter and of the core.
LEFT_OUT = ("fake_frames", "left_out")

PROGRAMS = {
    "ptrmap": Program(("base/ptrmap",)),
    "bitmap": Program(("base/bitmap",)),
    "lock": Program(("ledger/lock",)),
    "blocks": Program(("ledger/blocks", "base/array", "base/ptrmap")),
    "ledger": Program(LEDGER, own=LEFT_OUT, python=True),
    "recurrence": Program(
        LEDGER, own=LEFT_OUT, short=False, python=True
    ),
    "pace": Program(("steps/pace",)),
    "threads": Program(
        LEDGER,
        own=LEFT_OUT,
        short=False,
        python=True,
        arguments=(TURNS,),
    ),
}
CASES = [(name, kind) for name in PROGRAMS for kind in ("plain", "asan")]
CASES += [("lock", "tsan"), ("threads", "tsan")]
CASES += [(name, "valgrind") for name in PROGRAMS if name != "threads"]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # A preloaded library would come before the sanitizer's own.
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env=env,
        timeout=600,
    )


def runner(kind: str) -> list[str]:
    """ThreadSanitizer wants its shadow where a random address may lie."""
    if kind == "valgrind":
        return [
            "valgrind",
            "--quiet",
            "--leak-check=full",
            "--error-exitcode=9",
        ]
    fixed = shutil.which("setarch") if kind == "tsan" else None
    return [fixed, "-R"] if fixed else []


def can_build(folder: Path, flags: list[str], start: list[str]) -> bool:
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    made = run(CC, *flags, source, "-o", folder / "empty")
    return (
        made.returncode == 0 and run(*start, folder / "empty").returncode == 0
    )


def build(folder: Path, name: str, flags: list[str]) -> Path:
    """The program of name_test.c and of the files that it tests."""
    program = PROGRAMS[name]
    rooms = {f"-I{(CORE / one).parent}" for one in program.tested}
    if program.python:
        rooms.add(f"-isystem{sysconfig.get_path('include')}")
    parts = [
        *((CORE / f"{one}.c", program.short) for one in program.tested),
        *((HERE / f"{one}.c", False) for one in program.own),
        (HERE / f"{name}_test.c", False),
    ]
    objects = []
    for source, short in parts:
        made = folder / (source.stem + ".o")
        own = ["-UNDEBUG", *sorted(rooms), *(FAILING if short else [])]
        done = run(CC, *WARNINGS, *flags, *own, "-c", source, "-o", made)
        assert done.returncode == 0, done.stderr
        objects.append(made)
    made = folder / name
    done = run(CC, *flags, *objects, "-pthread", "-o", made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_plain_c(name: str, kind: str, tmp_path: Path) -> None:
    if kind == "valgrind" and shutil.which("valgrind") is None:
        pytest.skip("no valgrind")
    flags, start = KINDS[kind], runner(kind)
    if kind != "plain" and not can_build(tmp_path, flags, start):
        pytest.skip("the compiler has no such sanitizer")
    program = build(tmp_path, name, flags)
    done = run(*start, program, *PROGRAMS[name].arguments)
    assert (done.returncode, done.stdout) == (0, f"{name}: ok\n"), done.stderr
