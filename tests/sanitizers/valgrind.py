"""Runs a small watched program under valgrind and tells what is ours.

    python valgrind.py PROGRAM [SUPPRESSIONS]

An error counts where one of our modules stands in its stack: the interpreter
and torch have their own, hundreds of them.  Exit status 1 where there is one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator

OURS = ("impactarbiter/_core", "impactarbiter/_torch")
#: Memory that is there at the end and that a static of ours points to.
KEPT = ("Leak_StillReachable", "Leak_PossiblyLost")
TOOL = [
    "valgrind",
    "--quiet",
    "--xml=yes",
    "--leak-check=full",
    "--num-callers=30",
    "--trace-children=no",
    "--error-limit=no",
]


def frames(error: xml.Element) -> Iterator[tuple[str, str, str]]:
    """(module, function, file:line) of every stack of an error."""
    for frame in error.iter("frame"):
        where = f"{frame.findtext('file', '?')}:{frame.findtext('line', '')}"
        yield frame.findtext("obj", ""), frame.findtext("fn", "?"), where


def is_ours(error: xml.Element) -> bool:
    modules = {module for module, _function, _where in frames(error)}
    return error.findtext("kind") not in KEPT and any(
        name in module for module in modules for name in OURS
    )


def text(error: xml.Element) -> str:
    what = error.findtext("what") or error.findtext("xwhat/text")
    lines = [
        f"    {function} ({where}, {os.path.basename(module)})"
        for module, function, where in frames(error)
    ]
    return "\n".join([f"{error.findtext('kind')}: {what}", *lines])


def main(program: str, *suppressions: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "errors.xml")
        done = subprocess.run(
            [
                *TOOL,
                f"--xml-file={log}",
                *(f"--suppressions={file}" for file in suppressions),
                *(sys.executable, "-P", program),
            ],
            env={
                **os.environ,
                "PYTHONMALLOC": "malloc",
                "OMP_NUM_THREADS": "1",
            },
        )
        errors = list(xml.parse(log).getroot().iter("error"))
    ours = [error for error in errors if is_ours(error)]
    print(f"valgrind: {len(errors)} errors in all, {len(ours)} with ours")
    for error in ours:
        print(text(error))
    return 1 if ours or done.returncode else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
