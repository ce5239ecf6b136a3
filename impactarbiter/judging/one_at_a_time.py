"""One look or report at a time, whoever asks, and however it is cut short."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OneAtATime:
    """Who comes while another is at it is turned away.

    No lock: a signal's handler may raise between any two calls, and one that
    was just taken, or is about to be given back, would stay so.
    """

    def __init__(self) -> None:
        self._turns: list[object] = []

    @property
    def busy(self) -> bool:
        return bool(self._turns)

    def run(self, job: Callable[[], T], otherwise: Callable[[], T]) -> T:
        """Does the job, or what is to be done while another is at it."""
        turn = object()
        try:
            self._turns.append(turn)
            return job() if self._turns[0] is turn else otherwise()
        finally:
            try:  # noqa: SIM105 - nothing comes in between
                self._turns.remove(turn)
            except ValueError:
                pass  # cut short before it was there
