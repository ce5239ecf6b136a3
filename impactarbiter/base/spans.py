"""Numbers of ranks in words: as ranges, in numeric order."""

from __future__ import annotations

from collections.abc import Iterable

#: Ranges that are written out; of more the number of ranks is said.
MOST = 6
#: Numbers that are named one by one.
FEW = 3


def spans(numbers: Iterable[int], most: int | None = MOST) -> str:
    """``{0, 1, 2, 8}`` -> ``"0-2,8"``; at most so many ranges."""
    ordered = sorted(set(numbers))
    parts: list[list[int]] = []
    for number in ordered:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    if most is not None and len(shown) > most:
        return f"{','.join(shown[:most])},\u2026 ({len(ordered):,} in all)"
    return ",".join(shown)


def named(noun: str, numbers: Iterable[int]) -> str:
    """``"rank 7"``, ``"rank 7 and 41"``, ``"ranks 0-6,8-63"``."""
    ordered = sorted(set(numbers))
    if len(ordered) > FEW:
        return f"{noun}s {spans(ordered)}"
    words = [str(number) for number in ordered]
    if len(words) > 1:
        words[-2:] = [f"{words[-2]} and {words[-1]}"]
    return f"{noun} {', '.join(words)}"
