"""Runs a program and writes down which line's storages were born and died.

    python tools/traces/record.py OUT.npz SCRIPT [ARGS...]

Nothing is judged: what the criterion would see is kept, so that replay.py can
ask it again in a moment.  What dies in the tick that it was born in is left
out, as no criterion sees that.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: F401  its libraries come before ours

from impactarbiter.core import hooks, ledger
from impactarbiter.core.wire.accounts import Counts

TICK = np.dtype([("tick", "u4"), ("counts", "u4", len(Counts._fields))])
EVENT = np.dtype(
    [("tick", "u4"), ("site", "u4"), ("id", "u4"), ("bytes", "u8"),
     ("born", "?")]
)  # fmt: skip


class Recorder:
    """Compares the ledger's rows from tick to tick."""

    def __init__(self) -> None:
        self.ticks: list[tuple[int, tuple[int, ...]]] = []
        self.events: list[tuple[int, int, int, int, bool]] = []
        self.sites: dict[int, int] = {}  # number of the ledger's -> our own
        self.lines: list[list[Any]] = []
        self.alive: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.born = 0

    def at_tick(self, tick: int) -> None:
        """What has been born and has died since the tick before."""
        status = ledger.status()
        self.ticks.append((tick, tuple(status.counts)))
        rows = ledger.rows()
        now = {
            (int(row["address"]), int(row["generation"])): row for row in rows
        }
        for key in [key for key in self.alive if key not in now]:
            site, number, size = self.alive.pop(key)
            self.events.append((tick, site, number, size, False))
        for key, row in now.items():
            if key not in self.alive:
                known = (
                    self._site(int(row["site"])),
                    self.born,
                    int(row["bytes"]),
                )
                self.alive[key] = known
                self.events.append((tick, *known, True))
                self.born += 1
        hooks.look_at(tick + 1)

    def _site(self, number: int) -> int:
        if number not in self.sites:
            frame = ledger.site_frame(number)
            self.sites[number] = len(self.lines)
            self.lines.append(
                ["", 0, ""] if frame is None
                else [frame.file, frame.line, frame.function]
            )  # fmt: skip
        return self.sites[number]

    def write(self, path: str) -> None:
        """All of it as one compressed file."""
        np.savez_compressed(
            path,
            ticks=np.array(self.ticks, dtype=TICK),
            events=np.array(self.events, dtype=EVENT),
            lines=np.array(json.dumps(self.lines)),
        )


def main() -> None:
    """Runs the script as ``python SCRIPT`` would."""
    out, script, *arguments = sys.argv[1:]
    recorder = Recorder()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    started = hooks.start(
        every=1,
        warmup=3,
        window=5,
        manual=False,
        numpy=True,
        callback=recorder.at_tick,
    )
    hooks.look_at(1)
    try:
        runpy.run_path(script, run_name="__main__")
    except (Exception, SystemExit, KeyboardInterrupt):
        pass  # some of the programs end like this on purpose
    finally:
        hooks.stop(started)
        recorder.write(out)


if __name__ == "__main__":
    main()
