"""Numbers as people read them.

Bytes are IEC: 1 KiB = 1024 B, 1 MiB = 1024 KiB.  Durations are seconds.
"""

from __future__ import annotations

import math
import re

from .errors import UsageError

MIB = 1 << 20
GIB = 1 << 30

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_FACTORS = {
    "": 1,
    "b": 1,
    **{
        f"{letter}{suffix}": base ** (power + 1)
        for power, letter in enumerate("kmgtpe")
        for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
    },
}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def format_bytes(count: float) -> str:
    """``1932735283`` -> ``"1.8 GiB"`` (base 1024, one decimal below 100)."""
    if not math.isfinite(count):
        return "unknown"
    sign = "-" if count < 0 else ""
    value = abs(count)
    power = 0
    # 1023.96 would print as "1024.0 KiB": it goes one unit up instead.
    while power < len(_BINARY) - 1 and value >= (1023.95 if power else 1023.5):
        value /= 1024
        power += 1
    if power == 0:
        whole = value == int(value) or value >= 100
        number = f"{value:.0f}" if whole else f"{value:.1f}"
    else:
        number = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"
    return f"{sign}{number} {_BINARY[power]}"


def parse_bytes(text: str) -> int:
    """``"12GiB"`` -> bytes.

    ``GiB`` and ``G`` count in 1024, ``GB`` in 1000, no unit in bytes.
    Raises UsageError for anything else, and for zero.
    """
    match = _SIZE.fullmatch(text)
    factor = _FACTORS.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise UsageError(
            f"{text!r} is no amount of memory: expected a number with a unit,"
            " such as 12GiB, 800MiB or 16GB"
        )
    count = float(match.group(1)) * factor
    if not 1 <= count < 1 << 63:
        raise UsageError(
            f"{text!r} is out of range: expected from 1 B to 8 EiB"
        )
    return int(count)


_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h|d)?\s*")
_SECONDS = {"ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """``"1h 30m"`` -> seconds; a number alone counts seconds.

    Raises UsageError for anything else, and for zero.
    """
    rest, seconds = text.strip(), 0.0
    while match := _SPAN.match(rest):
        seconds += float(match.group(1)) * _SECONDS[match.group(2) or "s"]
        rest = rest[match.end() :]
    if rest or not 0 < seconds < math.inf:
        raise UsageError(
            f"{text!r} is no length of time: expected a number with a unit,"
            " such as 90s, 10m or 1h30m"
        )
    return seconds


def format_count(value: float, digits: int = 1) -> str:
    """``1204`` -> ``"1,204"``; ``0.25`` -> ``"0.25"``; ``3.04`` -> ``"3"``."""
    if not math.isfinite(value):
        return "unknown"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < abs(value) < 1:
        return f"{value:.{digits + 1}g}"
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plural(count: float, noun: str, many: str = "") -> str:
    """``(1, "step")`` -> ``"1 step"``; ``(3, "step")`` -> ``"3 steps"``."""
    number = format_count(count)
    return f"{number} {noun if number == '1' else many or noun + 's'}"


def format_duration(seconds: float) -> str:
    """``11520`` -> ``"3 h 12 min"``; two units at most, ms below a second."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 0.9995:
        milliseconds = seconds * 1000
        if milliseconds >= 99.5:
            return f"{milliseconds:.0f} ms"
        if milliseconds >= 0.995:
            return f"{milliseconds:.1f} ms"
        return f"{milliseconds:.2g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole >= 365 * 86400:
        return f"{format_count(whole / (365 * 86400))} years"
    for size, unit, below, small in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            tail = f" {rest} {small}" if rest else ""
            return f"{whole // size} {unit}{tail}"
    return f"{whole} s"


#: What is less is not worth a word.
A_PERCENT = 0.01


def format_share(share: float) -> str:
    """In whole percents; never 100 % of what is a little less."""
    return f"{math.floor(share * 100 + 1e-6)} %"
