"""``impactarbiter run``: an unchanged program, watched.

Nothing of ours may change the program's output on stdout, its exceptions
or its exit code: what fails here is said in one warning.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import getpid
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.convert import decimal, filename
from ..base.errors import ImpactArbiterError, UsageError
from ..base.files import from_working_folder
from ..base.ranks import JOB, of_rank, place, rank
from ..base.records import dataclass
from ..base.text import as_command, clean
from ..base.units import parse_duration
from ..base.waiting import handlers_wait
from ..core.depth import Room
from ..integrations.huggingface.adopt import adopt
from ..model.report import Report
from ..reports.children import with_children
from ..reports.console import Standing, TextStream, say
from ..reports.outputs import (
    FOUND,
    OUTPUTS,
    STDOUT,
    check_outputs,
    check_spared,
    gate,
    write_outputs,
)
from ..reports.text import Detail, print_report
from . import distributed, launch, lead
from .family import Family, family_of, gate_of_job, last_words
from .live import Live, signal_number
from .options import QUIET, Option, detail, parse
from .watch_options import REPORT, WATCH, keywords_of, words_of

if TYPE_CHECKING:
    from ..integrations.dashboard import Dashboard
    from ..reports.job import Job

_Given = TypeVar("_Given")

HELP = """\
usage: impactarbiter run [OPTIONS] (SCRIPT | -m MODULE) [ARGS...]

Runs SCRIPT as `python SCRIPT ARGS...` would, and says at the end on stderr
which line leaks memory and who holds it. The exit code is the script's own.
Options stand before SCRIPT; everything after it belongs to the script.

Watching:
  --every N           check each Nth step (default 1); accounting stays exact
  --warmup N          steps that count for nothing (default 3)
  --window N          generations that must survive (default 5)
  --step auto|manual  what ends a step: optimizer, else backward, else a
                      module call, else a call of what JAX or TensorFlow
                      compiled, else a turn of a loop that makes tensors
                      (auto), or arbiter.step() alone (manual)
  --allow RULE        keep silent about this line, holder or path, as reports
                      name them or as a glob: "model.py:forward",
                      "__main__.replay", "*.history"; repeatable
  --obfuscate         mask shapes, names and paths in all that is written
  --no-numpy          leave the memory of NumPy's arrays out
  --no-children       leave processes out that the program starts
  --memory-limit SIZE the forecast's limit, e.g. 12GiB (default: the device)

Report:
  --json F            the whole report, for `report`, `diff` and `merge`
  --html F            one page                   (impactarbiter[report])
  --timeline F.png    memory over the steps      (impactarbiter[report])
  --sarif F           for code scanning
  --flame F           a page: live bytes by allocating stack (...[report])
  --csv F             the same as a table
  --perfetto F        a trace for ui.perfetto.dev
  --job DIR           a folder that each process of the job writes a file
                      into, for `merge`; inherited as IMPACTARBITER_JOB
  --fail-on SEVERITY  exit 3 if the script succeeded and a leak is at least
                      info, warning or critical; bounded growth never counts
  F may be - for stdout.

While it runs (findings are told on stderr as they come):
  --report-every T    write the files anew every 10m, 90s, 1h30m
  --signal NAME       this signal writes them now (default USR1; none);
                      without files it prints the report
  --dashboard [PORT]  a page that follows the run, on 127.0.0.1 and with a
                      token in its URL (impactarbiter[dashboard])
  --live              a status line at the bottom of a terminal: steps, live,
                      peak and resident memory, rate, forecast
  -q, --quiet         no word while it runs, one line at its end
  -v, --verbose       all that is known of each finding
SIGTERM and SIGHUP write the report and then end the program as they would
have; a handler of the program's own stays in charge.

In a job of several processes (torchrun -m impactarbiter run SCRIPT) each
rank writes its own files: F.json becomes F.rank0.json, and %r in a name
stands for the rank. Rank 0 prints its report and decides for --fail-on.
`impactarbiter merge DIR` has the answer for the whole job.
"""


def _port(text: str) -> int:
    number = decimal(text)
    if number is None or not number < 65536:
        raise UsageError(f"{text!r} is no port: expected 0 to 65535")
    return number


OPTIONS = {
    **WATCH,
    **REPORT,
    "--job": Option(filename),
    "--no-children": Option(),
    "--report-every": Option(parse_duration),
    "--signal": Option(signal_number),
    "--live": Option(),
    "--dashboard": Option(_port, optional=str.isdecimal),
    **QUIET,
}


@dataclass(frozen=True)
class _Run:
    """One watched run: where it started and where its report goes."""

    pid: int
    rank: int | None
    stream: Standing | None
    arbiter: Any
    outputs: dict[str, str]
    command: str | None  # None: not to be told
    detail: Detail
    children: str | None = None  # the folder that they write into


def execute(args: list[str]) -> int:
    """Runs the program; returns its exit code, or 3 for ``--fail-on``.

    Raises UsageError before anything has run.  A program that ended by an
    interrupt ends us by KeyboardInterrupt, so that the shell sees SIGINT.
    """
    given, rest = parse("run", OPTIONS, args, stop_at=("-m",))
    plan = lead.planned(args, rest)
    if plan is not None:
        return _lead(plan, given)
    command = as_command(["impactarbiter", "run", *words_of(given), *rest])
    rest = adopt(rest, given)
    for option in OUTPUTS:
        if given.get(option, STDOUT) != STDOUT:
            given[option] = of_rank(given[option])
    outputs = check_outputs(given)
    if "--report-every" in given and not _files(outputs):
        raise UsageError(
            "--report-every has no file to write: expected --json F or"
            " --html F too"
        )
    target = _target(rest)
    check_spared(given, [target.file], "run")
    if "--job" in given:
        os.environ[JOB] = from_working_folder(given["--job"])
    masked = "--obfuscate" in given
    run = _start(given, outputs, None if masked else command)
    live = _follow(run, given)
    dashboard = _show(run, given)
    ending = launch.run_target(target)
    if getpid() != run.pid:
        # A forked child that ran off the end of the program: no report.
        _leave_by_interrupt(ending)
        return ending.code
    launch.wait_for_threads()
    with launch.LibraryBack():
        threshold = None if ending.code else given.get("--fail-on")
        found = _end(run, ending, live, dashboard, threshold)
        _leave_by_interrupt(ending)
    return FOUND if found else ending.code


def _end(
    run: _Run,
    ending: launch.Ending,
    live: Live | None,
    dashboard: Dashboard | None,
    threshold: str | None,
) -> bool:
    """All that is to be said at the end; whether ``--fail-on`` fails it."""
    if live is not None:
        _spared(run.stream, "the status line goes on", live.end)
    report = _undisturbed(run, partial(_make_report, run, ending))
    family = _undisturbed(run, partial(_last_words, run, report))
    if dashboard is not None:
        last_word = partial(dashboard.end, report)
        _spared(run.stream, "the page has no last word", last_word)
    if live is not None:
        live.let_go()
    # A rank that fails early has the others killed at whatever they do.
    if report is None or not threshold or run.rank:
        return False
    # What we could not judge is no failure of the program's.
    return FOUND in (gate(report, threshold), gate_of_job(family, threshold))


def _undisturbed(run: _Run, work: Callable[[], _Given]) -> _Given | None:
    """Our work after the program's end: its handlers of signals wait, but for
    an interrupt; nobody is left to take what they raise afterwards."""
    given = None
    try:
        with (
            handlers_wait(but=signal.SIGINT),
            Room(),  # whatever the limit is that it has set
        ):
            given = work()
    except BaseException as failure:
        _warn(run.stream, "raised after the program's end", failure)
    return given


def _with_command(report: Report, command: str | None) -> Report:
    """The report with how the program was run, for `fix --verify`."""
    if command is None:
        return report
    return replace(
        report, environment={**report.environment, "command": command}
    )


def _files(outputs: dict[str, str]) -> dict[str, str]:
    """Of the outputs those that can be written more than once."""
    return {m: path for m, path in outputs.items() if path != STDOUT}


def _lead(plan: distributed.Handover, given: dict[str, Any]) -> int:
    """Starts torchrun or its like, and says what its processes found."""
    leading = lead.Lead(plan, given.get("--job"), given.get("--json"))
    ending = launch.run_target(leading.target)
    end = partial(leading.end, sys.stderr, detail(given))
    job = _spared(sys.stderr, "what was found is not told", end)
    _leave_by_interrupt(ending)
    threshold = None if ending.code else given.get("--fail-on")
    found = threshold and gate_of_job(job, threshold) == FOUND
    return FOUND if found else ending.code


def _target(rest: list[str]) -> launch.Target:
    if rest[:1] == ["-m"]:
        if len(rest) < 2:
            raise UsageError("-m needs a module: expected -m MODULE [ARGS...]")
        return launch.module_target(rest[1], rest[2:])
    if not rest:
        raise UsageError(
            "nothing to run: expected `impactarbiter run [OPTIONS] SCRIPT"
            " [ARGS...]` or `-m MODULE`"
        )
    return launch.script_target(rest[0], rest[1:])


def _start(
    given: dict[str, Any], outputs: dict[str, str], command: str | None
) -> _Run:
    from ..watching import armed

    stream = Standing(sys.stderr) if sys.stderr is not None else None
    arbiter = None
    if "--no-children" in given:
        armed.disarm()
    try:
        import impactarbiter

        arbiter = impactarbiter.watch(**keywords_of(given))
    except UsageError:
        raise
    except Exception as error:
        _warn(stream, "running without watching", error)
    folder = None
    if arbiter is not None and "--no-children" not in given:
        try:
            children = armed.arm(keywords_of(given))
            folder = children.folder
            if children.excuse is not None:
                say(
                    f"warning: children are not watched: {children.excuse}",
                    stream,
                )
        except OSError as error:  # there is no folder that can be written
            armed.disarm()
            _warn(stream, "children are not watched", error)
    return _Run(
        getpid(),
        rank(),
        stream,
        arbiter,
        outputs,
        command,
        detail(given),
        folder,
    )


def _follow(run: _Run, given: dict[str, Any]) -> Live | None:
    """Says what happens while the program runs."""
    if run.arbiter is None:
        return None
    live = Live(
        arbiter=run.arbiter,
        stream=run.stream,
        write=lambda report: _write(run, _with_command(report, run.command)),
        publish=lambda report: _last_words(
            run, _with_command(report, run.command)
        ),
        quiet=run.detail == "short",
        status="--live" in given,
        every=given.get("--report-every"),
        asking=given.get("--signal", signal.SIGUSR1),
    )
    try:
        live.start()
    except Exception as error:
        _warn(run.stream, "nothing is said while it runs", error)
        return None
    return live


def _show(run: _Run, given: dict[str, Any]) -> Dashboard | None:
    """The page that follows the run; each rank of a host has its own."""
    if run.arbiter is None or "--dashboard" not in given:
        return None
    port = given["--dashboard"] or 0
    try:
        from ..integrations.dashboard import Dashboard

        dashboard = Dashboard(
            run.arbiter, port and port + (place().local_rank or 0)
        )
        dashboard.start()
    except Exception as error:
        _warn(run.stream, "no dashboard", error)
        return None
    say(f"dashboard: {dashboard.address}", run.stream)
    return dashboard


def _write(run: _Run, report: Report) -> None:
    """The files anew, or where there are none the report on the terminal."""
    report = with_children(report, run.children)
    files = _files(run.outputs)
    if files:
        write_outputs(report, files)
    elif run.stream is not None:
        print_report(report, run.stream, run.detail)


def _make_report(run: _Run, ending: launch.Ending) -> Report | None:
    """The report, while what the program's end has left is still alive."""
    if run.arbiter is None:
        return None
    if run.arbiter.job is not None:
        run.arbiter.job.ending = ending.word
    if ending.error is not None:
        # The frames of the failed program hold what it held: this is where
        # the interpreter is about to put them.
        launch.set_last(ending.error)
    try:
        report: Report = run.arbiter.stop(ending.error)
    except BaseException as failure:
        _warn(run.stream, "no report", failure)
        return None
    return _with_command(report, run.command)


def _leave_by_interrupt(ending: launch.Ending) -> None:
    """An interrupt is printed already; the interpreter turns it into death by
    SIGINT."""
    if ending.interrupted:
        raise KeyboardInterrupt from None


def _last_words(run: _Run, report: Report | None) -> Job | None:
    """The report, then what children have found; that is given back."""
    untold = "what children have found is not told"
    gathered = partial(family_of, run.children, run.rank)
    family = _spared(run.stream, untold, gathered) or Family(None, None)
    _publish(run, report and family.join(report))
    told = partial(last_words, family, run.rank, run.stream, run.detail)
    _spared(run.stream, untold, told)
    return family.children


def _spared(
    stream: TextStream | None, what: str, work: Callable[[], _Given]
) -> _Given | None:
    """What ``work`` gives; None where it fails, which is a warning."""
    try:
        return work()
    except BaseException as failure:
        _warn(stream, what, failure)
        return None


def _publish(run: _Run, report: Report | None) -> None:
    if report is None:
        return
    _flush_stdout()
    for method, path in run.outputs.items():
        try:
            write_outputs(report, {method: path})
        except BaseException as failure:
            _warn(run.stream, f"{path} was not written", failure)
    if run.stream is None:
        return
    try:
        if run.rank:
            _print_line(run, report)
        else:
            run.stream.write("\n")
            # What children have found is told in words of its own below.
            print_report(_without(report), run.stream, run.detail)
    except BaseException as failure:
        _warn(run.stream, "the report cannot be shown", failure)


def _without(report: Report) -> Report:
    """The report without the single findings of children."""
    children = report.children
    if children is None:
        return report
    return replace(report, children=replace(children, findings=()))


def _print_line(run: _Run, report: Report) -> None:
    """What ranks other than 0 say: one line, where there is something."""
    from ..reports.first_line import alarming, summary

    if run.stream is None or not alarming(report):
        return
    text = clean(f"ImpactArbiter, rank {run.rank}: {summary(report)}")
    run.stream.write(text + "\n")
    run.stream.flush()


def _flush_stdout() -> None:
    """Keeps the order on a terminal: the program's words come first."""
    try:
        stdout = sys.stdout
        replaced = stdout is not sys.__stdout__
        if stdout is not None and not replaced:
            stdout.flush()
    except Exception:
        return


def _warn(
    stream: TextStream | None, what: str, failure: BaseException
) -> None:
    """One line; never an exception."""
    kind = type(failure).__name__
    own = isinstance(failure, ImpactArbiterError)
    reason = str(failure) if own else f"{kind}: {failure}"
    say(f"warning: {what}: {clean(reason)}", stream)
