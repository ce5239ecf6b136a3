"""A thread that does something every so often."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import UsageError


class Sampler:
    """Calls ``sample`` at once and then every ``interval`` seconds.

    The thread is a daemon.  What ``sample`` raises ends it and is kept in
    ``failure``, a line of text.
    """

    def __init__(self, interval: float, sample: Callable[[], object]) -> None:
        if not interval > 0:
            raise UsageError(
                f"the interval is {interval!r}: expected seconds, above 0"
            )
        self._interval = interval
        self._sample = sample
        self._end = threading.Event()
        self.failure: str | None = None
        self._thread = threading.Thread(
            target=self._run, name="impactarbiter-sampler", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._sample()
                if self._end.wait(self._interval):
                    return
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def stop(self) -> None:
        """Ends it; a sample that is being taken is waited for."""
        self._end.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
