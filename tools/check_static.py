"""Reads the C and C++ files with the analyzers that are installed.

    make check-static               all of them
    make check-static ARGS=tidy     one: gcc, clang, tidy

gcc -fanalyzer and clang-tidy (.clang-tidy has its checks) read the C files,
clang -Wall -Wextra -Wconversion the C++ files too.  Exits with 1 where one of
them finds what is not suppressed below, or where none is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wconversion"]
JOBS = int(os.environ.get("MAX_JOBS", "2"))
FINDING = re.compile(
    r"^(?:.*/)?(src/\S+?):(\d+):\d+: (?:warning|error): (.*)$", re.M
)


@dataclass(frozen=True)
class Suppression:
    """Findings of one check in one file, and why they are none."""

    file: str
    check: str
    reason: str


SUPPRESSED = [
    Suppression(
        "src/core/answers/explain.c",
        "-Wanalyzer-malloc-leak",
        "the question owns its targets and what they own: finish() frees"
        " them, whichever part failed",
    ),
    Suppression(
        "src/core/answers/question.c",
        "-Wanalyzer-malloc-leak",
        "the same question's",
    ),
    Suppression(
        "src/core/answers/needed.c",
        "-Wanalyzer-malloc-leak",
        "readers are the caller's: ia_needed_free() frees them",
    ),
    Suppression(
        "src/core/base/bitmap.c",
        "-Wanalyzer-malloc-leak",
        "pages and chunks are the bitmap's: ia_bitmap_free() frees them",
    ),
    Suppression(
        "src/core/base/plain_pickle.c",
        "clang-analyzer-core.NullDereference",
        "the stack has room for as many as lie on it: push() made it",
    ),
    Suppression(
        "src/core/ledger/libraries.c",
        "-Wanalyzer-malloc-leak",
        "copies made before one failed are freed in the loop that counts"
        " down, which the analyzer leaves early",
    ),
    Suppression(
        "src/core/ledger/sources.c",
        "-Wanalyzer-malloc-leak",
        "the text is the table's: release_string() frees it",
    ),
    Suppression(
        "src/core/ledger/stacks.c",
        "-Wanalyzer-malloc-leak",
        "a free place has no frames: drop_stack() frees them",
    ),
    Suppression(
        "src/core/native/loaded.c",
        "-Wanalyzer-malloc-leak",
        "the path is the caller's, who frees it",
    ),
    Suppression(
        "src/core/native/segments.c",
        "-Wanalyzer-malloc-leak",
        "paths are the list's: ia_segments_free() frees them",
    ),
]


@dataclass(frozen=True)
class Finding:
    file: str
    line: int
    text: str

    def suppressed(self) -> bool:
        return any(
            self.file == one.file and f"[{one.check}]" in self.text
            for one in SUPPRESSED
        )


def sources(suffix: str) -> list[str]:
    rooms = (ROOT / "src" / room for room in ("core", "torch", "arrays"))
    return sorted(
        str(path.relative_to(ROOT))
        for room in rooms
        for path in room.rglob(f"*{suffix}")
    )


def flags(suffix: str) -> list[str]:
    """As setup.py compiles them; what is not ours warns of nothing."""
    import numpy as np

    system = [sysconfig.get_path("include"), np.get_include()]
    language = ["-std=c11", "-D_GNU_SOURCE"]
    if suffix == ".cpp":
        import torch

        include = Path(torch.__file__).parent / "include"
        system += [str(include), f"{include}/torch/csrc/api/include"]
        # What the build has written for this torch.
        name = f"build/temp*/torch-{torch.__version__}/saved_layout.inc"
        system += [str(path.parent) for path in ROOT.glob(name)]
        language = ["-std=c++20"]
    return language + [f"-isystem{path}" for path in system]


def commands(tool: str) -> Iterator[list[str]]:
    """One a file: how the tool is called."""
    if tool == "gcc":
        # -O1: without it the analyzer does not see through inline.
        analyze = ["-O1", "-fanalyzer", "-fdiagnostics-plain-output", "-c"]
        for file in sources(".c"):
            yield ["gcc", *flags(".c"), *analyze, "-o", os.devnull, file]
    if tool == "clang":
        read = [*WARNINGS, "-fsyntax-only"]
        for suffix, compiler in ((".c", "clang"), (".cpp", "clang++")):
            for file in sources(suffix):
                yield [compiler, *flags(suffix), *read, file]
    if tool == "tidy":
        for file in sources(".c"):
            yield ["clang-tidy", "--quiet", file, "--", *flags(".c")]


def run(command: list[str]) -> str:
    """What it says; a file that it could not read is a finding, too."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    said = done.stdout + done.stderr
    if done.returncode and not FINDING.search(said):
        said += f"\nsrc/?:0:0: error: {' '.join(command)}: {said}"
    return said


def check(tool: str) -> tuple[list[Finding], int]:
    """What counts, and how many were suppressed."""
    with ThreadPoolExecutor(JOBS) as pool:
        said = pool.map(run, commands(tool))
    found = dict.fromkeys(
        Finding(file, int(line), text)
        for output in said
        for file, line, text in FINDING.findall(output)
    )
    counted = [one for one in found if not one.suppressed()]
    return counted, len(found) - len(counted)


PROGRAMS = {"gcc": "gcc", "clang": "clang++", "tidy": "clang-tidy"}


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(PROGRAMS)
    if unknown:
        print(f"no such tool: {', '.join(sorted(unknown))}")
        return 2
    ran = broken = 0
    for tool in wanted or PROGRAMS:
        if shutil.which(PROGRAMS[tool]) is None:
            print(f"{tool}: {PROGRAMS[tool]} is not installed")
            continue
        counted, suppressed = check(tool)
        print(f"{tool}: {len(counted)} found, {suppressed} suppressed")
        for one in counted:
            print(f"  {one.file}:{one.line}: {one.text}")
        ran += 1
        broken += len(counted)
    return 1 if broken or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
