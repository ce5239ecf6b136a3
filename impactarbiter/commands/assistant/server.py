"""The tools, as the ``mcp`` SDK offers them: a name, a schema, one call.

What a tool does to a process or a file stands in its description, and
``--read-only`` refuses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from ... import __version__
from ...base.errors import ImpactArbiterError, UsageError
from ...judging.patches.diffs import lines_of, read_source
from ...reports.console import plain
from ..diff import compare, diff_lines
from . import processes
from .calls import Done, called
from .shelf import Shelf
from .words import block, cut, full, overview

INSTRUCTIONS = """\
Finds memory leaks of PyTorch programs and says which line leaks, who holds
it, and what to change. Usually: run_script (or attach to a process that runs,
or load_report) -> finding, for the worst group -> source -> verify_patch ->
change the file yourself -> run_script again -> diff of both reports.
A verdict "growing" is not confirmed: what_would_change_it says what settles
it.
Verdicts "cache" and "accumulation" are bounded: no leaks."""

#: Lines of source on each side, and seconds of a run.
MOST_CONTEXT = 40
MOST_SECONDS = 3600
#: Where a copy runs twice or three times.
MOST_RUNS = 3
#: Characters of a patch.
MOST_PATCH = 50_000

Name = Annotated[str, Field(description="a report's name, such as r1")]
Rank = Annotated[
    int, Field(ge=1, description="rank of a group of findings, 1 is the worst")
]
Seconds = Annotated[float, Field(ge=1, le=MOST_SECONDS)]
Pid = Annotated[int, Field(ge=1, description="a process, see list_processes")]


@contextmanager
def _said() -> Iterator[None]:
    """What was wrong goes to the assistant, in one line."""
    try:
        yield
    except ImpactArbiterError as error:
        raise ToolError(cut(str(error), 1000)) from None


class Tools:
    """All tools of one session."""

    def __init__(self, shelf: Shelf, read_only: bool) -> None:
        self._shelf = shelf
        self._read_only = read_only

    # -- what changes nothing -----------------------------------------------

    def list_processes(self) -> dict[str, Any]:
        """Lists this user's processes that run PyTorch: which of them can be
        attached to, what hinders it, and which have impactarbiter loaded
        (those may be watched already). Changes nothing."""
        with _said():
            return processes.with_torch(self._shelf.masked)

    def load_report(
        self,
        path: Annotated[str, Field(description="what `run --json` wrote")],
    ) -> dict[str, Any]:
        """Reads a saved report and gives its findings as short ranked groups.
        Executes nothing in it and changes nothing."""
        with _said():
            return self._told(self._shelf.take(os.path.abspath(path)))

    def findings(self, report: Name) -> dict[str, Any]:
        """A report's findings as short ranked groups: rule, evidence, holder,
        statement, path, and what would settle or change it. Changes
        nothing."""
        with _said():
            return self._told(report)

    def finding(self, report: Name, rank: Rank = 1) -> dict[str, Any]:
        """All that is known of one group, its stack and patch too. Changes
        nothing."""
        with _said():
            return full(self._shelf.group(report, rank), rank)

    def source(
        self,
        report: Name,
        rank: Rank = 1,
        context: Annotated[int, Field(ge=0, le=MOST_CONTEXT)] = 8,
    ) -> dict[str, Any]:
        """The source around the statement that grows a group's holder, else
        around the line that allocates. Only lines that a report names are
        read, and only while they are what they were. Changes nothing."""
        with _said():
            if self._shelf.masked:
                raise UsageError("names are masked: no source is shown")
            return _source(self._shelf.group(report, rank)[0].site, context)

    def diff(self, old: Name, new: Name) -> dict[str, Any]:
        """Compares two reports: what is new, gone, worse and better. Changes
        nothing."""
        with _said():
            before, after = self._shelf[old], self._shelf[new]
            changes = compare(before, after)
            kinds = [change.kind for change in changes]
            return {
                "regression": any(change.regression for change in changes),
                "counts": {kind: kinds.count(kind) for kind in set(kinds)},
                "text": block(plain(diff_lines(before, after))),
            }

    # -- what runs or enters a program ---------------------------------------

    async def run_script(
        self,
        script: Annotated[str, Field(description="a file, or a module")],
        args: Annotated[list[str], Field(max_length=200)] = [],  # noqa: B006
        folder: Annotated[
            str | None, Field(description="where it runs; default: here")
        ] = None,
        module: Annotated[
            bool, Field(description="as python -m does")
        ] = False,
        seconds: Seconds = 600,
    ) -> dict[str, Any]:
        """RUNS A PROGRAM: starts the script as `python SCRIPT ARGS` would,
        with all that it does to files and the network, watches it, and gives
        its findings. After `seconds` it is ended by SIGTERM and the report is
        of what it did until then. Refused by --read-only."""
        with _said():
            self._check("run_script", "starts a program")
            file = self._shelf.file()
            words = ["run", "-q", "--json", file, *self._masks()]
            words += ["-m", script] if module else ["--", script]
            done = await called([*words, *args], _folder(folder), seconds)
            answer = self._made(file, done)
            answer["exit_code"] = done.code
            answer["ended_by_us"] = not done.in_time
            if not self._shelf.masked:
                answer["output"] = block(done.output, 1000)
                answer["errors"] = block(done.errors, 1000)
            return answer

    async def attach(
        self,
        pid: Pid,
        seconds: Seconds = 30,
        steps: Annotated[
            int | None, Field(ge=1, description="or so many steps")
        ] = None,
    ) -> dict[str, Any]:
        """ENTERS A PROCESS: loads code into a running process, watches it for
        `seconds` or until `steps` are over, lets go, and gives the findings.
        The process is stopped for milliseconds, then goes on. Refused by
        --read-only."""
        with _said():
            self._check("attach", "loads code into another process")
            words = ["--for", f"{seconds}s"]
            limit = seconds
            if steps is not None:
                words, limit = ["--steps", str(steps)], MOST_SECONDS
            return await self._entered(pid, [*words, *self._masks()], limit)

    async def report_of(self, pid: Pid) -> dict[str, Any]:
        """ENTERS A PROCESS that is watched already: loads code into it, asks
        for its report, and gives the findings; the watch goes on. Refused by
        --read-only."""
        with _said():
            self._check("report_of", "loads code into another process")
            return await self._entered(pid, ["--report"], MOST_SECONDS)

    async def who_holds(
        self,
        pid: Pid,
        expression: Annotated[
            str,
            Field(
                max_length=500,
                description="trainer.history[0], or a class by its full name",
            ),
        ],
    ) -> dict[str, Any]:
        """ENTERS A PROCESS: loads code into it and asks who holds what the
        expression names, or where the instances of a class hang, and what
        would be freed. Calls nothing but what reading an attribute calls.
        Refused by --read-only."""
        with _said():
            self._check("who_holds", "loads code into another process")
            if self._shelf.masked:
                raise UsageError(
                    "names are masked: who holds an object cannot be told"
                    " without them"
                )
            words = ["attach", str(pid), f"--explain={expression}"]
            done = await called(words, None, MOST_SECONDS)
            if done.code != 0:
                raise UsageError(_reason(done))
            return {"text": block(done.output)}

    async def verify_patch(
        self,
        report: Name,
        patch: Annotated[
            str | None,
            Field(
                max_length=MOST_PATCH,
                description="a unified diff; default: the report's patches",
            ),
        ] = None,
        seconds: Seconds = 600,
    ) -> dict[str, Any]:
        """RUNS A PROGRAM: copies its folder, applies a patch in the copy,
        the report's own or one that is given, runs the program there as it is
        and patched, and says how much of the growth stops and whether its
        output changed. The program's own files are not changed, but what it
        does outside of its folder it does again, up to three times. Refused
        by --read-only."""
        with _said():
            self._check("verify_patch", "runs the program again")
            words = ["fix", self._shelf.path(report), "--verify"]
            if patch is not None:
                file = os.path.join(self._shelf.folder, "given.diff")
                with open(file, "w", encoding="utf-8") as stream:
                    stream.write(patch)
                words += ["--patch", file]
            elif not any(
                f.patch and f.confirmed for f in self._shelf[report].findings
            ):
                raise UsageError(
                    f"report {report} has no patch to verify, finding() says"
                    " why: give one"
                )
            done = await called(words, None, MOST_RUNS * seconds)
            if not done.in_time:
                raise UsageError(f"it took longer than {seconds:g} s a run")
            if done.code not in (0, 1):
                raise UsageError(_reason(done))
            return {
                "holds": done.code == 0,
                "says": [cut(_bare(x)) for x in done.errors.splitlines()][:20],
                "patch": block(done.output),
            }

    # -- shared ---------------------------------------------------------------

    def _check(self, tool: str, what: str) -> None:
        if self._read_only:
            raise UsageError(
                f"refused: {tool} {what}, and this server was started with"
                " --read-only; load_report and list_processes still work"
            )

    def _masks(self) -> list[str]:
        return ["--obfuscate"] if self._shelf.masked else []

    def _told(self, name: str) -> dict[str, Any]:
        return overview(self._shelf[name], name)

    async def _entered(
        self, pid: int, words: list[str], limit: float
    ) -> dict[str, Any]:
        file = self._shelf.file()
        words = ["attach", str(pid), "-q", "--json", file, *words]
        # It comes back by itself; the rest is for a process that is busy.
        return self._made(file, await called(words, None, limit + 120))

    def _made(self, file: str, done: Done) -> dict[str, Any]:
        if not os.path.exists(file):
            raise UsageError(f"there is no report: {_reason(done)}")
        return self._told(self._shelf.take(file))


def _reason(done: Done) -> str:
    return _bare(done.last_words)


def _bare(line: str) -> str:
    return line.removeprefix("impactarbiter: ")


def _folder(folder: str | None) -> str | None:
    if folder is not None and not os.path.isdir(folder):
        raise UsageError(f"{folder!r} is no folder")
    return folder


def _source(site: Any, context: int) -> dict[str, Any]:
    """A report is no trusted file: it must know the line that it names."""
    unread = f"{site} cannot be shown: "
    if not site.known or not site.file.endswith(".py"):
        raise UsageError(unread + "expected a line of a Python file")
    try:
        lines = lines_of(read_source(site.file)[0])
    except (OSError, SyntaxError, UnicodeError) as error:
        raise UsageError(f"{unread}{type(error).__name__}") from None
    here = lines[site.line - 1].strip() if site.line <= len(lines) else ""
    if not site.source or here != site.source:
        raise UsageError(unread + "the line is not what it was")
    first = max(1, site.line - context)
    shown = [
        f"{'>' if number == site.line else ' '} {number:>5} "
        + cut(lines[number - 1].rstrip("\r\n").expandtabs(4), 200)
        for number in range(first, min(len(lines), site.line + context) + 1)
    ]
    return {"file": site.file, "line": site.line, "text": "\n".join(shown)}


def _description(tool: Callable[..., Any]) -> str:
    return " ".join((tool.__doc__ or "").split())


def build(shelf: Shelf, read_only: bool) -> MCPServer:
    """The server, with every tool."""
    server: MCPServer = MCPServer(
        "impactarbiter",
        version=__version__,
        instructions=INSTRUCTIONS,
        log_level="ERROR",
    )
    tools = Tools(shelf, read_only)
    quiet: tuple[Callable[..., Any], ...] = (
        tools.list_processes,
        tools.load_report,
        tools.findings,
        tools.finding,
        tools.source,
        tools.diff,
    )
    changing: tuple[Callable[..., Any], ...] = (
        tools.run_script,
        tools.attach,
        tools.report_of,
        tools.who_holds,
        tools.verify_patch,
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    changes = ToolAnnotations(read_only_hint=False, destructive_hint=True)
    for tools_of, hints in ((quiet, reads), (changing, changes)):
        for tool in tools_of:
            server.add_tool(
                tool, description=_description(tool), annotations=hints
            )
    return server
