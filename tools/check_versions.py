"""Builds and tests the package in an environment of its own per combination.

    make check-versions                        all of them
    make check-versions ARGS="'*torch2.11*'"   those whose names match
    make check-versions ARGS=--list            the names
    make check-versions ARGS="'*torch2.11*' --tests tests/unit/test_edges.py"

A combination is a Python, a torch, a NumPy and a compiler.  Each is made
under build/versions, built with warnings as errors, tested with tests/unit
and tests/native, and removed again but for its result (--keep leaves it,
and a later run takes what was left).  What has a result is not run again
(--again does).  The matrix is printed and written to
build/versions/matrix.md.

Interpreters come from PATH and from pyenv, packages from the index that pip
is set up with.  Where there is uv, environments share their files: without
it each takes 4 GB while it is tested.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "versions"
#: What the tests use beside torch and NumPy.
TOOLS = [
    "setuptools>=77,<82",
    "expecttest",
    "hypothesis",
    "jinja2",
    "jsonschema",
    "matplotlib",
    "pytest",
    "pytest-xdist",
    "rich",
    "scipy",
    "shtab",
]
#: A file's tests in one process, as `make test` runs them.
SPREAD = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
CXX = {"gcc": "g++", "clang": "clang++"}
TESTS = ("tests/unit", "tests/native")
#: Names of failed tests that the matrix shows; the log has the rest.
SHOWN = 3


@dataclass(frozen=True)
class Combination:
    python: str
    torch: str
    numpy: str = "2"
    compiler: str = "gcc"

    @property
    def name(self) -> str:
        return (
            f"py{self.python}-torch{self.torch}-numpy{self.numpy}"
            f"-{self.compiler}"
        )


#: Each torch on one Python, the oldest and newest torch on each Python, and
#: what else differs on what most people have.
COMBINATIONS = [
    Combination("3.11", "2.11.0"),
    Combination("3.11", "2.12.1"),
    Combination("3.11", "2.13.0"),
    Combination("3.11", "2.14.1"),
    Combination("3.11", "2.15.0"),
    Combination("3.12", "2.11.0"),
    Combination("3.12", "2.15.0"),
    Combination("3.13", "2.11.0"),
    Combination("3.13", "2.15.0"),
    Combination("3.14", "2.11.0"),
    Combination("3.14", "2.15.0"),
    Combination("3.11", "2.11.0", numpy="1.26"),
    Combination("3.11", "2.13.0", numpy="1.26"),
    Combination("3.11", "2.13.0", compiler="clang"),
    Combination("3.13", "2.15.0", compiler="clang"),
]


@dataclass(frozen=True)
class Result:
    """One row of the matrix; empty fields were not reached."""

    name: str
    outcome: str  # "passed", "failed", "no build", "no tests", "not here"
    python: str = ""
    torch: str = ""
    numpy: str = ""
    compiler: str = ""
    commit: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""


#: Those of Python, torch, NumPy and the compiler, and our commit.
Versions = tuple[str, str, str, str, str]


class NotHereError(Exception):
    """The machine cannot get what a combination needs."""


class Run:
    """One combination: its folder, its log, its environment."""

    def __init__(
        self, combination: Combination, tests: Sequence[str] = TESTS
    ) -> None:
        self.combination = combination
        self.tests = tests
        self.folder = PLACE / combination.name
        self.python = self.folder / "venv" / "bin" / "python"
        self.made = self.folder / "venv" / "made"
        self.log = self.folder / "log"

    def result(self) -> Result:
        name = self.combination.name
        try:
            if self.made.exists():
                self._clear()
            else:
                self._make_environment()
        except NotHereError as error:
            return Result(name, "not here", note=str(error))
        versions = self._versions()
        if not self._build():
            return Result(name, "no build", *versions, note=self._last_error())
        return self._test(versions)

    def _call(self, *command: object, **variables: str) -> int:
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            return subprocess.run(
                [str(word) for word in command],
                cwd=ROOT,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ).returncode

    def _install(self, *packages: str) -> int:
        uv = shutil.which("uv")
        if uv is None:
            pip = [self.python, "-m", "pip", "install", "-q"]
        else:
            pip = [uv, "pip", "install", "-q", "--python", self.python]
        return self._call(*pip, *packages)

    def _clear(self) -> None:
        """All but the environment."""
        for child in self.folder.iterdir():
            if child.is_dir() and child.name != "venv":
                shutil.rmtree(child)
            elif child.is_file():
                child.unlink()

    def _make_environment(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        wanted = self.combination
        for tool in (wanted.compiler, CXX[wanted.compiler]):
            if shutil.which(tool) is None:
                raise NotHereError(f"no {tool}")
        interpreter = find_python(wanted.python)
        self._call(interpreter, "-m", "venv", self.folder / "venv")
        torch, numpy = f"torch=={wanted.torch}", f"numpy=={wanted.numpy}.*"
        if self._install(torch, numpy, *TOOLS):
            raise NotHereError(f"no wheels: {self._last_error()}")
        self.made.touch()

    def _versions(self) -> Versions:
        said = output_of(
            self.python,
            "-c",
            "import platform, torch, numpy;"
            "print(platform.python_version(), torch.__version__,"
            " numpy.__version__)",
        )
        python, torch, numpy = (said.split() or [""] * 3)[-3:]
        compiler = self.combination.compiler
        number = output_of(compiler, "-dumpversion").strip()
        commit = output_of("git", "-C", ROOT, "rev-parse", "--short", "HEAD")
        return python, torch, numpy, f"{compiler} {number}", commit.strip()

    def _build(self) -> bool:
        compiler = self.combination.compiler
        source = self.folder / "source"
        copy_sources(source)
        failed = self._call(
            *(self.python, "-m", "pip", "install", "-q"),
            *("--no-build-isolation", "--no-deps", source),
            CC=compiler,
            CXX=CXX[compiler],
            IMPACTARBITER_WERROR="1",
            IMPACTARBITER_CUDA="0",
        )
        return not failed

    def _test(self, versions: Versions) -> Result:
        name = self.combination.name
        passed, failed, skipped = self._pytest("junit")
        if passed + len(failed) == 0:
            return Result(name, "no tests", *versions, note=self._last_error())
        note = ""
        if failed:  # those alone, once more: a busy machine's time-outs
            retried, again, _ = self._pytest("again", "--last-failed")
            if retried + len(again) == len(failed):  # no crash
                passed, failed = passed + retried, again
                note = f"{retried} at the second try" if retried else ""
        note = "; ".join(filter(None, [note, ", ".join(failed[:SHOWN])]))
        return Result(
            name,
            "failed" if failed else "passed",
            *versions,
            passed=passed,
            failed=len(failed),
            skipped=skipped,
            note=note,
        )

    def _pytest(self, label: str, *options: str) -> tuple[int, list[str], int]:
        """Passed, names of what failed, skipped; nothing after a crash,
        which ends pytest before it can write."""
        report = self.folder / f"{label}.xml"
        self._call(
            *(self.python, "-P", "-m", "pytest", "-q", *SPREAD, *options),
            *("-o", f"cache_dir={self.folder / 'cache'}"),
            *(f"--junitxml={report}", *self.tests),
            OMP_NUM_THREADS="1",
        )
        return read_junit(report) if report.exists() else (0, [], 0)

    def _last_error(self) -> str:
        """The last line of the log that says what went wrong: a compiler's
        or an exception's, pip's own summary only where there is no other."""
        lines = self.log.read_text(errors="replace").splitlines()
        said = [line.strip() for line in lines if "error" in line.lower()]
        said.sort(
            key=lambda line: (
                ": error: " in line,
                not line.lower().startswith(("error:", "note:")),
            )
        )
        return (said or lines)[-1].strip()[:200]

    def remove(self) -> None:
        for part in ("venv", "source"):
            shutil.rmtree(self.folder / part, ignore_errors=True)


def find_python(version: str) -> Path:
    """An interpreter of that version, by what it says of itself."""
    on_path = shutil.which(f"python{version}")
    versions = Path.home() / ".pyenv" / "versions"
    found = [Path(on_path)] if on_path else []
    found += sorted(versions.glob(f"{version}.*/bin/python"), reverse=True)
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    for python in found:
        if output_of(python, "-c", question).strip() == version:
            return python
    raise NotHereError(f"no python{version} on PATH or in pyenv")


def output_of(*command: object) -> str:
    """What a command prints; nothing where it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True
        )
    except OSError:
        return ""
    return "" if done.returncode else done.stdout


def copy_sources(target: Path) -> None:
    """The tracked files: two builds never share objects."""
    tracked = output_of("git", "-C", ROOT, "ls-files", "-z").split("\0")
    for name in filter(None, tracked):
        if name.split("/")[0] in ("tests", "docs", "examples", "benchmarks"):
            continue
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def read_junit(report: Path) -> tuple[int, list[str], int]:
    passed, skipped = 0, 0
    failed = []
    for case in ElementTree.parse(report).iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed.append(str(case.get("name")))
        elif "skipped" in outcomes:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def matrix(results: Sequence[Result]) -> str:
    rows = [
        "| combination | Python | torch | NumPy | compiler | tests |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        if result.passed or result.failed:
            tests = f"{result.passed} passed, {result.failed} failed"
            tests += f", {result.skipped} skipped"
        else:
            tests = result.outcome
        if result.note:
            tests += f" ({result.note})"
        rows.append(
            f"| {result.name} | {result.python} | {result.torch} |"
            f" {result.numpy} | {result.compiler} | {tests} |"
        )
    commits = sorted({result.commit for result in results if result.commit})
    return "\n".join([*rows, "", f"Measured at {', '.join(commits)}."]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    chosen = [
        combination
        for combination in COMBINATIONS
        if any(fnmatch.fnmatch(combination.name, p) for p in asked.patterns)
    ]
    if asked.list:
        print(*(combination.name for combination in chosen), sep="\n")
        return 0
    results = []
    for combination in chosen:
        saved = PLACE / f"{combination.name}.json"
        if saved.exists() and not asked.again:
            results.append(Result(**json.loads(saved.read_text())))
            continue
        print(f"== {combination.name}", flush=True)
        run = Run(combination, asked.tests)
        result = run.result()
        saved.write_text(json.dumps(asdict(result)))
        results.append(result)
        print(f"   {result.outcome} {result.note}", flush=True)
        if not asked.keep:
            run.remove()
    table = matrix(results)
    (PLACE / "matrix.md").write_text(table)
    print(table)
    bad = {"failed", "no build", "no tests"}
    return int(any(result.outcome in bad for result in results))


if __name__ == "__main__":
    sys.exit(main())
