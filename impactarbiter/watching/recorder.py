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
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from .. import _core
from ..base.errors import ReportError, UsageError
from ..base.files import write_atomic
from ..core.sources import environment, site_of
from ..model.finding import Report, pattern_of
from ..reports.jsonio import report_json
from .arbiter import current
from .explain import path_of
from .lease import Lease

SCHEMA = "impactarbiter-bundle/1"
#: How many bundles can be told apart to remove the oldest.
MOST_KEPT = 64
#: The longest interval, in seconds, and the most bytes of all bundles.
LONGEST = 1e9
MOST_BYTES = 1 << 60
#: Sites with the most bytes whose holders the second stage looks for.
TOP_SITES = 10
#: Bytes that are kept back for the second stage.
RESERVE = 32 << 20
#: Live sites that there is room for.
SITES = 4096

#: Rows of events.npy, as src/core/ledger/ring.h has them.
EVENTS = np.dtype(
    [
        ("nanoseconds", "<u8"),
        ("address", "<u8"),
        ("bytes", "<u8"),
        ("site", "<u4"),
        ("step", "<u4"),
        ("device", "<u2"),
        ("phase", "<u2"),
        ("kind", "<u4"),
    ]
)
#: ``kind`` of an event; "mark" is the moment of a bundle.
KINDS = ("", "birth", "death", "mark")
#: Rows of sites.npy, as src/core/recorder/bundle.h has them.
SITE_ROWS = np.dtype(
    [
        ("live_bytes", "<u8"),
        ("born_bytes", "<u8"),
        ("site", "<u4"),
        ("live_count", "<u4"),
        ("born_count", "<u4"),
        ("generations", "<u4"),
        ("first_step", "<u4"),
        ("last_step", "<u4"),
    ]
)
_NAME = re.compile(r"oom-\d+-(\d+)-\d+")
_PARTIAL = re.compile(r"\.oom-\d+-(\d+)-\d+\.partial")
#: What torch's CPU allocator says when it gets nothing.
_CPU_MESSAGE = "DefaultCPUAllocator: can't allocate memory"
#: Bytes of a bundle beside its rows, at most or nearly so.
_REST = 4 << 20


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out."""
    import torch

    out = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    if isinstance(error, (MemoryError, out)):
        return True
    return isinstance(error, RuntimeError) and _CPU_MESSAGE in str(error)


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
        self.folder = os.path.abspath(os.fspath(folder))
        self.events = events
        size = events * EVENTS.itemsize + _REST
        self.keep = max(min(keep, int(max_bytes // size)), 1)
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
        try:
            os.makedirs(self.folder, exist_ok=True)
            names = _tidy(self.folder, self.keep)
        except OSError as error:
            raise ReportError(
                f"cannot write below {self.folder!r}: {error.strerror};"
                " choose a folder that can be written"
            ) from None
        lease = Lease()
        try:
            watching = current()
            _core.recorder_arm(
                self.folder,
                tuple(names),
                events=self.events,
                sites=SITES,
                keep=self.keep,
                interval=self.interval,
                reserve=RESERVE,
                sources=not (watching and watching.obfuscates),
                second_stage=self._second_stage,
            )
        except BaseException:
            lease.close()
            raise
        self._lease = lease
        _active = self

    def stop(self) -> None:
        """Lets go of everything; bundles stay."""
        global _active
        if self._lease is None:
            return
        _core.recorder_disarm()
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
            with suppress(Exception):  # the program's is in flight
                if error is not None and is_out_of_memory(error):
                    self.settle(f"{type(error).__name__}: {error}")
        finally:
            self.stop()

    # -- bundles ----------------------------------------------------------

    def capture(self, reason: str) -> str | None:
        """Writes a bundle now; its path, or None where that failed."""
        try:
            name = _core.recorder_write(_plain(reason))
        except Exception:
            return None
        if name is None:
            return None
        self._second_stage(name)
        self._settled = self.last
        return self.last

    def settle(self, reason: str) -> str | None:
        """The bundle of a failure that was caught: the hook's, else a new.

        A failure that no hook of ours saw (another allocator's) gets one
        this way too, but none within ``interval`` of the last bundle: that
        one is returned.
        """
        young = time.monotonic() - self._written < self.interval
        if self.last == self._settled and not young:
            return self.capture(reason)
        self._settled = self.last
        return self.last

    def _second_stage(self, name: str) -> None:
        """Adds what Python knows; nothing that fails here is told."""
        path = os.path.join(self.folder, name)
        self.last, self._written = path, time.monotonic()
        report = self._report()
        with suppress(Exception):
            write_atomic(os.path.join(path, "report.json"), report)
        watching = current()
        if watching is None or watching.obfuscates:
            return
        with suppress(Exception):
            text = json.dumps(holders_now(), indent=1)
            write_atomic(os.path.join(path, "holders.json"), text.encode())

    def _report(self) -> bytes:
        try:
            report = self._lease.report() if self._lease else None
            if report is not None:
                return report_json(report)
            why = "nothing watched"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        watching = current()
        return report_json(
            Report(
                findings=watching.known_findings() if watching else (),
                environment=environment(),
                warnings=(f"no diagnosis could be made: {why}",),
            )
        )


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
        if found and not _runs(int(found[1])):
            shutil.rmtree(os.path.join(folder, entry), ignore_errors=True)
    names = sorted(
        entry
        for entry in entries
        if (found := _NAME.fullmatch(entry)) and not _runs(int(found[1]))
    )
    for name in names[:-keep]:
        hidden = os.path.join(folder, f".{name}.partial")
        with suppress(OSError):
            os.rename(os.path.join(folder, name), hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    return names[-keep:]


def _runs(pid: int) -> bool:
    if pid == os.getpid():
        return False  # its recorder is not active, or we were not here
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def holders_now() -> list[dict[str, Any]]:
    """Who holds the memory of the sites with the most; one heap walk.

    Dicts of ``site``, ``path`` (without indices: siblings are one),
    ``type`` of the holder, ``bytes``, ``storages``; the most bytes first.
    """
    rows = _core.rows()
    sites, where = np.unique(rows["site"], return_inverse=True)
    sizes = np.bincount(where, rows["bytes"], len(sites))
    top = [int(s) for s in sites[np.argsort(-sizes)][:TOP_SITES] if s]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for keeper in _core.diagnose(top, top)["keepers"]:
        site = str(site_of(keeper["site"]))
        path = pattern_of(path_of(keeper["path"]))
        kind = keeper["holder"]["type"]
        one = {"site": site, "path": path, "type": kind}
        sums = found.setdefault(
            (site, path), {**one, "bytes": 0, "storages": 0}
        )
        sums["bytes"] += sum(group["bytes"] for group in keeper["groups"])
        sums["storages"] += sum(group["count"] for group in keeper["groups"])
    return sorted(found.values(), key=lambda one: -one["bytes"])


# -- reading -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle as it was read.

    ``header`` is recorder.json but for its sites, ``events`` and ``sites``
    are rows of ``EVENTS`` and ``SITE_ROWS``, ``sources`` maps a site to
    (file, line, function).  ``report`` and ``holders`` are of the second
    stage: None and empty where there was no memory left for it.
    """

    path: str
    header: Mapping[str, Any]
    events: np.ndarray[Any, Any]
    sites: np.ndarray[Any, Any]
    sources: Mapping[int, tuple[str, int, str]]
    report: Report | None = None
    holders: tuple[Mapping[str, Any], ...] = field(default=())

    def __str__(self) -> str:
        from ..reports.bundle import bundle_text

        return bundle_text(self)

    def by_site(self) -> list[tuple[str, int, int]]:
        """(site, storages, bytes), the most bytes first."""
        order = np.argsort(-self.sites["live_bytes"].astype("i8"))
        return [
            (
                self._place(int(row["site"])),
                int(row["live_count"]),
                int(row["live_bytes"]),
            )
            for row in self.sites[order]
        ]

    def _place(self, site: int) -> str:
        from ..model.finding import Site

        file, line, function = self.sources.get(site, ("", 0, ""))
        return str(Site(file, line, function))


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Reads and checks a bundle; ReportError says in a line what is wrong.

    Nothing in it is executed.
    """
    folder = os.fspath(path)
    header = _json(folder, "recorder.json")
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise _unreadable(folder, f'recorder.json has no schema "{SCHEMA}"')
    sources = _sources(folder, header.pop("sites", None))
    known = {
        name: _text(folder, name, header) for name in ("reason", "device")
    } | {
        name: _count(folder, name, header)
        for name in (
            "asked_bytes",
            "pid",
            "step",
            "live_bytes",
            "peak_bytes",
            "live_count",
            "resident_bytes",
            "all_events",
        )
    }
    return Bundle(
        path=folder,
        header={**header, **known},
        events=_rows(folder, "events.npy", EVENTS),
        sites=_rows(folder, "sites.npy", SITE_ROWS),
        sources=sources,
        report=_report_of(folder),
        holders=_holders_of(folder),
    )


def _unreadable(folder: str, why: str) -> ReportError:
    return ReportError(
        f"{folder!r} is no bundle: {why}; give a folder that the flight"
        " recorder wrote"
    )


def _json(folder: str, name: str) -> Any:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise _unreadable(folder, f"{name}: {said.lower()}") from None


def _rows(
    folder: str, name: str, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    try:
        rows = np.load(os.path.join(folder, name), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        said = str(error).splitlines()[0] if str(error) else "empty"
        raise _unreadable(folder, f"{name}: {said}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype != dtype:
        raise _unreadable(folder, f"{name} has other columns than expected")
    return rows


def _text(folder: str, name: str, header: dict[str, Any]) -> str:
    value = header.get(name)
    if not isinstance(value, str):
        raise _unreadable(folder, f"{name} is no text")
    return value


def _count(folder: str, name: str, header: dict[str, Any]) -> int:
    value = header.get(name)
    if type(value) is not int or value < 0:
        raise _unreadable(folder, f"{name} is no count")
    return value


def _sources(folder: str, data: Any) -> dict[int, tuple[str, int, str]]:
    try:
        return {
            int(item["site"]): (
                str(item["file"]),
                int(item["line"]),
                str(item["function"]),
            )
            for item in data
        }
    except (TypeError, KeyError, ValueError):
        raise _unreadable(folder, "its sites are no list of sites") from None


def _report_of(folder: str) -> Report | None:
    file = os.path.join(folder, "report.json")
    return Report.load(file) if os.path.exists(file) else None


def _holders_of(folder: str) -> tuple[Mapping[str, Any], ...]:
    if not os.path.exists(os.path.join(folder, "holders.json")):
        return ()
    data = _json(folder, "holders.json")
    wanted = {"site": str, "path": str, "bytes": int, "storages": int}
    if not isinstance(data, list) or not all(
        isinstance(item, dict)
        and all(isinstance(item.get(k), t) for k, t in wanted.items())
        for item in data
    ):
        raise _unreadable(folder, "holders.json is no list of holders")
    return tuple(data)


def bundles(folder: str | os.PathLike[str]) -> list[str]:
    """Paths of the whole bundles below a folder, oldest first."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ReportError(
            f"cannot read {os.fspath(folder)!r}: {error.strerror}; expected"
            " the folder of a flight recorder"
        ) from None
    return [
        os.path.join(os.fspath(folder), name)
        for name in names
        if _NAME.fullmatch(name)
    ]
