"""The flight recorder: what was alive when memory ran out.

A bundle is a folder.  Its first stage is written by C, from memory that was
taken before, at the moment of the failure (see src/core/recorder/recorder.h):
``recorder.json``, ``events.npy``, ``sites.npy``.  The second stage follows
when the interpreter gets to it and may fail without harm: ``report.json``,
what the ledger found, and ``holders.json``, who holds the most.  All of it is
JSON and .npy without pickle: reading a bundle executes nothing.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from types import TracebackType

import numpy as np

from ..base.errors import ReportError, UsageError
from ..base.files import write_atomic
from ..base.imports import names_in
from ..base.ranks import runs_beside
from ..base.signals import Tolerated
from ..core import ledger, questions
from ..core import recorder as writer
from ..core.bundle import EVENTS, MOST_KEPT, in_order
from ..core.sources import environment, site_of
from ..judging.masks import obfuscated
from ..model.bundle import HeldBytes
from ..model.path import pattern_of
from ..model.report import Report
from ..reports.jsonio import report_json
from .arbiter import current
from .lease import Lease

#: The longest interval, in seconds, and the most bytes of all bundles.
LONGEST = 1e9
MOST_BYTES = 1 << 60
#: Sites with the most bytes whose holders the second stage looks for.
TOP_SITES = 10
#: Bytes that are kept back for the second stage.
RESERVE = 32 << 20

_PARTIAL = re.compile(r"\.oom-\d+-(\d+)-\d+\.partial")
#: What torch's CPU allocator says when it gets nothing.
_CPU_MESSAGE = "DefaultCPUAllocator: can't allocate memory"
#: What XLA's runtime, JAX's and TensorFlow's, begins with then.
_XLA_MESSAGE = "RESOURCE_EXHAUSTED"
#: Bytes of a bundle beside its rows, at most or nearly so.
_REST = 4 << 20


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out."""
    kind = names_in("torch").get("OutOfMemoryError")
    if isinstance(kind, type) and isinstance(error, kind):
        return True
    if isinstance(error, MemoryError):
        return True
    said = str(error) if isinstance(error, RuntimeError) else ""
    return _CPU_MESSAGE in said or said.startswith(_XLA_MESSAGE)


class FlightRecorder:
    """Writes a bundle below ``folder`` when memory runs out.

    ``events``: how many births and deaths are remembered.  ``keep``: how
    many bundles stay, also those of earlier runs; no more than fit into
    ``max_bytes``.  ``interval``: seconds in which one failure is enough.
    One recorder can be active at a time; it takes ``RESERVE`` bytes and its
    rows, so that something is there to write with.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "oom_dumps",
        *,
        events: int = 10_000,
        keep: int = 5,
        max_bytes: int = 256 << 20,
        interval: float = 5.0,
    ) -> None:
        _check("events", events, 1, 1 << 24)
        _check("keep", keep, 1, MOST_KEPT)
        _check_amount("interval", interval, "seconds", LONGEST)
        _check_amount("max_bytes", max_bytes, "bytes", MOST_BYTES)
        self.folder: str = os.path.abspath(os.fspath(folder))
        self.events = events
        size = events * EVENTS.itemsize + _REST
        self.keep: int = max(min(keep, int(max_bytes // size)), 1)
        self.interval = interval
        #: Path of the newest bundle, None before.
        self.last: str | None = None
        self._settled: str | None = None
        self._written = -math.inf  # when, by time.monotonic()
        self._lease: Lease | None = None

    # -- on and off -------------------------------------------------------

    def start(self) -> None:
        """Gets everything ready.

        Raises UsageError while another recorder is active, ReportError where
        the folder cannot be used.
        """
        global _active
        if self._lease is not None:
            return
        if _active is not None:
            raise UsageError(
                "a flight recorder is active already: stop() it first"
            )
        names = self._made_ready()
        lease = Lease()
        try:
            watching = current()
            writer.arm(
                self.folder,
                names,
                events=self.events,
                keep=self.keep,
                interval=self.interval,
                reserve=RESERVE,
                sources=not (watching and watching.obfuscate),
                second_stage=self._second_stage,
            )
        except BaseException:
            lease.close()
            raise
        self._lease = lease
        _active = self

    def _made_ready(self) -> list[str]:
        """The bundles that the folder has."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            return _tidy(self.folder, self.keep)
        except OSError as error:
            raise ReportError(
                f"cannot write below {self.folder!r}: {error.strerror};"
                " choose a folder that can be written"
            ) from None

    def stop(self) -> None:
        """Lets go of everything; bundles stay."""
        global _active
        if self._lease is None:
            return
        writer.disarm()
        self._lease.close()
        self._lease = None
        if _active is self:
            _active = None

    def __enter__(self) -> FlightRecorder:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            with Tolerated():  # the program's is in flight
                if error is not None and is_out_of_memory(error):
                    self.settle(f"{type(error).__name__}: {error}")
        finally:
            self.stop()

    # -- bundles ----------------------------------------------------------

    def capture(self, reason: str) -> str | None:
        """Writes a bundle now; its path, or None where that failed."""
        name = None
        with Tolerated():
            name = writer.write(_plain(self._said(reason)))
        if name is None:
            return None
        self._second_stage(name)
        self._settled = self.last
        return self.last

    def _said(self, reason: str) -> str:
        """The reason, which may quote the program, unless that is masked."""
        watching = current()
        return "masked" if watching and watching.obfuscate else reason

    def settle(self, reason: str) -> str | None:
        """The bundle of a failure that was caught: the hook's, else a new.

        A failure that no hook of ours saw (another allocator's) gets one
        this way too, but none within ``interval`` of the last bundle: that
        one is returned.
        """
        young = monotonic() - self._written < self.interval
        if self.last == self._settled and not young:
            return self.capture(reason)
        self._settled = self.last
        return self.last

    def _second_stage(self, name: str) -> None:
        """Adds what Python knows; nothing that fails here is told."""
        path = os.path.join(self.folder, name)
        self.last, self._written = path, monotonic()
        report = self._report()
        with Tolerated():
            write_atomic(os.path.join(path, "report.json"), report)
        watching = current()
        if watching is not None and not watching.obfuscate:
            self._write_holders(path)

    def _write_holders(self, path: str) -> None:
        with Tolerated():
            text = json.dumps(
                [asdict(held) for held in holders_now()], indent=1
            )
            write_atomic(os.path.join(path, "holders.json"), text.encode())

    def _report(self) -> bytes:
        with Tolerated() as failure:
            report = self._lease.report() if self._lease else None
            if report is not None:
                return report_json(report)
        why = failure.said or "nothing watched"
        watching = current()
        report = Report(
            findings=watching.known_findings() if watching else (),
            environment=environment(),
            warnings=(f"no diagnosis could be made: {why}",),
        )
        masked = watching is not None and watching.obfuscate
        return report_json(obfuscated(report) if masked else report)


_active: FlightRecorder | None = None


def _plain(text: str) -> str:
    """Text that C takes: an exception's may have NULs and surrogates."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _check(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(
            f"{name} is {value!r}: expected a whole number from {least} to"
            f" {most}"
        )


def _check_amount(name: str, value: float, unit: str, most: float) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= most:
        raise UsageError(
            f"{name} is {value!r}: expected {unit}, from 0 to {most:g}"
        )


def _tidy(folder: str, keep: int) -> list[str]:
    """Removes what was left half written, and all but ``keep`` bundles.

    Those of other processes that run are theirs.  Returns the names of the
    others that stay, oldest first.
    """
    entries = os.listdir(folder)
    for entry in entries:
        found = _PARTIAL.fullmatch(entry)
        if found and not runs_beside(int(found[1])):
            shutil.rmtree(os.path.join(folder, entry), ignore_errors=True)
    names = [one.text for one in in_order(entries) if not runs_beside(one.pid)]
    for name in names[:-keep]:
        _remove(folder, name)
    return names[-keep:]


def _remove(folder: str, name: str) -> None:
    hidden = os.path.join(folder, f".{name}.partial")
    with suppress(OSError):
        os.rename(os.path.join(folder, name), hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def holders_now() -> list[HeldBytes]:
    """Who holds the memory of the sites with the most; one heap walk.

    The most bytes first.
    """
    rows = ledger.rows()
    sites, where = np.unique(rows["site"], return_inverse=True)
    sizes = np.bincount(where, rows["bytes"], len(sites))
    top = [int(s) for s in sites[np.argsort(-sizes)][:TOP_SITES] if s]
    found: dict[tuple[str, str], HeldBytes] = {}
    for held in questions.holders_of(top):
        place = str(site_of(held.site)), pattern_of(held.path)
        known = found.get(place)
        found[place] = HeldBytes(
            *place,
            type=known.type if known else held.type,
            bytes=held.bytes + (known.bytes if known else 0),
            storages=held.storages + (known.storages if known else 0),
        )
    return sorted(found.values(), key=lambda one: -one.bytes)
