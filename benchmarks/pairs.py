"""Interleaved pairs: what a thing costs as a ratio, with its spread.

On a shared machine only two measurements that are taken side by side can be
compared.  So both sides take turns in short rounds (AB BA AB ...), each round
gives one ratio, and the median of them is reported with its quartiles.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

#: One measurement: seconds of one unit of work, set-up left out.
Measure = Callable[[], float]
#: Several figures of one measurement, each such seconds.
Measures = Callable[[], Sequence[float]]


@dataclass(frozen=True)
class Row:
    """One line of the table; times are medians in seconds."""

    name: str
    base: float
    with_: float
    low: float  # quartiles of the ratio
    ratio: float
    high: float
    rounds: int
    goal: float | None = None

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def compare(
    name: str,
    base: Measure,
    with_: Measure,
    rounds: int,
    goal: float | None = None,
) -> Row:
    """Ratio of two things measured in turns; a first round is thrown away."""
    return compare_each(
        {name: goal}, lambda: (base(),), lambda: (with_(),), rounds
    )[0]


def compare_each(
    goals: Mapping[str, float | None],
    base: Measures,
    with_: Measures,
    rounds: int,
) -> list[Row]:
    """The same of several figures, which both sides give in this order."""
    pairs: list[tuple[Sequence[float], Sequence[float]]] = []
    for i in range(rounds + 1):
        if i % 2:
            after = with_()
            before = base()
        else:
            before = base()
            after = with_()
        if i > 0:
            pairs.append((before, after))
    return [
        _row(name, [(b[k], a[k]) for b, a in pairs], goal)
        for k, (name, goal) in enumerate(goals.items())
    ]


def _row(
    name: str, pairs: Sequence[tuple[float, float]], goal: float | None
) -> Row:
    ratios = [after / before for before, after in pairs]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Row(
        name,
        statistics.median(before for before, _ in pairs),
        statistics.median(after for _, after in pairs),
        low,
        ratio,
        high,
        len(pairs),
        goal,
    )


def as_time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


TITLES = ("", "without", "with", "ratio", "quartiles", "rounds", "goal")
WIDTHS = (50, 9, 9, 7, 15, 6, 14)


def line(cells: Sequence[str]) -> str:
    first = f"{cells[0]:<{WIDTHS[0]}}"
    rest = [
        f"{cell:>{width}}"
        for cell, width in zip(cells[1:], WIDTHS[1:], strict=True)
    ]
    return "  ".join([first, *rest]).rstrip()


def row_line(row: Row) -> str:
    goal = ""
    if row.goal is not None:
        verdict = "reached" if row.ratio <= row.goal else "missed"
        goal = f"{row.goal:.2f} {verdict}"
    return line(
        (
            row.name,
            as_time(row.base),
            as_time(row.with_),
            f"{row.ratio:.3f}",
            f"{row.low:.3f}-{row.high:.3f}",
            str(row.rounds),
            goal,
        )
    )
