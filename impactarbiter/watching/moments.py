"""Work that one of our threads wants done while the program stands still.

A report that is made while the main thread is inside of an operator has to
leave autograd graphs out.  Between two of its bytecodes it is in none: the
interpreter calls there what was asked for, without a signal that could
interrupt a system call of the program's.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from time import monotonic, sleep

from ..base.signals import Tolerated, is_programs
from ..base.waiting import called_soon
from ..core.depth import Room

#: Seconds to wait for a main thread that is inside of C code or waits for
#: another; then the work is done on the thread that wants it.
PATIENCE = 5.0
#: Seconds until it is asked again where the moment was a bad one.
PAUSE = 0.01


class _Errand:
    """One function that is to be called once, by whoever comes first."""

    def __init__(
        self, work: Callable[[], None], good: Callable[[], bool]
    ) -> None:
        self._work = work
        self._good = good
        self._room = Room()
        self._claim = _thread.allocate_lock()
        self.turned = threading.Event()
        self.done = False

    def in_main(self) -> None:
        """An attempt between two bytecodes."""
        try:
            self.attempt()
        finally:
            self.turned.set()

    def attempt(self) -> None:
        """Does the work, unless the moment is bad or it is done; raises what
        is the program's alone."""
        with Tolerated():
            self._attempt()

    def _attempt(self) -> None:
        """Does the work, unless the moment is bad or it is done."""
        with self._room:
            if self._good() and self._claim.acquire(blocking=False):
                try:
                    self._work()
                    self.done = True
                except BaseException as error:
                    self.done = not is_programs(error)
                    raise
                finally:
                    if not self.done:
                        self._claim.release()


def between_bytecodes(
    work: Callable[[], None],
    good: Callable[[], bool] = lambda: True,
    patience: float = PATIENCE,
) -> None:
    """Calls ``work`` once, on the main thread if that comes by in time.

    Not for the main thread itself.  ``good()`` says whether the moment is
    one; it is asked again until it is.  What ``work`` raises is lost; what is
    raised meanwhile by a handler of signals, or by another thread in the main
    one, is the program's, and ``work`` is called again.
    """
    give_up = monotonic() + patience
    errand = _Errand(work, good)
    while monotonic() < give_up:
        if not called_soon(errand.in_main):
            sleep(PAUSE)
            continue
        if not errand.turned.wait(give_up - monotonic()):
            break
        if errand.done:
            return
        sleep(PAUSE)
        errand = _Errand(work, good)
    while not errand.done:
        errand.attempt()
        if not errand.done:
            sleep(PAUSE)
