"""Two runs of the pairs: what is better, worse, or within the spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pairs import Row

Verdict = Literal["better", "worse", "within spread", "new"]
#: Ratios that differ by less are not told apart, however narrow their
#: quartiles: another machine's caches are worth as much.
LEAST = 0.02


@dataclass(frozen=True)
class Change:
    """One row and what it was; ``old`` is None where it was not measured."""

    new: Row
    old: Row | None
    verdict: Verdict


def is_clear(low: Row, high: Row) -> bool:
    """Quartiles apart, and ratios by more than nothing."""
    return low.high < high.low and high.ratio > low.ratio * (1 + LEAST)


def verdict_of(old: Row | None, new: Row) -> Verdict:
    if old is None:
        return "new"
    if is_clear(old, new):
        return "worse"
    return "better" if is_clear(new, old) else "within spread"


def is_noise(row: Row) -> bool:
    return "nothing added" in row.name


def changes(old: Iterable[Row], new: Iterable[Row]) -> list[Change]:
    """In the new one's order, without the rows of noise: nothing of ours is
    in them."""
    before = {row.name: row for row in old}
    return list(_changes(before, new))


def _changes(before: dict[str, Row], new: Iterable[Row]) -> Iterator[Change]:
    for row in new:
        if not is_noise(row):
            old = before.get(row.name)
            yield Change(row, old, verdict_of(old, row))


def change_line(change: Change) -> str:
    old, new = change.old, change.new
    then = "" if old is None else f"{old.ratio:.3f} ({_quartiles(old)})"
    return (
        f"{new.name:<50}  {then:>21}  ->"
        f"  {new.ratio:.3f} ({_quartiles(new)})  {change.verdict}"
    )


def _quartiles(row: Row) -> str:
    return f"{row.low:.3f}-{row.high:.3f}"
