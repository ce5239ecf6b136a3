"""JAX's own tools on the leaky programs of tests/jax: who names what.

    build/check-jax/bin/python -P benchmarks/jax_tools.py

Each program runs once for each tool.  A line is named where the tool's output
has the program's file with the marked line, a holder where it has the marked
name.  Needs impactarbiter installed beside JAX.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PAIRS = Path(__file__).resolve().parents[1] / "tests" / "jax" / "pairs"
#: Run in the program's process, after it.
TOOLS = {
    "live_arrays": "print([(a.shape, a.dtype) for a in jax.live_arrays()])",
    "device_memory_profile": (
        "open(out, 'wb').write(jax.profiler.device_memory_profile())"
    ),
    "checking_leaks": "",
}
RUN = """
import runpy, sys
program, out, checks = sys.argv[1:4]
sys.argv = [program, "leaky"]
import contextlib, os
if "sharded" in program:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
with jax.checking_leaks() if checks == "1" else contextlib.nullcontext():
    space = runpy.run_path(program, run_name="__main__")
"""


def main() -> None:
    print("| program |", " | ".join(TOOLS), "| impactarbiter |")
    print("|---|" + "---|" * (len(TOOLS) + 1))
    for program in sorted(PAIRS.glob("*.py")):
        line, name = truth(program)
        cells = [seen(said(program, tool), line, name) for tool in TOOLS]
        cells.append(seen(ours(program), line, name))
        print(f"| {program.stem} |", " | ".join(cells), "|", flush=True)


def truth(program: Path) -> tuple[int, str]:
    for number, line in enumerate(program.read_text().splitlines(), 1):
        marked = re.search(r"# (?:\w+): (.+)$", line)
        if marked:
            return number, marked[1]
    raise ValueError(program)


def seen(lines_and_text: tuple[set[int], str], line: int, name: str) -> str:
    lines, text = lines_and_text
    words = [
        word
        for word, yes in (
            ("line", line in lines),
            ("holder", all(part in text for part in name.split("."))),
            ("rate", "a step" in text or "traces of" in text),
        )
        if yes
    ]
    return ", ".join(words) or "-"


def said(program: Path, tool: str) -> tuple[set[int], str]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        checks = str(int(tool == "checking_leaks"))
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-c",
                RUN + TOOLS[tool],
                str(program),
                str(out),
                checks,
            ],
            capture_output=True,
            text=True,
        )
        if out.exists():
            return lines_of_profile(out.read_bytes(), program.name), ""
    text = done.stdout + done.stderr
    found = re.findall(rf"{program.name}\"?(?:, line |:)(\d+)", text)
    return set(map(int, found)), text


def ours(program: Path) -> tuple[set[int], str]:
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "impactarbiter",
            "run",
            str(program),
            "leaky",
        ],
        capture_output=True,
        text=True,
    )
    text = done.stderr
    found = re.findall(rf"{program.name}:(\d+)", text)
    lines = set(map(int, found))
    line, _ = truth(program)
    if "traces of" in text or "is a tracer" in text:
        lines.add(line)  # the function's, which the marked line calls
    return lines, text


# -- a profile in pprof's format ----------------------------------------------


def lines_of_profile(data: bytes, name: str) -> set[int]:
    """Lines of a file on the stacks of what is alive."""
    fields = list(messages(gzip.decompress(data)))
    strings = [value.decode() for key, value in fields if key == 6]
    files = {}
    for key, value in fields:
        if key == 5:
            one = dict(messages(value))
            files[one[1]] = strings[one.get(4, 0)]
    found = set()
    for key, value in fields:
        if key == 4:
            for inner, line in messages(value):
                if inner == 4:
                    one = dict(messages(line))
                    if files.get(one.get(1), "").endswith(name):
                        found.add(one.get(2, 0))
    return found


def messages(data: bytes) -> Iterator[tuple[int, object]]:
    """(field, value) of a message: numbers and bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            yield key >> 3, data[at : at + value]
            at += value
        else:
            yield key >> 3, value


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


if __name__ == "__main__":
    main()
