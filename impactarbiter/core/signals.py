"""Signals that end a program, told before they do; see src/signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from .. import _signals


class Signals:
    """Tells of signals on the main thread, between two bytecodes.

    Of those only that would have ended the program: what the program or its
    parent have set stays in charge, whether set before or after.  Python's
    own table of handlers does not show it.
    """

    def __init__(
        self, numbers: Iterable[int], tell: Callable[[int], bool]
    ) -> None:
        """On the main thread.  RuntimeError where no signal is left.

        ``tell`` says whether a second signal is as good as the first: else
        it ends a program that is still at work on that.
        """
        self._tell = tell
        self._carrier = _free_signal()
        signal.signal(self._carrier, self._came)
        self.taken: tuple[int, ...] = tuple(
            number
            for number in sorted(set(numbers))
            if _signals.take(self._carrier, number)
        )

    def _came(self, _number: int, _frame: object) -> None:
        # Nothing to tell: a signal came again before it was told.
        for number in self.taken:
            if _signals.pop(number) and self._tell(number):
                _signals.answer(number)

    def give_back(self) -> None:
        """Everything as it was; on the main thread."""
        for number in self.taken:
            _signals.give_back(number)
        if signal.getsignal(self._carrier) == self._came:
            signal.signal(self._carrier, signal.SIG_DFL)


def _free_signal() -> int:
    """One of the real-time signals that nobody uses here."""
    for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1):
        if signal.getsignal(number) == signal.SIG_DFL:
            return number
    raise RuntimeError("no real-time signal is free")
