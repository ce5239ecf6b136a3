"""Runs torch's own tests plain and watched, and compares what passes.

    make check-torch-suite                          all files; some hours
    make check-torch-suite ARGS=test_autograd.py    one of them
    make check-torch-suite ARGS="test_nn.py -k Linear"
    make check-torch-suite ARGS="--tests D a.py b/c.py"    another project's

Watched means: impactarbiter is on and looks are forced (forced.py), also in
the processes that multiprocessing makes.  A test whose outcome differs is run
three times more in each way, alone: what differs every time is a difference
of ours, the rest is unsteady.  Exits 1 where anything differs.

torch's tests are fetched at the tag of the installed version into
build/torch-suite.  TORCH_SOURCE=... names another place: a checkout (its
version may differ, which is said), or a repository for git to clone from.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = HERE.parent.parent / "build" / "torch-suite"
REPOSITORY = "https://github.com/pytorch/pytorch"
FILES = [
    "test_autograd.py",
    "test_python_dispatch.py",
    "test_utils.py",
    "test_dataloader.py",
    "test_multiprocessing.py",
    "test_multiprocessing_spawn.py",
    "test_fake_tensor.py",
    "test_torch.py",
    "test_nn.py",
    "test_jit.py",
    "functorch/test_eager_transforms.py",
    "distributed/test_c10d_gloo.py",
    "distributed/test_c10d_spawn_gloo.py",
    "distributed/_composable/fsdp/test_fully_shard_init.py",
    "distributed/_composable/fsdp/test_fully_shard_training.py",
]
#: What measures time says nothing here, and takes an hour on a busy machine.
LEFT_OUT = "not PerfTest"
#: Runs of one file that a crash, or the end of its time, may cut short.
CRASHES = 20
#: In place of an exit code, and as the outcome of the test that ran then.
TIMED_OUT = "timed-out"
#: Seconds to write the stacks in, when the time is over.
LAST_SECONDS = 60
#: A command, and beside it, no child of its, what ends their group where we
#: have been killed: only we could write what it reads.
GUARDED = """
exec 3<&0 < /dev/null
( (read _ <&3; kill -s KILL 0) & )
exec "$@" 3<&-
"""
#: Further runs of a test whose outcome differs.
REPEATS = 3
PASSED = 0, 1, 5  # pytest's exit codes: passed, failed, nothing to run


@dataclass(frozen=True)
class Outcomes:
    """By test; ``looks`` were made, it took ``seconds``."""

    by_test: Mapping[str, str]
    looks: int
    seconds: float

    def count(self, outcome: str) -> int:
        return sum(said == outcome for said in self.by_test.values())


@dataclass(frozen=True)
class Compared:
    file: str
    plain: Outcomes
    watched: Outcomes
    unsteady: Sequence[str]
    differs: Sequence[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument(
        "--tests",
        type=Path,
        metavar="FOLDER",
        help="of another project's tests, with its conftest.py",
    )
    parser.add_argument("-k", dest="expression", default="")
    parser.add_argument("--limit", type=int, default=7200, metavar="SECONDS")
    parser.add_argument(
        "--looks",
        type=float,
        default=0.7,
        metavar="SHARE",
        help="of the processor's time, that looks may take",
    )
    asked = parser.parse_args()
    tests = asked.tests.resolve() if asked.tests else source() / "test"
    rows = []
    for file in asked.files:
        if not (tests / file).is_file():
            print(f"{file}: not among these tests", flush=True)
            continue
        rows.append(compare(tests, file, asked))
        print(table(rows[-1:]), flush=True)
    text = table(rows)
    (PLACE / "table.md").write_text(text)
    print(text)
    return int(any(row.differs for row in rows))


# -- torch's tests ----------------------------------------------------------


def source() -> Path:
    """A folder with torch's tests; fetches them where there is none."""
    import torch

    version = torch.__version__.split("+")[0]
    asked = os.environ.get("TORCH_SOURCE", REPOSITORY)
    folder = Path(asked).expanduser()
    if not (folder / "test" / "test_autograd.py").is_file():
        folder = PLACE / f"v{version}"
        if not folder.is_dir():
            fetch(asked, f"v{version}", folder)
    said = (folder / "version.txt").read_text().strip()
    print(f"torch {torch.__version__}, tests of {said}", flush=True)
    if not said.startswith(version):
        print("the tests are another version's: more of them fail, plain")
    return folder


def fetch(repository: str, tag: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    clone = ["git", "clone", "--quiet", "--depth=1", f"--branch={tag}"]
    clone += ["--filter=blob:none", "--sparse", repository, str(new)]
    subprocess.run(clone, check=True)
    subprocess.run(
        ["git", "-C", str(new), "sparse-checkout", "set", "test"], check=True
    )
    new.rename(folder)


# -- one file, plain and watched ----------------------------------------------


def compare(tests: Path, file: str, asked: argparse.Namespace) -> Compared:
    ways = 0.0, asked.looks
    plain, watched = (
        run(tests, file, looks, asked.limit, asked.expression)
        for looks in ways
    )
    unsteady: list[str] = []
    differs: list[str] = []
    for name in sorted(plain.by_test.keys() | watched.by_test.keys()):
        was, now = plain.by_test.get(name), watched.by_test.get(name)
        if was == now:
            continue
        # A node's id begins with its file, as it is below test/.
        alone = [
            {
                run(tests, name, looks, asked.limit).by_test.get(name)
                for _ in range(REPEATS)
            }
            for looks in ways
        ]
        steady = alone[0].isdisjoint(alone[1])
        (differs if steady else unsteady).append(name)
        print(f"{name}: {was}, watched {now}; alone {alone}", flush=True)
    return Compared(file, plain, watched, unsteady, differs)


def run(
    tests: Path, what: str, looks: float, limit: int, expression: str = ""
) -> Outcomes:
    """Outcomes of a file or a test.

    What crashes, or runs when the time is over, is named and left out then.
    Its log and its outcomes stay in build/torch-suite.
    """
    label = what.replace("/", "-").replace("::", "-")[:120]
    stem = f"{label}.{'watched' if looks else 'plain'}"
    outcomes, log = PLACE / f"{stem}.txt", PLACE / f"{stem}.log"
    PLACE.mkdir(parents=True, exist_ok=True)
    for old in (outcomes, log):
        old.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q"]
    command += ["-p", "plugin", "-c", str(HERE / "pytest.ini")]
    command += ["--rootdir", str(tests), what]
    if (tests / "test_autograd.py").is_file():
        command += ["--noconftest"]  # torch's asks for more than pytest
    chosen = f"({expression}) and {LEFT_OUT}" if expression else LEFT_OUT
    command += ["-k", chosen]
    begun = time.monotonic()
    for _ in range(CRASHES):
        code = call(command, tests, log, limit, variables(looks, outcomes))
        if code in PASSED or not note_end(outcomes, code):
            break
    return read(outcomes, time.monotonic() - begun)


def variables(looks: float, outcomes: Path) -> dict[str, str]:
    path = [str(HERE / "path"), str(HERE)]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    set_here = {
        "IMPACTARBITER_SUITE_OUTCOMES": str(outcomes),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
        "PYTHONFAULTHANDLER": "1",
    }
    if looks:
        set_here["IMPACTARBITER_SUITE_LOOKS"] = str(looks)
    return {**os.environ, **set_here}


def call(
    command: list[str],
    folder: Path,
    log: Path,
    limit: int,
    environment: dict[str, str],
) -> int | str:
    """Its exit code; what takes too long is ended, with its stacks."""
    with log.open("a") as output:
        process = subprocess.Popen(
            ["sh", "-c", GUARDED, "sh", *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LAST_SECONDS)
        return TIMED_OUT
    finally:  # what its tests have left running, and the guard
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def note_end(outcomes: Path, code: int | str) -> bool:
    """Names the test in which a run ended; false where it was in none."""
    lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    begun = [line for line in lines if not line.startswith("looks ")]
    if not begun or not begun[-1].startswith("began "):
        return False
    name = begun[-1].split(" ", 1)[1]
    word = code if code == TIMED_OUT else f"ended:{code}"
    with outcomes.open("a") as file:
        file.write(f"{word} {name}\n")
    return True


def read(outcomes: Path, seconds: float) -> Outcomes:
    by_test: dict[str, str] = {}
    looks = latest = 0
    lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    for line in lines:
        word, rest = line.split(" ", 1)
        if word == "looks":
            # After a crash the count begins again.
            looks += int(rest) - (latest if int(rest) >= latest else 0)
            latest = int(rest)
        elif word != "began":
            by_test[rest] = word
    return Outcomes(by_test, looks, seconds)


def table(rows: Sequence[Compared]) -> str:
    lines = [
        "| file | tests | passed plain | passed watched | timed out plain,"
        " watched | looks | seconds plain, watched | unsteady | differ |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.file} | {len(row.plain.by_test)} |"
            f" {row.plain.count('passed')} | {row.watched.count('passed')} |"
            f" {row.plain.count(TIMED_OUT)}, {row.watched.count(TIMED_OUT)} |"
            f" {row.watched.looks} | {row.plain.seconds:.0f},"
            f" {row.watched.seconds:.0f} | {len(row.unsteady)} |"
            f" {len(row.differs)} |"
        )
    lines += [f"differs: {name}" for row in rows for name in row.differs]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
