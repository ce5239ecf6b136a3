"""The command line: one module per command, loaded when it is called.

Nothing here imports torch or numpy; ``run`` does when it starts to watch.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys
from contextlib import suppress
from typing import Protocol, cast

from ..base.errors import ImpactArbiterError, UsageError
from ..base.text import clean

#: Command -> what it does, in the order of the help.
COMMANDS = {
    "run": "run a script or module and report what leaks",
    "attach": "watch a process that runs already, or ask it who holds what",
    "top": "follow a process or a job in the terminal",
    "monitor": "print a process's, a GPU's or the machine's memory over time",
    "track": "the same, with alerts",
    "info": "say what memory and which devices there are",
    "report": "show a saved report again, or turn it into a page or picture",
    "diff": "compare two runs: what is new, what is gone",
    "fix": "show or apply the changes that a saved report suggests",
    "merge": "put the ranks of one job side by side",
    "mcp": "serve a coding assistant, over stdin and stdout",
    "doctor": "say what works in this environment, and what does not",
    "enable": "let plain `python` know --detect_memory_leaks",
    "disable": "take that back",
    "completion": "for bash and zsh, and the page for man",
}
_USAGE = "usage: impactarbiter COMMAND [OPTIONS] ..."


class Command(Protocol):
    """What a module in this package offers."""

    HELP: str

    def execute(self, args: list[str]) -> int: ...


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns the exit code.

    2 says that the call was wrong, 1 that the system refused something;
    ``run`` gives the script's own code.  An interrupt in the script comes out
    as a KeyboardInterrupt, already printed.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        if sys.stdout is None and args[:1] not in (["run"], ["mcp"]):
            _have_stdout()
        return _dispatch(args)
    except ImpactArbiterError as error:
        _tell(str(error))
        return error.exit_code
    except BrokenPipeError:  # the reader of our output went away
        _let_go_of_stdout()
        return 1
    except OSError as error:
        _tell(_refused(error))
        if _is_of_stdout(error):
            _let_go_of_stdout()
        return 1


def console() -> int:
    """The same for a process of its own: the interpreter says nothing of an
    interrupt, and turns it into death by SIGINT, as shells expect."""
    try:
        return main()
    except KeyboardInterrupt:
        sys.excepthook = lambda *_: None
        raise


def _have_stdout() -> None:
    """Words for a stream that was closed go nowhere, as ``print`` has it."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _tell(text: str) -> None:
    """One sentence on stderr, or nowhere."""
    from ..reports.console import say

    say(clean(text), sys.stderr, breaks=True)


#: Why a write fails that names no file: standard output's.
_UNWRITABLE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EBADF,
}


def _is_of_stdout(error: OSError) -> bool:
    return error.filename is None and error.errno in _UNWRITABLE


def _refused(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    if error.filename is not None:
        return f"{error.filename!r}: {reason}"
    if _is_of_stdout(error):
        return f"cannot write standard output: {reason}"
    return reason


def _let_go_of_stdout() -> None:
    """What is not written yet goes nowhere, so that the interpreter does not
    complain of it at its end."""
    with suppress(OSError, ValueError, AttributeError):
        number = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)


def _dispatch(args: list[str]) -> int:
    name = args[0] if args else "--help"
    if name in ("-h", "--help", "help"):
        if name == "help" and len(args) > 1:
            return _dispatch([args[1], "--help"])
        print(_help(), flush=True)
        return 0 if args else 2
    if name == "--version":
        from importlib.metadata import version

        print(f"impactarbiter {version('impactarbiter')}", flush=True)
        return 0
    if name not in COMMANDS:
        raise UsageError(_unknown(name))
    command = cast(Command, importlib.import_module(f"{__name__}.{name}"))
    if args[1:2] in (["-h"], ["--help"]):
        print(command.HELP.rstrip(), flush=True)
        return 0
    code = command.execute(args[1:])
    if name != "run" and sys.stdout is not None:  # that is the script's
        sys.stdout.flush()
    return code


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    if close:
        hint = f"did you mean `impactarbiter {close[0]}`?"
    elif name.endswith(".py"):
        hint = f"to watch a script: impactarbiter run {name}"
    else:
        hint = f"expected one of {', '.join(COMMANDS)}"
    return f"unknown command {name!r}; {hint}"


def _help() -> str:
    width = max(map(len, COMMANDS))
    listed = "\n".join(
        f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()
    )
    return f"""{_USAGE}

Says which line of a PyTorch program leaks memory, and who holds it.

{listed}

Start with:  impactarbiter run train.py [its own arguments]
Details:     impactarbiter COMMAND --help
Exit codes:  run gives the script's own, or 3 with --fail-on;
             report and diff give 3 with --fail-on and --fail-on-regression;
             2 says that the call was wrong and nothing was run."""
