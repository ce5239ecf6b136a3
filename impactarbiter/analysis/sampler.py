"""A thread that does something every so often."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from ..base.errors import UsageError


class Sampler:
    """Calls ``sample`` at once and then every ``interval`` seconds.

    The thread is a daemon, and is ended before the interpreter ends.  What
    ``sample`` raises ends it and is kept in ``failure``, a line of text.
    """

    def __init__(self, interval: float, sample: Callable[[], object]) -> None:
        if not interval > 0:
            raise UsageError(
                f"the interval is {interval!r}: expected seconds, above 0"
            )
        self._interval = interval
        self._sample = sample
        # Its put(), unlike an event's set(), may run in a finalizer.
        self._end: SimpleQueue[None] = SimpleQueue()
        self.failure: str | None = None
        self._thread = threading.Thread(
            target=self._run, name="impactarbiter-sampler", daemon=True
        )
        _running.add(self)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._sample()
                with suppress(Empty):
                    return self._end.get(timeout=self._interval)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            _running.discard(self)

    def end(self) -> None:
        """Ends it without waiting; for finalizers."""
        self._end.put(None)

    def stop(self) -> None:
        """Ends it; a sample that is being taken is waited for."""
        self.end()
        if self._thread is not threading.current_thread():
            self._thread.join()


_running: set[Sampler] = set()


@atexit.register
def _stop_all() -> None:
    for sampler in list(_running):
        sampler.stop()
