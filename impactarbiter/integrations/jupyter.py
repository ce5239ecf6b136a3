"""Magics for IPython and Jupyter; ``%load_ext impactarbiter`` loads them.

``%watch_memory`` watches the cells that follow: each is a step, or as many as
there are inside it (optimizer steps and so on).  ``%%memory_leaks`` watches
one cell and reports.  ``%who_holds`` says who holds an object.
"""

from __future__ import annotations

import ast
import builtins
from argparse import Namespace
from asyncio import get_running_loop
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from ..base.errors import MissingExtraError
from ..base.errors import UsageError as WrongUse
from ..base.text import clean
from ..core import ledger
from ..core.questions import MOST_PATHS
from ..knowledge.ipython import shell_advice
from ..model.finding import Finding
from ..model.report import Report
from ..model.retention import Retention
from ..model.words import BOUNDED, StepMode
from ..reports.wording import headline
from ..watching.arbiter import Arbiter, current, watch
from ..watching.explain import explain

try:
    from IPython.core.error import UsageError
    from IPython.core.magic import (
        Magics,
        cell_magic,
        line_magic,
        magics_class,
    )
    from IPython.core.magic_arguments import (
        argument,
        magic_arguments,
        parse_argstring,
    )
    from IPython.display import display
except ImportError:
    raise MissingExtraError(
        "IPython", "%load_ext impactarbiter", "jupyter"
    ) from None


class CellFailed(Exception):
    """The cell under ``%%memory_leaks`` raised, and that was shown."""

    def _render_traceback_(self) -> list[str]:
        return []


def _parsed(magic: Any, name: str, line: str) -> Namespace:
    """The options of a magic, as they were typed."""
    try:
        return parse_argstring(magic, line)  # type: ignore[no-any-return]
    except ValueError as error:
        raise UsageError(
            f"{name} {line.strip()}: {error}: expected words and options as"
            " in a shell"
        ) from None


def _watch_options(magic: Any) -> Any:
    """The options of ``watch()`` that the magics take."""
    for option in (
        argument("--warmup", type=int, help="steps that count for nothing"),
        argument("--window", type=int, help="steps that tensors survive"),
        argument(
            "--allow",
            action="append",
            type=lambda text: text.strip("'\""),  # IPython leaves the quotes
            help="what may be kept",
        ),
    ):
        magic = option(magic)
    return magic


@magics_class
class MemoryMagics(Magics):
    """The magics of one shell, and what they watch."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._arbiter: Arbiter | None = None
        self._confirmed: list[Finding] = []
        self._own_cell = False
        self._steps = 0
        self._counted = False

    # -- %watch_memory ----------------------------------------------------

    @magic_arguments()
    @argument(
        "action",
        nargs="?",
        choices=("on", "off", "report"),
        help="start, stop with a report, or report so far; without a word:"
        " start, or report when it is on",
    )
    @_watch_options
    @line_magic
    def watch_memory(self, line: str) -> None:
        """Watches the cells that follow: each one is a step."""
        args = _parsed(self.watch_memory, "%watch_memory", line)
        self._own_cell = True
        action = args.action or ("report" if self._arbiter else "on")
        if action == "on":
            self._start(args)
            print(
                "ImpactArbiter watches the cells that follow:"
                " %watch_memory report, %watch_memory off"
            )
            return
        if self._arbiter is None:
            raise UsageError("nothing is watched: type %watch_memory on first")
        if action == "report":
            display(self._arbiter.report())
        else:
            display(self.stop())

    def _start(self, args: Namespace, step: StepMode = "auto") -> None:
        given = {
            name: getattr(args, name)
            for name in ("warmup", "window", "allow")
            if getattr(args, name) is not None
        }
        if self._arbiter is not None:
            raise UsageError(
                "watching already: %watch_memory report, or off to end it"
            )
        if current() is not None:
            raise UsageError(
                "impactarbiter.watch() is active: use its arbiter, or stop()"
                " it first"
            )
        self._confirmed.clear()
        self._steps = 0
        try:
            self._arbiter = watch(
                step=step, on_finding=self._confirmed.append, **given
            )
        except WrongUse as error:
            raise UsageError(str(error)) from None

    def stop(self) -> Report | None:
        """Ends what the magics watch; the report, None if nothing was."""
        arbiter, self._arbiter = self._arbiter, None
        return arbiter.stop() if arbiter is not None else None

    def begin_cell(self, info: Any) -> None:
        """Notes whether the shell has counted the cell already."""
        self._counted = bool(info.store_history)

    def end_cell(self, result: Any) -> None:
        """A step's end, where the cell had none and did more than ask us: the
        turns of a loop that is not the notebook's, as what shows a tensor
        has, are none."""
        own, self._own_cell = self._own_cell, False
        if self._arbiter is None or (own and _is_one_magic(result)):
            return
        status = ledger.status()
        shows = status.by_turns and not own
        if status.ticks == self._steps or (
            shows and not _may_loop(result, self.shell.user_ns)
        ):
            self._arbiter.step()
        self._steps = ledger.status().ticks
        for finding in self._confirmed:
            if finding.verdict not in BOUNDED:
                said = f"ImpactArbiter: {finding.verdict}: {headline(finding)}"
                print(clean(said))
        self._confirmed.clear()

    # -- %%memory_leaks ---------------------------------------------------

    @magic_arguments()
    @argument(
        "-r", "--runs", type=int, default=1, help="times to run the cell"
    )
    @_watch_options
    @cell_magic
    def memory_leaks(self, line: str, cell: str) -> None:
        """Runs the cell, watched, and reports.

        A cell with a training loop has steps of its own; any other cell
        needs some runs, each of them a step: ``%%memory_leaks --runs 12``.
        """
        args = _parsed(self.memory_leaks, "%%memory_leaks", line)
        if args.runs < 1:
            raise UsageError(f"--runs is {args.runs}: expected at least 1")
        if _awaits(cell, self.shell):
            raise UsageError(
                "%%memory_leaks runs no cell that awaits, as the notebook's"
                " loop waits for it meanwhile: put %watch_memory in a cell"
                " before this one instead"
            )
        self._own_cell = True
        alone = self._arbiter is None
        if alone:
            self._start(args, "auto" if args.runs == 1 else "manual")
        assert self._arbiter is not None
        try:
            passed = self._run(cell, args.runs)
        finally:
            report = self._report_of_runs(alone)
            self._own_cell = True  # the runs inside were cells as well
        if report is None:
            print("ImpactArbiter: the cell has ended the watch itself")
        else:
            display(report)
        if passed and report and report.steps < report.needed_steps:
            print(
                f"or run the cell more often: %%memory_leaks --runs"
                f" {report.needed_steps}"
            )
        if not passed:
            raise CellFailed

    def _report_of_runs(self, alone: bool) -> Report | None:
        """None where nothing is watched any more."""
        if alone or self._arbiter is None:
            return self.stop()
        return self._arbiter.report()

    def _run(self, cell: str, runs: int) -> bool:
        """Whether no run raised; the lines keep their numbers."""
        if not cell.startswith("%%"):
            cell = f"# {runs} times, watched\n{cell}"
        # It is still this cell, whose number the shell has left behind.
        back = int(self._counted)
        self.shell.execution_count -= back
        try:
            return all(self.shell.run_cell(cell).success for _ in range(runs))
        finally:
            self.shell.execution_count += back

    # -- %who_holds -------------------------------------------------------

    @magic_arguments()
    @argument("name", nargs="+", help="a variable or expression")
    @argument("--paths", type=int, default=3, help="most paths to show")
    @line_magic
    def who_holds(self, line: str) -> None:
        """Says who holds an object: the notebook's variable comes last."""
        args = _parsed(self.who_holds, "%who_holds", line)
        name = " ".join(args.name)
        self._own_cell = True
        if args.paths < 1:
            raise UsageError(f"--paths is {args.paths}: expected at least 1")
        try:
            value = self.shell.ev(name)
        except Exception as error:
            raise UsageError(
                f"%who_holds {name}: {type(error).__name__}: {error}"
            ) from None
        try:
            found = explain(value, paths=min(args.paths + 1, MOST_PATHS))
        finally:
            del value
        if isinstance(found, Retention):
            found = _without_variable(found, name, args.paths)
        display(found)


def _is_one_magic(result: Any) -> bool:
    """Whether a cell is nothing but one of our magics."""
    text = str(result.info.raw_cell).strip()
    return text.startswith("%%") or (text.startswith("%") and "\n" not in text)


#: Who makes no turns of the notebook's own: functions and objects of these.
_LIBRARIES = frozenset({"builtins", "numpy", "pandas", "torch"})


def _awaits(cell: str, shell: Any) -> bool:
    """Whether a cell has to be run by the loop that runs this one; what it is
    in Python, IPython says."""
    try:
        get_running_loop()
        transformed = shell.transform_cell(cell)
        return bool(shell.should_run_async(cell, transformed_cell=transformed))
    except Exception:  # no loop runs, or what is no Python is told by its run
        return False


def _may_loop(result: Any, names: dict[str, Any]) -> bool:
    """Whether a cell's own code has a loop, or calls what the notebook has
    defined, which may; ``names`` are its variables."""
    info = result.info
    text = str(getattr(info, "transformed_cell", None) or info.raw_cell)
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    loops = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
    return any(
        isinstance(node, loops)
        or (isinstance(node, ast.Call) and not _is_library(node.func, names))
        for node in nodes
    )


def _is_library(called: ast.expr, names: dict[str, Any]) -> bool:
    """Whether a library is called, or an object that one has made."""
    while isinstance(called, (ast.Attribute, ast.Subscript)):
        called = called.value
    if isinstance(called, ast.Call):
        return True  # of what that gives: it is asked of itself
    if not isinstance(called, ast.Name):
        return False
    value: Any = names.get(called.id, vars(builtins).get(called.id))
    kind = type(value)
    if kind is ModuleType:
        of = value.__name__
    elif kind in (FunctionType, type):
        of = value.__module__
    else:  # a metaclass of the program's may have an attribute of its own
        of = type.__dict__["__module__"].__get__(kind)
    return type(of) is str and of.partition(".")[0] in _LIBRARIES


def _without_variable(found: Retention, name: str, most: int) -> Retention:
    """The variable that was typed is no news, unless it is the only one."""
    own = f"__main__.{name}"
    others = tuple(p for p in found.paths if p.expression != own)
    paths = (others or found.paths)[:most]
    note = found.note
    if note is None and paths:
        note = shell_advice(paths[0])
    return replace(found, paths=paths, note=note)


# -- the extension ------------------------------------------------------------

_loaded: dict[int, MemoryMagics] = {}


def load(shell: Any) -> None:
    """Registers the magics with a shell, once."""
    if id(shell) in _loaded:
        return
    magics = _loaded[id(shell)] = MemoryMagics(shell)
    shell.register_magics(magics)
    shell.events.register("pre_run_cell", magics.begin_cell)
    shell.events.register("post_run_cell", magics.end_cell)


def unload(shell: Any) -> None:
    """Takes the magics away again and stops what they watch."""
    magics = _loaded.pop(id(shell), None)
    if magics is None:
        return
    magics.stop()
    shell.events.unregister("pre_run_cell", magics.begin_cell)
    shell.events.unregister("post_run_cell", magics.end_cell)
    known = shell.magics_manager.magics
    for name in ("watch_memory", "who_holds"):
        known["line"].pop(name, None)
    known["cell"].pop("memory_leaks", None)
