"""Signals that end a program, told before they do; see src/signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from operator import attrgetter

from .. import _signals
from ..base.waiting import handling
from .depth import Room


class _Handler(int):
    """Called as a handler is, and shown as the default one, as it equals
    that.  No frame of Python's lies between the call and ``call``."""

    call: Callable[[int, object], object]
    __call__ = property(attrgetter("call"))


class Signals:
    """Tells of signals on the main thread, between two bytecodes.

    Of those only that would have ended the program: what the program or its
    parent have set stays in charge, whether set before or after.
    """

    def __init__(
        self, numbers: Iterable[int], tell: Callable[[int], bool]
    ) -> None:
        """On the main thread.

        ``tell`` says whether a second signal is as good as the first: else
        it ends a program that is still at work on that.
        """
        self._tell = tell
        self._handler = _Handler(signal.SIG_DFL)
        # Lest what another handler raises takes what this one begins.
        self._handler.call = handling(self._handle)
        self._room = Room()
        self.taken: tuple[int, ...] = tuple(
            number
            for number in sorted(set(numbers))
            if signal.getsignal(number) == signal.SIG_DFL
            and _signals.take(number, self._handler)
        )

    def _handle(self, number: int, _frame: object) -> None:
        with self._room:
            self._came(number)

    def _came(self, number: int) -> None:
        answered = True  # also where a handler of the program's raises
        try:
            answered = self._tell(number)
        finally:
            if answered:
                _signals.answer(number)

    def give_back(self, but: int = 0) -> None:
        """Everything as it was ``but`` that one, on any thread.

        What a handler of the program's raises here is raised after all.
        """
        with ExitStack() as rest:
            for number in set(self.taken) - {but}:
                rest.callback(_signals.give_back, number, self._handler)
