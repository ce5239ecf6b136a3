"""Runs small watched programs under valgrind and tells what is ours.

    python valgrind.py [SECONDS]

First without torch, with NumPy's arrays alone, which takes half a minute;
then with torch, whose import alone takes many: ended after so many SECONDS,
if they are given, which is said.  An error counts where one of our modules
stands in its stack, for a value that nobody set in the stack of its origin,
up to where the interpreter runs Python: the interpreter and torch have their
own, thousands of them, also where Python that we call imports a module.  Exit
status 1 where there is one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "helpers"))

import without_torch  # noqa: E402

OURS = ("impactarbiter/_",)
#: Memory that is there at the end and that a static of ours points to.
KEPT = ("Leak_StillReachable", "Leak_PossiblyLost")
TOOL = [
    "valgrind",
    "--quiet",
    "--xml=yes",
    "--leak-check=full",
    "--track-origins=yes",
    "--num-callers=30",
    "--trace-children=no",
    "--error-limit=no",
]


def frames(error: xml.Element) -> Iterator[tuple[str, str, str]]:
    """(module, function, file:line) of every stack of an error."""
    for frame in error.iter("frame"):
        where = f"{frame.findtext('file', '?')}:{frame.findtext('line', '')}"
        yield frame.findtext("obj", ""), frame.findtext("fn", "?"), where


def runs_python(frame: tuple[str, str, str]) -> bool:
    return frame[1] == "_PyEval_EvalFrameDefault"


def is_ours(error: xml.Element) -> bool:
    kind = error.findtext("kind", "")
    if kind in KEPT:
        return False
    where = list(frames(error))
    origin = error.findall("stack")[1:]
    if kind.startswith("Uninit") and origin:
        where = [
            frame
            for stack in origin
            for frame in takewhile(lambda f: not runs_python(f), frames(stack))
        ]
    modules = {module for module, _function, _at in where}
    return any(name in module for module in modules for name in OURS)


def text(error: xml.Element) -> str:
    what = error.findtext("what") or error.findtext("xwhat/text")
    lines = [
        f"    {function} ({where}, {os.path.basename(module)})"
        for module, function, where in frames(error)
    ]
    return "\n".join([f"{error.findtext('kind')}: {what}", *lines])


def judged(log: Path, name: str) -> bool:
    """Says what is in a log that is whole; whether nothing is ours."""
    errors = list(xml.parse(log).getroot().iter("error"))
    ours = [error for error in errors if is_ours(error)]
    print(f"{name}: {len(errors)} errors in all, {len(ours)} with ours")
    for error in ours:
        print(text(error))
    return not ours


def without(folder: Path) -> bool:
    log = folder / "arrays.xml"
    done = without_torch.run(
        without_torch.make(folder),
        [str(HERE / "arrays.py")],
        [*TOOL, f"--xml-file={log}"],
    )
    print(done.stdout, done.stderr, sep="", end="")
    return judged(log, "without torch") and done.returncode == 0


def beside(folder: Path, seconds: float | None) -> bool:
    log = folder / "small.xml"
    command = [*TOOL, f"--xml-file={log}", sys.executable, "-P"]
    try:
        done = subprocess.run(
            [*command, str(HERE / "small.py")], timeout=seconds
        )
    except subprocess.TimeoutExpired:
        print(f"with torch: not at its end after {seconds:g} s")
        return True
    return judged(log, "with torch") and done.returncode == 0


def main(seconds: str | None = None) -> int:
    os.environ |= {"PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        right = without(Path(folder))
        right &= beside(Path(folder), float(seconds) if seconds else None)
    return not right


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
