"""``impactarbiter top``: a process or a job, followed in the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..attaching.errand import POLL, sent, wait_for
from ..attaching.target import AttachError, find
from ..base.convert import decimal
from ..base.errors import MissingExtraError, UsageError
from ..reports.console import draw
from ..reports.live_text import picture
from .options import Option, parse
from .top_sources import Source, of_job

HELP = """\
usage: impactarbiter top PID [--once]
       impactarbiter top DIR [--once]

Follows in the terminal what `run --dashboard` shows on a page: memory,
findings as they come, the lines and holders that keep most
(impactarbiter[top]). q ends it. PID is a process that is watched; one that is
not is watched as long as this lasts, as by `attach`. DIR is the folder of a
job (`run --job`): its processes, and the one that is chosen.

  --once  print one picture and end (needs rich alone)
"""

OPTIONS = {"--once": Option()}


def execute(args: list[str]) -> int:
    """0; AttachError or ReportError for what cannot be followed."""
    given, rest = parse("top", OPTIONS, args, interleave=True)
    if len(rest) != 1:
        raise UsageError(
            f"got {' '.join(rest) or 'nothing'}: expected the number of a"
            " process or the folder of a job, as in `impactarbiter top 4711`"
        )
    once = "--once" in given
    _check(once)
    with _source(rest[0]) as source:
        if once:
            _print(source)
        else:
            from .top_screen import Screen

            Screen(rest[0], source).run()
    return 0


def _check(once: bool) -> None:
    try:
        import rich  # noqa: F401

        if not once:
            import textual  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "", "top", "top") from None
    # textual draws on stderr.
    if not once and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "top needs a terminal: expected one, or --once for one picture"
        )


@contextmanager
def _source(what: str) -> Iterator[Source]:
    pid = decimal(what)
    if pid is None or os.path.isdir(what):
        yield lambda: of_job(what)
        return
    target = find(pid)
    task = {"action": "watch", "options": {}, "join": True, "view": True}
    with sent(target, task) as errand:
        wait_for(errand, "view.json", "it was watched")

        def read() -> dict[str, Any] | None:
            view = errand.read("view.json")
            if not target.alive and not (view and view["over"]):
                raise AttachError(f"process {target.pid} has ended")
            return view

        yield read


def _print(source: Source) -> None:
    from rich.table import Table
    from rich.text import Text

    while (view := source()) is None:
        time.sleep(POLL)
    if "job" not in view:
        draw([picture(view)], sys.stdout)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in view["job"]["columns"]:
        table.add_column(name)
    for row in view["job"]["rows"]:
        table.add_row(*map(Text, row))
    draw([Text(view["job"]["answer"], "bold"), table], sys.stdout)
