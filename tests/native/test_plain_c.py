"""The parts that are plain C, compiled alone and run without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CORE = HERE.parent.parent / "src" / "core"
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
SANITIZE = "-fsanitize=address,undefined"
FAILING = [f"-D{f}=ia_test_{f}" for f in ("malloc", "calloc", "realloc")]
#: Each one's room in src/core, and the files it needs beside itself.
ROOMS = {
    "array": "base",
    "ptrmap": "base",
    "bitmap": "base",
    "blocks": "ledger",
}
NEEDS = {
    "array": [],
    "ptrmap": [],
    "bitmap": [],
    "blocks": ["array", "ptrmap"],
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # A preloaded library would come before the sanitizer's own.
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )


def can_sanitize(folder: Path) -> bool:
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    made = run(CC, SANITIZE, source, "-o", folder / "empty")
    return made.returncode == 0 and run(folder / "empty").returncode == 0


def build(folder: Path, name: str, flags: list[str]) -> Path:
    """The program of name_test.c and of name.c, whose memory can fail."""
    tested = [CORE / ROOMS[own] / f"{own}.c" for own in (name, *NEEDS[name])]
    parts = [
        *((source, ["-UNDEBUG", *FAILING]) for source in tested),
        (HERE / f"{name}_test.c", [f"-I{CORE / ROOMS[name]}"]),
    ]
    objects = []
    for source, own in parts:
        made = folder / (source.stem + ".o")
        done = run(CC, *WARNINGS, *flags, *own, "-c", source, "-o", made)
        assert done.returncode == 0, done.stderr
        objects.append(made)
    program = folder / name
    done = run(CC, *flags, *objects, "-o", program)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize("sanitized", [False, True], ids=["plain", "asan"])
@pytest.mark.parametrize("name", NEEDS)
def test_plain_c(name: str, sanitized: bool, tmp_path: Path) -> None:
    flags = ["-O2"]
    if sanitized:
        if not can_sanitize(tmp_path):
            pytest.skip("the compiler has no sanitizers")
        flags = ["-O1", "-g", SANITIZE, "-fno-sanitize-recover=all"]
    done = run(build(tmp_path, name, flags))
    assert (done.returncode, done.stdout) == (0, f"{name}: ok\n"), done.stderr
