"""From an option's text to its value; UsageError for what cannot be."""

from __future__ import annotations

from collections.abc import Callable

from .errors import UsageError
from .records import dataclass


def whole(least: int) -> Callable[[str], int]:
    """A converter to whole numbers from ``least`` on."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise UsageError(
                f"{text!r} is not possible: expected a whole number from"
                f" {least} on"
            )
        return number

    return convert


def decimal(text: str) -> int | None:
    """A number in decimal digits; None for what is none, or has more digits
    than Python reads."""
    try:
        return int(text) if text.isdecimal() else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Choice:
    """A converter that takes one of the words ``allowed``."""

    allowed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        if text not in self.allowed:
            raise UsageError(
                f"{text!r} is not possible: expected one of"
                f" {', '.join(self.allowed)}"
            )
        return text


def choice(*allowed: str) -> Choice:
    """A converter that takes one of the given words."""
    return Choice(allowed)


def filename(text: str) -> str:
    """A file name that is not empty."""
    if not text or "\0" in text:
        raise UsageError("expected a file name")
    return text
