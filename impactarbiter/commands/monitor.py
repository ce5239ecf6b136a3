"""``impactarbiter monitor``: memory over time, from outside."""

from __future__ import annotations

from .options import parse
from .readings import (
    OPTIONS,
    export,
    reading_line,
    readings,
    source_of,
    summary_line,
)

HELP = """\
usage: impactarbiter monitor [PID | --device N] [OPTIONS]

Prints the memory of a process, of a GPU (nvidia-smi), or of the machine, every
second for ten seconds. Nothing is attached to; who holds the memory is what
`attach` and `run` say.

  --device N       the GPU of that number
  --duration TIME  how long: 30s, 10m, 1h30m; 10s by default
  --interval TIME  how often; 1s by default
  --output FILE    write the readings here as well
  --format F       csv (default) or json
"""


def execute(args: list[str]) -> int:
    """0; ReadingError for what is not there to be read."""
    given, words = parse("monitor", OPTIONS, args, interleave=True)
    given.setdefault("--duration", 10.0)
    what, source = source_of(words, given)
    seen = []
    for now in readings(source, given):
        seen.append(now)
        print(reading_line(now), flush=True)
    print(summary_line(what, seen))
    export(seen, given)
    return 0
