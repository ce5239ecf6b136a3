"""``impactarbiter mcp``: what a coding assistant may ask, over stdin and
stdout."""

from __future__ import annotations

import sys
import tempfile

from ..base.errors import MissingExtraError, UsageError
from .options import Option, parse

HELP = """\
usage: impactarbiter mcp [--read-only] [--obfuscate]

Serves the Model Context Protocol on stdin and stdout: a coding assistant runs
a script or attaches to a process, reads findings as short ranked groups, the
source around a statement, and lets a patch be tried in a copy
(impactarbiter[mcp]). In an assistant's settings:

  {"command": "impactarbiter", "args": ["mcp"]}

  --read-only  refuse what runs a program or enters a process: saved reports,
               their findings and differences, and a list of processes remain
  --obfuscate  mask shapes, names and paths in all that is told; no source,
               no program's output, no patch
"""

OPTIONS = {"--read-only": Option(), "--obfuscate": Option()}


def execute(args: list[str]) -> int:
    """Serves until the other side is gone."""
    given, rest = parse("mcp", OPTIONS, args)
    if rest:
        raise UsageError(f"got {' '.join(rest)}: `impactarbiter mcp` has none")
    if sys.stdin is None or sys.stdout is None:
        raise UsageError(
            "mcp is spoken over stdin and stdout, and one of them is closed:"
            " an assistant that starts this command has both open"
        )
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise MissingExtraError("mcp", "impactarbiter mcp", "mcp") from None
    from .assistant.server import build
    from .assistant.shelf import Shelf

    with tempfile.TemporaryDirectory(prefix="impactarbiter-") as folder:
        shelf = Shelf(folder, masked="--obfuscate" in given)
        try:
            build(shelf, "--read-only" in given).run("stdio")
        except BaseExceptionGroup as group:
            raise _first(group) from None
    return 0


def _first(error: BaseException) -> BaseException:
    """Of what went wrong side by side in the SDK's tasks, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
