"""``impactarbiter fix --verify``: the program again, as it is and patched.

Both runs are of a private copy of the folders that the program ran in, at the
same place, so that its output can be compared byte by byte.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence

from ..base.errors import ImpactArbiterError, UsageError
from ..base.records import dataclass
from ..base.units import format_bytes, plural
from ..judging.patches.offer import ENOUGH
from ..model.report import Report
from . import run
from .changes import Change, say
from .options import parse
from .watch_options import words_of

#: What is copied at most; a folder with data or checkpoints has more, and
#: copying those three times is nothing that is done unasked.
MOST_BYTES = 256 << 20
MOST_FILES = 20_000
#: Not copied: no part of the program, or the interpreter's own.
LEFT_OUT = frozenset({".git", ".venv", "__pycache__", "node_modules", "venv"})
#: Seconds that one run may take.
MOST_SECONDS = 3600
#: In a printed tensor.
_GRAD_FN = re.compile(rb",\s+(?:grad_fn=<[^<>]*>|requires_grad=True)")


class CannotVerifyError(ImpactArbiterError):
    """Why there can't be a run to compare, in one line."""


@dataclass(frozen=True)
class _Program:
    """A recorded command: the launcher's options, the target, its folder."""

    options: list[str]
    target: list[str]
    folder: str

    @property
    def script(self) -> str | None:
        """The script's file; None for a module."""
        if self.target[0] == "-m":
            return None
        return os.path.join(self.folder, self.target[0])


@dataclass(frozen=True)
class _Outcome:
    """What one run has shown."""

    report: Report
    output: bytes
    code: int
    errors: str

    @property
    def shown(self) -> tuple[bytes, int]:
        """Output and exit code; what a tensor prints of its graph is left
        out: a patch drops graphs."""
        return _GRAD_FN.sub(b"", self.output), self.code

    @property
    def rate(self) -> float:
        """Bytes a step, tensors and graph nodes."""
        found = [f for f in self.report.findings if f.confirmed]
        tensors = max(
            self.report.grown_bytes_per_step or 0.0,
            sum(f.bytes_per_step for f in found),
        )
        return tensors + sum(f.graph_bytes_per_step for f in found)


def verify(report: Report, changes: Sequence[Change]) -> bool:
    """Runs, prints both rates; whether the patches hold and nothing else
    changed.  CannotVerifyError where that can't be seen."""
    program = _recorded(report)
    folders = _folders(program, changes)
    with tempfile.TemporaryDirectory(prefix="impactarbiter-") as room:
        say(f"running twice: {shlex.join(program.target)}")
        before = _outcome(program, folders, room, ())
        after = _outcome(program, folders, room, changes)
        same = before.shown == after.shown
        settled = True
        if not same:
            again = _outcome(program, folders, room, ())
            settled = before.shown == again.shown
    return _told(before, after, changes, same, settled)


def _told(
    before: _Outcome,
    after: _Outcome,
    changes: Sequence[Change],
    same: bool,
    settled: bool,
) -> bool:
    """Prints what the runs have shown."""
    mended = {f.signature for change in changes for f in change.findings}
    aimed = sum(
        f.all_bytes_per_step
        for f in before.report.findings
        if f.confirmed and f.signature in mended
    )
    holds = aimed > 0 and before.rate - after.rate >= ENOUGH * aimed
    say(f"before: {_rates(before)}")
    say(f"after: {_rates(after)}")
    if not aimed:
        say("the leak did not show again: nothing to compare")
    else:
        said = "hold" if holds else "do not hold"
        stopped = min(max((before.rate - after.rate) / aimed, 0.0), 1.0)
        say(
            f"the patches {said}: they stop {int(stopped * 100)} % of the"
            f" {format_bytes(aimed)} a step that they are for"
        )
    if after.code != before.code:
        say(f"exit code: {before.code} before, {after.code} after")
        say(f"it ended with: {_last_line(after.errors)}")
    elif before.code:
        say(f"both ended with: {_last_line(before.errors)}")
    if before.output != after.output and same:
        say("output: the same but for the grad_fn of printed tensors")
    elif same:
        say("output: the same")
    elif not settled:
        say("output: differs from run to run without the patches, too")
    elif after.output != before.output:
        say("output: changed")
    return holds and (same or not settled)


def _rates(outcome: _Outcome) -> str:
    text = f"{format_bytes(outcome.rate)} a step"
    process = outcome.report.process_bytes_per_step
    if process:  # 0: no more than what a process goes up and down by
        text += f", the process {format_bytes(process)} a step"
    steps = plural(outcome.report.steps, "step")
    return f"{text} ({steps}, exit code {outcome.code})"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


# -- what to run --------------------------------------------------------------


def _recorded(report: Report) -> _Program:
    command = report.environment.get("command")
    folder = report.environment.get("cwd")
    if not command or not folder:
        raise CannotVerifyError(
            "cannot verify: the report does not say how the program was run;"
            " expected one that `impactarbiter run --json` wrote"
        )
    if "rank" in report.environment:
        raise CannotVerifyError(
            "cannot verify: the report is of one process of a job; expected"
            " a program of one process"
        )
    try:
        words = shlex.split(command)
        given, target = parse("run", run.OPTIONS, words[2:], stop_at=("-m",))
    except (ValueError, UsageError):
        words, target = [], []
    if words[:2] != ["impactarbiter", "run"] or not target:
        raise CannotVerifyError(
            "cannot verify: the report's command is not `impactarbiter run`"
        )
    options = words_of(given)
    return _Program(options, target, folder)


def _folders(program: _Program, changes: Iterable[Change]) -> list[str]:
    """The folders to copy: where it ran, and where its script is."""
    folders = [os.path.realpath(program.folder)]
    if program.script is not None:
        beside = os.path.realpath(os.path.dirname(program.script))
        if not _is_in(beside, folders):
            folders.append(beside)
    for change in changes:
        if not _is_in(os.path.realpath(change.file), folders):
            raise CannotVerifyError(
                f"cannot verify: {change.file} is outside the program's"
                f" folder {folders[-1]}, which is what would be copied"
            )
    size = count = 0
    for folder in folders:
        if not os.path.isdir(folder):
            raise CannotVerifyError(f"cannot verify: {folder} is not there")
        for path in _inside(folder):
            size += os.lstat(path).st_size
            count += 1
            if size > MOST_BYTES or count > MOST_FILES:
                raise CannotVerifyError(
                    f"cannot verify: {folder} is too large to copy: more than"
                    f" {format_bytes(MOST_BYTES)} or {MOST_FILES:,} files"
                )
    return folders


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == f or path.startswith(f + os.sep) for f in folders)


def _inside(folder: str, room: str = "") -> Iterable[str]:
    """Files, links and folders below it, without what lies in ``room``."""
    for where, names, files in os.walk(folder):
        names[:] = [
            name
            for name in names
            if name not in LEFT_OUT and os.path.join(where, name) != room
        ]
        yield from (os.path.join(where, name) for name in names)
        for name in files:
            path = os.path.join(where, name)
            if os.path.islink(path) or os.path.isfile(path):
                yield path


# -- one run ------------------------------------------------------------------


def _outcome(
    program: _Program,
    folders: Sequence[str],
    room: str,
    changes: Iterable[Change],
) -> _Outcome:
    """Runs a fresh copy, with the changes."""
    copies = {
        folder: os.path.join(room, f"copy{number}")
        for number, folder in enumerate(folders)
    }
    try:
        _make(copies, os.path.realpath(room), changes)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CannotVerifyError(
            f"cannot verify: no copy could be made in {room}: {why}; let"
            " TMPDIR be a folder that has room for it"
        ) from None
    said = os.path.join(room, "run.json")
    with open(os.path.join(room, "errors"), "w+b") as errors:
        done = _run(program, copies, said, errors.fileno())
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    if not os.path.exists(said):
        raise CannotVerifyError(
            f"cannot verify: the copy gave no report: {_last_line(text)}"
        )
    report = Report.load(said)
    os.unlink(said)
    return _Outcome(report, done.stdout, done.returncode, _before_ours(text))


def _run(
    program: _Program, copies: dict[str, str], said: str, errors: int
) -> subprocess.CompletedProcess[bytes]:
    target = [_copied(word, copies) for word in program.target]
    environment = dict(os.environ)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(
        _moved(path, copies) for path in paths
    )
    try:
        return subprocess.run(
            [
                sys.executable,
                *("-m", "impactarbiter", "run"),
                *(*program.options, "--json", said),
                *target,
            ],
            cwd=_moved(os.path.realpath(program.folder), copies),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise CannotVerifyError(
            f"cannot verify: the program ran longer than {MOST_SECONDS}"
            " seconds; let the script do fewer steps"
        ) from None


def _make(
    copies: dict[str, str], room: str, changes: Iterable[Change]
) -> None:
    for folder, copy in copies.items():
        shutil.rmtree(copy, ignore_errors=True)
        _copy(folder, copies, room)
    for change in changes:
        inside = _moved(os.path.realpath(change.file), copies)
        data = change.after.encode(change.encoding)
        mode = os.stat(inside).st_mode
        os.unlink(inside)  # it may be read-only
        with open(inside, "wb") as stream:
            stream.write(data)
        os.chmod(inside, mode)


def _copy(folder: str, copies: dict[str, str], room: str) -> None:
    """A link leads to the copy of what it led to, or to the thing itself
    where that is not copied."""
    os.makedirs(copies[folder])
    for path in _inside(folder, room):
        to = copies[folder] + path[len(folder) :]
        if os.path.islink(path):
            target = os.path.realpath(path)
            left_out = LEFT_OUT.intersection(target.split(os.sep))
            os.symlink(target if left_out else _moved(target, copies), to)
        elif os.path.isdir(path):
            os.mkdir(to)
        else:
            shutil.copy2(path, to)


def _moved(path: str, copies: dict[str, str]) -> str:
    """A path in one of the folders, in its copy; else as it is."""
    if not os.path.isabs(path):
        return path
    for folder, copy in copies.items():
        if _is_in(path, [folder]):
            return copy + path[len(folder) :]
    return path


def _copied(word: str, copies: dict[str, str]) -> str:
    """The same of a word that may name a path through links."""
    if not os.path.isabs(word) or _moved(word, copies) != word:
        return _moved(word, copies)
    real = os.path.realpath(word)
    moved = _moved(real, copies)
    return word if moved == real else moved


def _before_ours(text: str) -> str:
    """What the program has written, without the report behind it."""
    return text.split("\nImpactArbiter: ")[0]
