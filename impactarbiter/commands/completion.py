"""``impactarbiter completion``: for shells, and the page for ``man``.

Both are made from the tables of options and the help texts that the commands
have, and cannot say anything else than these.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from typing import Any

from ..base.convert import Choice, filename
from ..base.errors import MissingExtraError, UsageError
from .options import Option, parse

HELP = """\
usage: impactarbiter completion bash|zsh|man

Prints what a shell needs to complete our commands, options and files
(impactarbiter[shell]), or our page for man:

  bash   impactarbiter completion bash > \\
             ~/.local/share/bash-completion/completions/impactarbiter
  zsh    impactarbiter completion zsh > ~/.zfunc/_impactarbiter
  man    impactarbiter completion man > \\
             ~/.local/share/man/man1/impactarbiter.1
"""

OPTIONS: dict[str, Option] = {}
_SHELLS = ("bash", "zsh")


def execute(args: list[str]) -> int:
    """Prints one of them; MissingExtraError without shtab."""
    _, words = parse("completion", OPTIONS, args)
    if len(words) != 1 or words[0] not in (*_SHELLS, "man"):
        raise UsageError(
            f"got {' '.join(words) or 'nothing'}: expected"
            f" `impactarbiter completion {'|'.join(_SHELLS)}|man`"
        )
    if words[0] == "man":
        sys.stdout.write(man_page())
        return 0
    try:
        import shtab
    except ImportError:
        raise MissingExtraError("shtab", "completion", "shell") from None
    print(shtab.complete(parser({"": shtab.FILE}), words[0]))
    return 0


def parser(completes: dict[str, Any] | None = None) -> argparse.ArgumentParser:
    """The command line as argparse has it; ``completes[""]`` completes files.

    For what reads such a parser: the commands parse for themselves.
    """
    from . import COMMANDS

    made = argparse.ArgumentParser("impactarbiter")
    made.add_argument("--version", action="store_true")
    commands = made.add_subparsers()
    for name, said in COMMANDS.items():
        command = importlib.import_module(f"{__package__}.{name}")
        one = commands.add_parser(name, help=said, description=said)
        helped = _explained(command.HELP)
        for option, how in getattr(command, "OPTIONS", {}).items():
            _add(one, option, how, helped.get(option, ""), completes)
        rest: Any = one.add_argument("files", nargs="*", help="FILE")
        if completes:
            rest.complete = completes[""]
    return made


def _add(
    to: argparse.ArgumentParser,
    option: str,
    how: Option,
    said: str,
    completes: dict[str, Any] | None,
) -> None:
    said = said.replace("%", "%%")
    if how.convert is None:
        to.add_argument(option, action="store_true", help=said)
        return
    allowed = None
    if isinstance(how.convert, Choice):
        allowed = how.convert.allowed
    many = None if how.optional is None else "?"
    made: Any = to.add_argument(option, choices=allowed, nargs=many, help=said)
    if how.convert is filename and completes:
        made.complete = completes[""]


_LINE = re.compile(r"^  ((?:-\w, )?--[\w-]+)(?:[ ,][^ ]+)*  +(\S.*)$", re.M)


def _explained(text: str) -> dict[str, str]:
    """Option -> the first line of what its help says."""
    return {name.split(", ")[-1]: said for name, said in _LINE.findall(text)}


def man_page() -> str:
    """The help texts as a page for ``man``, in roff."""
    from .. import __version__
    from . import COMMANDS

    lines = [
        f'.TH IMPACTARBITER 1 "" "impactarbiter {__version__}"',
        ".SH NAME",
        "impactarbiter \\- says which line of a PyTorch program leaks memory,"
        " and who holds it",
        ".SH SYNOPSIS",
        ".B impactarbiter",
        "COMMAND [OPTIONS] ...",
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        command = importlib.import_module(f"{__package__}.{name}")
        lines += [f".SS {name}", ".nf", *map(_roff, _rows(command)), ".fi"]
    return "\n".join(lines) + "\n"


def _rows(command: Any) -> list[str]:
    text: str = command.HELP.rstrip()
    return text.splitlines()


def _roff(row: str) -> str:
    """A line as it stands: no escape, no request."""
    row = row.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + row if row.startswith((".", "\\(aq")) else row
