"""Watches with looks that are forced: what the product does rarely, often.

A look is made at every few ticks, after every test, and, by a timer of the
processor's time, wherever the program happens to be between two bytecodes.
Each asks about lines whether they are suspect or not, up to ``SITES`` of
them, and so walks the heap, names paths and cuts edges every time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from multiprocessing import process
from typing import Any

#: Part of the processor's time that looks may take.
SHARE = float(os.environ.get("IMPACTARBITER_SUITE_LOOKS", "0") or 0)
#: Steps from one look to the next that is asked for.
TICKS = 3
#: Seconds of the processor's time between looks at a place not chosen.
INTERVAL = 0.05
#: Lines that one look asks about.
SITES = 40

looks = 0
_spent = 0.0
_looking = False
_arbiter: Any = None


def start() -> None:
    """Hooks in, and the timer."""
    global _arbiter
    import impactarbiter
    from impactarbiter.judging.diagnostician import Diagnostician

    if not hasattr(Diagnostician, "unforced"):
        Diagnostician.unforced = Diagnostician.look
        Diagnostician.look = _tick
    _arbiter = impactarbiter.watch(warmup=0, window=2)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPROF, lambda number, frame: look())
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)


def stop() -> None:
    global _arbiter
    if threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_PROF, 0)
    if _arbiter is not None:
        _arbiter.stop()
    _arbiter = None


def _tick(diagnostician: Any, step: int) -> None:
    """In place of ``Diagnostician.look``: at a boundary."""
    from impactarbiter import _core

    look()
    diagnostician.unforced(step)
    _core.look_at(step + TICKS)


def look() -> None:
    """One look at whatever lines own live storages, newest first."""
    global looks, _spent, _looking
    if _looking or _arbiter is None or _arbiter.pid != os.getpid():
        return
    if _spent > SHARE * time.process_time():
        return
    _looking = True
    begun = time.process_time()
    try:
        from impactarbiter import _core

        if not _core.is_active():
            return
        rows = _core.rows()
        newest = rows["site"][rows["generation"].argsort()[::-1]]
        sites = list(dict.fromkeys(newest.tolist()))[:SITES]
        _core.diagnose(sites, sites)
        _arbiter.report()
        looks += 1
    finally:
        _spent += time.process_time() - begun
        _looking = False


def watch_children() -> None:
    """Watches in the processes that multiprocessing makes from now on."""
    run = process.BaseProcess.run

    def watched(self: process.BaseProcess) -> None:
        if "torch" not in sys.modules:
            return run(self)
        if _arbiter is None or _arbiter.pid != os.getpid():
            start()
        try:
            return run(self)
        finally:
            look()
            stop()

    process.BaseProcess.run = watched
