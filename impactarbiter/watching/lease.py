"""Who accounts for memory: the user's arbiter, else one of our own.

A profiler, tracker or recorder takes a lease.  While one is open something
watches: the arbiter of a ``watch()`` where there is one, else a stand-in,
which makes way for a ``watch()`` that begins and comes back when it ends.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from ..judging.allowlist import AllowList
from ..model.report import Report
from . import arbiter as arbiters
from .arbiter import Arbiter

#: Steps of a stand-in that count for nothing: who profiles a few calls by
#: hand has no warm-up to speak of.
WARMUP = 1
WINDOW = 5

_lock = threading.RLock()
_open: set[int] = set()
_numbers = iter(range(1, 1 << 62))


class Lease:
    """Somebody watches from here to ``close()``.

    Raises RuntimeError where the hooks cannot be put in place.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)
        self._last: Report | None = None
        #: Whether the names in the last report were masked.
        self.masked: bool = False
        with _lock:
            _open.add(self._number)
            try:
                _stand_in()
            except BaseException:
                _open.discard(self._number)
                raise

    @property
    def is_open(self) -> bool:
        """Whether it was not closed yet."""
        return self._number in _open

    def report(self) -> Report | None:
        """What is known now; after ``close()``, what was known then."""
        watching = arbiters.current()
        if not self.is_open or watching is None:
            return self._last
        self._last = watching.report()
        self.masked = watching.obfuscate
        return self._last

    def close(self, with_report: bool = False) -> None:
        """Ends it; the last one takes the stand-in's hooks out.

        Where a last report fails, the one before it stays.
        """
        with _lock:
            if not self.is_open:
                return
            try:
                if with_report:
                    self._report_at_end()
            finally:
                _open.discard(self._number)
                if not _open:
                    _dismiss()

    def _report_at_end(self) -> None:
        with suppress(Exception):
            self.report()


def stands_in() -> bool:
    """Whether what watches now is ours, and its steps ours to end."""
    watching = arbiters.current()
    return watching is not None and watching.stand_in


def _dismiss() -> None:
    watching = arbiters.current()
    if watching is not None and watching.stand_in:
        watching.dismiss()


def _stand_in() -> None:
    """Starts a stand-in where somebody needs one and nothing watches."""
    with _lock:
        if not _open or arbiters.current() is not None:
            return
        Arbiter(
            every=1,
            warmup=WARMUP,
            window=WINDOW,
            manual=False,
            allow=AllowList(()),
            obfuscate=False,
            on_finding=None,
            memory_limit=None,
            numpy=False,
            stand_in=True,
        )


arbiters.at_end = _stand_in
