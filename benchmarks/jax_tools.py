"""JAX's own tools on the leaky programs of tests/jax: who names what.

    build/check-jax/bin/python -P benchmarks/jax_tools.py

Each program runs once for each tool.  A line is named where the tool's output
has the program's file with the marked line, a holder where it has the marked
name, a path where that name is part of a longer one that leads to it, a rate
where growth is told by the step or the trace.  Lines of the program that the
output quotes name nothing.  Needs impactarbiter installed beside JAX.
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
if "XLA_FLAGS" in open(program).read():
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
with jax.checking_leaks() if checks == "1" else contextlib.nullcontext():
    space = runpy.run_path(program, run_name="__main__")
"""


def main() -> None:
    print("| program |", " | ".join(TOOLS), "| impactarbiter |")
    print("|---|" + "---|" * (len(TOOLS) + 1))
    for program in sorted(PAIRS.glob("*.py")):
        cells = [seen(said(program, tool), program) for tool in TOOLS]
        cells.append(seen(ours(program), program))
        print(f"| {program.stem} |", " | ".join(cells), "|", flush=True)


def truth(program: Path) -> tuple[set[int], str]:
    """The marked lines, and what they are marked with."""
    marks = {
        number: marked[1]
        for number, line in enumerate(program.read_text().splitlines(), 1)
        if (marked := re.search(r"# (?:holder|warned): (.+)$", line))
    }
    (name,) = set(marks.values())
    return set(marks), name


def seen(lines_and_text: tuple[set[int], str], program: Path) -> str:
    lines, output = lines_and_text
    marked, name = truth(program)
    source = {quoted.strip() for quoted in program.read_text().splitlines()}
    text = "\n".join(
        said for said in output.splitlines() if said.strip() not in source
    )
    last = re.escape(name.rpartition(".")[2])
    words = [
        word
        for word, yes in (
            ("line", marked & lines),
            ("holder", all(part in text for part in name.split("."))),
            ("path", re.search(rf"[\w)\]>]\.{last}\b", text)),
            ("rate", re.search(r"more a step|\d traces of", text)),
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
    found = re.findall(rf"{program.name}:(\d+)", done.stderr)
    return set(map(int, found)), done.stderr


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
