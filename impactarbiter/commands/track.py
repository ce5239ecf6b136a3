"""``impactarbiter track``: memory over time from outside, with alerts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..base.records import dataclass
from .options import Option, parse
from .readings import OPTIONS as READING_OPTIONS
from .readings import (
    Reading,
    export,
    percent,
    readings,
    source_of,
    summary_line,
)

if TYPE_CHECKING:
    from ..analysis.alerts import Alarms

HELP = """\
usage: impactarbiter track [PID | --device N] [OPTIONS]

Follows the memory of a process, of a GPU (nvidia-smi) or of the machine until
it ends or Ctrl-C, and prints an alert when it is nearly full, when it grows
and stays, and when much is allocated at once. `MemoryTracker` does so inside
of a program, with the phases that it names.

  --device N              the GPU of that number
  --duration TIME         how long: 30s, 10m, 1h30m
  --interval TIME         how often; 1s by default
  --warning-threshold P   per cent of the memory; 80 by default
  --critical-threshold P  per cent of the memory; 95 by default
  --output FILE           write readings and alerts here as well
  --format F              csv (default) or json
"""

OPTIONS = {
    **READING_OPTIONS,
    "--warning-threshold": Option(percent),
    "--critical-threshold": Option(percent),
}


@dataclass(frozen=True)
class Tracked:
    """A reading with the alert that it gave, if any; bytes."""

    timestamp: float
    used: int
    total: int | None
    severity: str
    rule: str
    message: str


def execute(args: list[str]) -> int:
    """0; ReadingError for what is not there to be read."""
    from ..analysis.alerts import DEFAULT_THRESHOLDS, Alarms

    given, words = parse("track", OPTIONS, args, interleave=True)
    what, source = source_of(words, given)
    thresholds = dict(DEFAULT_THRESHOLDS)
    for severity in ("warning", "critical"):
        name = f"memory_{severity}_percent"
        chosen = given.get(f"--{severity}-threshold", thresholds[name])
        thresholds[name] = chosen
    alarms = Alarms(thresholds)
    seen: list[Reading] = []
    rows: list[Tracked] = []
    for now in readings(source, given):
        seen.append(now)
        rows += _tracked(now, alarms)
    print(summary_line(what, seen))
    export(rows, given)
    return 0


def _tracked(now: Reading, alarms: Alarms) -> list[Tracked]:
    """A row for each alert, which is printed, or one without."""
    from ..analysis.devices import Figures

    alerts = alarms.check(
        Figures(
            ledger=0,
            allocated=now.used,
            reserved=now.used,
            inactive=0,
            used=now.used,
            free=now.free,
            total=now.total,
        ),
        None,
    )
    for alert in alerts:
        clock = time.strftime("%H:%M:%S", time.localtime(now.timestamp))
        print(f"{clock}  {alert.severity}: {alert.message}", flush=True)
    said = [(a.severity, a.rule, a.message) for a in alerts] or [("", "", "")]
    return [Tracked(now.timestamp, now.used, now.total, *s) for s in said]
