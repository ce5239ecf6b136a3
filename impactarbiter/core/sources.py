"""Source lines and the environment, as text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from .. import __version__
from ..base.imports import names_in
from ..base.ranks import rank
from ..base.shell import cell_name
from ..base.source_text import source_line, source_lines
from ..model.finding import Reader, Site
from ..model.history import Excerpt
from . import frameworks, ledger
from .wire import Frame, Read

NOWHERE = Site("", 0, "")


@lru_cache(maxsize=4096)
def _line(file: str, line: int) -> str:
    return source_line(file, line)


def _site(frame: Frame) -> Site:
    source = _line(frame.file, frame.line)
    return Site(frame.file, frame.line, frame.function, source)


def site_of(number: int) -> Site:
    """The user's line behind a site of the ledger."""
    frame = ledger.site_frame(number)
    return NOWHERE if frame is None else _site(frame)


def readers_of(reads: Sequence[Read] | None) -> tuple[Reader, ...] | None:
    """Operations that will read a block, with the lines that called them."""
    if reads is None:
        return None
    return tuple(
        Reader(r.node, r.saved, site_of(r.site) if r.site else None)
        for r in reads
    )


def site_at(file: str, line: int, function: str) -> Site:
    """A position that was seen."""
    return Site(file, line, function, _line(file, line))


#: Lines of source shown around a line.
CONTEXT = 4


def excerpts(sites: Iterable[Site]) -> tuple[Excerpt, ...]:
    """The source around these lines; what overlaps is one excerpt."""
    wanted: dict[str, set[int]] = {}
    for site in sites:
        if site.known and site.line > 0:
            wanted.setdefault(site.file, set()).update(
                range(site.line - CONTEXT, site.line + CONTEXT + 1)
            )
    return tuple(
        excerpt
        for file, lines in wanted.items()
        for excerpt in _excerpts_of(file, sorted(lines))
    )


def _excerpts_of(file: str, numbers: list[int]) -> Iterator[Excerpt]:
    source = source_lines(file)
    run: list[int] = []
    for number in (n for n in [*numbers, 0] if n <= len(source)):
        if run and number != run[-1] + 1:
            lines = tuple(source[n - 1].rstrip() for n in run)
            yield Excerpt(file, run[0], lines)
            run = []
        if number > 0:
            run.append(number)


def stack_of(number: int) -> tuple[Site, ...]:
    """The user's frames of a stack and what they called, innermost first.

    Frames outside the outermost one of the user's (a launcher's), or outside
    a notebook's cell, are left out.
    """
    frames = ledger.stack_frames(number)
    for depth, frame in enumerate(frames):
        if frame.function == "<module>" and cell_name(frame.file):
            del frames[depth + 1 :]
            break
    while frames and frames[-1].library:
        frames.pop()
    return tuple(_site(frame) for frame in frames)


def stack_text(number: int) -> str:
    """A stack as a traceback is written, innermost call last; "" without."""
    lines = []
    for site in reversed(stack_of(number)):
        lines.append(
            f'  File "{site.file}", line {site.line}, in {site.function}\n'
        )
        if site.source:
            lines.append(f"    {site.source}\n")
    return "".join(lines)


def environment() -> dict[str, str]:
    """Versions and place of this run."""
    known = {
        "impactarbiter": __version__,
        "python": sys.version.partition(" ")[0],
        "platform": _system(),
    }
    version = names_in("torch").get("__version__")
    if issubclass(type(version), str):  # a stub has none
        known["torch"] = str(version)
    known |= frameworks.versions()
    number = rank()
    if number is not None:
        known["rank"] = str(number)
    return known | _folder()


def _system() -> str:
    """As ``platform.platform()`` has it, which has a child ask for the
    processor: a child that the program did not start."""
    system = os.uname()
    parts = [system.sysname, system.release, system.machine]
    with suppress(ValueError, OSError):  # there are other C libraries
        if libc := os.confstr("CS_GNU_LIBC_VERSION"):
            parts.append("with-" + libc.replace(" ", ""))
    return "-".join(parts)


def _folder() -> dict[str, str]:
    """Where it runs, unless that is gone."""
    with suppress(OSError):
        return {"cwd": os.getcwd()}
    return {}
