"""How a test is checked for tensors that outlive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..base.convert import whole
from ..base.errors import UsageError
from ..base.records import dataclass
from ..base.units import parse_bytes


@dataclass(frozen=True)
class Settings:
    """``max_bytes`` may stay behind each step; the rest is ``watch()``'s."""

    max_bytes: int = 0
    warmup: int = 1
    window: int = 4
    allow: tuple[Any, ...] = ()

    @property
    def runs(self) -> int:
        """Watched runs of a test."""
        return self.warmup + self.window


def changed(base: Settings, given: dict[str, Any], who: str) -> Settings:
    """``base`` with other values; UsageError for what does not fit."""
    for name, value in given.items():
        if name not in _CONVERT:
            raise UsageError(
                f"{who} has no {name!r}: expected one of {', '.join(_CONVERT)}"
            )
        try:
            value = _CONVERT[name](value)
        except UsageError as error:
            raise UsageError(f"{who}: {name}: {error}") from None
        base = replace(base, **{name: value})
    return base


def _size(value: object) -> int:
    return 0 if value in (0, "0") else parse_bytes(str(value))


def _rules(value: Any) -> tuple[Any, ...]:
    one = isinstance(value, (str, type)) or callable(value)
    return (value,) if one else tuple(value)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "max_bytes": _size,
    "warmup": lambda value: whole(0)(str(value)),
    "window": lambda value: whole(2)(str(value)),
    "allow": _rules,
}
