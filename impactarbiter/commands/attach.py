"""``impactarbiter attach``: a process that runs already, watched for a while.

The other process does the watching; we wait, and say what it found.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..attaching.errand import POLL, Errand, sent, wait_for
from ..attaching.target import AttachError, Target, find
from ..base.convert import decimal, whole
from ..base.errors import UsageError
from ..base.text import clean
from ..base.units import parse_duration, plural
from ..model.moment import Moment
from ..model.report import Report
from ..model.retention import Instances, Retention
from ..reports.console import broken, printable
from ..reports.jsonio import read_plain
from ..reports.outputs import STDOUT, check_outputs, gate, write_outputs
from ..reports.status import StatusLine
from ..reports.text import print_report
from .options import QUIET, Option, detail, parse
from .watch_options import REPORT, WATCH, keywords_of

HELP = """\
usage: impactarbiter attach PID [--for TIME | --steps N] [OPTIONS]
       impactarbiter attach PID --report [--json F] [--html F]
       impactarbiter attach PID --explain NAME [--html F]

Watches a Python process that runs already, prints its report and lets go;
nothing of ours is left in it but imported modules. Until --for or --steps is
over, or until Ctrl-C. If this command is killed, the process goes on
unwatched. It must run as the same user, with the same Python, and be able to
import this very build of impactarbiter.

  --for TIME       watch so long: 90s, 10m, 1h30m
  --steps N        watch so many steps
  --report         the report of a process that is watched already
  --explain NAME   who holds an object, or the instances of a class:
                   trainer.history, mypackage.model.Block; names of the main
                   module, of modules and of functions that run
  --quiet, -q      no word while it goes on, one line at the end
  --verbose, -v    all that is known of each finding

Watching (as in `run`): --every, --warmup, --window, --step, --allow,
  --obfuscate, --no-numpy, --memory-limit
Report (as in `run`): --json F, --html F, --timeline F.png, --sarif F,
  --flame F, --csv F, --perfetto F, --fail-on SEVERITY
"""

OPTIONS = {
    "--for": Option(parse_duration),
    "--steps": Option(whole(1)),
    "--report": Option(),
    "--explain": Option(str),
    **QUIET,
    **WATCH,
    **REPORT,
}


def execute(args: list[str]) -> int:
    """0, or what the gate says; AttachError where it cannot be watched."""
    given, rest = parse("attach", OPTIONS, args, interleave=True)
    pid = decimal(rest[0]) if len(rest) == 1 else None
    if pid is None:
        raise UsageError(
            f"got {' '.join(rest) or 'nothing'}: expected one process number,"
            " as in `impactarbiter attach 4711 --for 10m`"
        )
    if "--for" in given and "--steps" in given:
        raise UsageError("--for and --steps exclude each other: give one")
    outputs = check_outputs(given)
    target = find(pid)
    if "--explain" in given:
        return _explain(target, given["--explain"], outputs)
    if "--report" in given:
        with sent(target, {"action": "report"}) as errand:
            wait_for(errand, "report.json", "its report was made")
            report = errand.report()
    else:
        report = _watched(target.pid, given)
    assert report is not None
    write_outputs(report, outputs)
    taken = STDOUT in outputs.values()
    print_report(report, sys.stderr if taken else sys.stdout, detail(given))
    threshold = given.get("--fail-on")
    return gate(report, threshold) if threshold else 0


def _explain(target: Target, name: str, outputs: dict[str, str]) -> int:
    """Who holds that object, in words and as a page."""
    if outputs.keys() - {"to_html"}:
        raise UsageError("--explain has words and a page: expected --html F")
    found = _held_by(target, name)
    write_outputs(found, outputs)
    taken = STDOUT in outputs.values()
    stream = sys.stderr if taken else sys.stdout
    print(printable(str(found), stream), file=stream)
    return 0


def _held_by(target: Target, name: str) -> Retention | Instances:
    """What ``explain()`` answers in that process."""
    task = {"action": "explain", "expression": name}
    with sent(target, task) as errand:
        answer = wait_for(errand, "answer.json", "it could answer")
    kind = Instances if "Instances" in answer else Retention
    found: Retention | Instances = read_plain(
        kind, answer[kind.__name__], "the answer"
    )
    return found


def _watched(pid: int, given: dict[str, Any]) -> Report:
    task = {
        "action": "watch",
        "options": keywords_of(given),
        "steps": given.get("--steps"),
    }
    quiet = detail(given) == "short"
    with sent(find(pid), task) as errand:
        if not quiet:
            _say(f"watching process {pid}; Ctrl-C ends it with the report")
        end = time.monotonic() + given.get("--for", float("inf"))
        with _interrupted(errand):
            line = StatusLine(None if quiet else sys.stderr)
            try:
                return _attend(errand, end, quiet, line)
            finally:
                line.end()


@contextmanager
def _interrupted(errand: Errand) -> Iterator[None]:
    """The first Ctrl-C asks for the report, the second one leaves."""
    import signal

    def ask(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        errand.ask_to_stop()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _attend(
    errand: Errand, end: float, quiet: bool, line: StatusLine
) -> Report:
    told, steps, asked = 0, 0, False
    while True:
        report = errand.report()
        if report is not None:
            return report
        if not errand.target.alive:
            report = errand.report()
            if report is not None:
                return report
            raise AttachError(
                f"process {errand.target.pid} ended after"
                f" {plural(steps, 'step')} and left no report: it was killed,"
                " or ended without Python's exit handlers"
            )
        progress = errand.read("progress.json")
        if progress is not None:
            moment = Moment(**progress["moment"])
            steps = moment.steps
            if not quiet:
                told = _tell(progress["findings"], moment, told)
                line.show(moment)
        if time.monotonic() >= end and not asked:
            asked = True
            errand.ask_to_stop()
        time.sleep(POLL)


def _tell(found: list[Any], moment: Moment, told: int) -> int:
    """Says what was found since; how much was told by now."""
    from ..reports.wording import announcement

    report = Report.from_dict({**Report().to_dict(), "findings": found})
    for finding in report.findings[told:]:
        _say(f"step {moment.steps:,}: {announcement(finding)}")
    return len(report.findings)


def _say(text: str) -> None:
    sys.stderr.write(
        broken(f"impactarbiter: {clean(text)}", sys.stderr) + "\n"
    )
    sys.stderr.flush()
