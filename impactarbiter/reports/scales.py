"""Scales of the page's pictures: from steps and bytes to percent."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from ..base.records import dataclass
from ..base.units import format_bytes, format_count

#: More points than this cannot be told apart on a page.
_MOST_POINTS = 400

Point = tuple[float, float]
Series = Sequence[Point]


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis, in percent."""

    at: float
    text: str


@dataclass(frozen=True)
class Shape:
    """An SVG path in a box of 100 by 100; ``look`` is its class."""

    look: str
    d: str


def _above(low: float, high: float) -> float:
    """The end of a scale, so that it has a length whatever its start is."""
    return high if high > low else low + 1e-9 * max(abs(low), 1.0)


class Box:
    """From steps and bytes to percent."""

    def __init__(
        self, left: float, right: float, low: float, high: float
    ) -> None:
        self.left: float = left
        self.right: float = _above(left, right)
        self.low: float = low
        self.high: float = _above(low, high)

    def x(self, value: float) -> float:
        return 100 * (value - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        return 100 - 100 * (value - self.low) / (self.high - self.low)

    def curve(self, points: Series) -> str:
        """A path through these; what is off the box is cut by the SVG."""
        return "M" + " L".join(
            f"{self.x(x):.2f} {self.y(y):.2f}" for x, y in points
        )

    def area(self, low: Series, high: Series) -> str:
        """The closed shape between two curves."""
        return self.curve([*high, *reversed(low)]) + "Z"


def _ticks(
    low: float,
    high: float,
    at: Callable[[float], float],
    text: Callable[[float], str],
    step: float,
) -> tuple[Tick, ...]:
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    values = (n * step for n in range(first, last + 1))
    return tuple(Tick(at(v), text(v)) for v in values)


def _decimal_step(span: float) -> float:
    """1, 2 or 5 times a power of ten: three to six of them in a span."""
    size: float = 10.0 ** math.floor(math.log10(max(span, 1) / 3))
    steps = (m * size for m in (1, 2, 5, 10))
    return max(next((s for s in steps if span / s <= 6), 10 * size), 1)


def _binary_step(span: float) -> float:
    """A power of two: two to five of them in a span."""
    return float(2 ** math.ceil(math.log2(max(span, 4) / 5)))


def axes(
    box: Box, signed: bool = False
) -> tuple[tuple[Tick, ...], tuple[Tick, ...]]:
    def size(value: float) -> str:
        return ("+" if signed and value > 0 else "") + format_bytes(value)

    x_step = _decimal_step(box.right - box.left)
    y_step = _binary_step(box.high - box.low)
    return (
        _ticks(box.left, box.right, box.x, format_count, x_step),
        _ticks(box.low, box.high, box.y, size, y_step),
    )


def drawn_points(steps: Sequence[int]) -> list[int]:
    """One point for each step, the last; and not too many of them."""
    last = [
        i
        for i, step in enumerate(steps)
        if i + 1 == len(steps) or steps[i + 1] != step
    ]
    stride = -(-len(last) // _MOST_POINTS) or 1
    return last[(len(last) - 1) % stride :: stride]


def tops_of(layers: Iterable[Sequence[int]]) -> list[list[int]]:
    """Where each of these ends, stacked, from the lowest on."""
    return list(
        itertools.accumulate(
            map(list, layers),
            lambda a, b: [p + q for p, q in zip(a, b, strict=True)],
        )
    )


def stacked(
    box: Box, steps: Sequence[int], looks: Iterable[str], tops: list[list[int]]
) -> tuple[Shape, ...]:
    """The areas between them."""
    low: Series = [(x, 0) for x in steps]
    areas = []
    for look, top in zip(looks, tops, strict=True):
        up = list(zip(steps, top, strict=True))
        areas.append(Shape(look, box.area(low, up)))
        low = up
    return tuple(areas)
