"""Does the sum close?  What grew, and how much of it findings explain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ...base.records import dataclass
from ...core.sources import site_of
from ...core.wire import CALLS, Column, Counts, Rise, Status
from ...model.devices import noun_of
from ...model.finding import Finding
from ...model.growth import EXPLAINED
from ...model.report import GrowingLine
from ...model.site import Site

#: The run is divided into so many windows, and the least of each compared:
#: what comes and goes within a window is no growth.  The first two are what
#: a program builds up.  Where no two moments are alike the least is by chance,
#: and then the next to it shows no trend: both must rise.
WINDOWS = 8
BUILD_UP = 2
#: Growth is steady where the least rises from window to window, but for one
#: that takes no more away than another brings, and goes on: in the younger
#: half at least this part of that in the older.  What comes with each
#: evaluation rises in stairs: it never falls, and a window may see none of
#: them, but no two in a row.
MOST_FALLS = 1
GOES_ON = 0.5
#: Bytes that a process must gain in a window: the arrays of our own walks are
#: some MiB, and malloc may keep them.
LEAST_RISE = 4 << 20
#: The same of what is in use of malloc's: objects of our own looks are some
#: ten KiB.
LEAST_HEAP_RISE = 64 << 10
#: Resident memory is weighed from its growth's start where that would be told
#: of in a run so many times as long.
LONGER = 4


@dataclass(frozen=True)
class Growth:
    """Bytes a step; 0 where there is no steady growth, None: not measured.

    ``process`` is what it has in use, if ``in_use``: resident memory has not
    grown by enough to tell.
    """

    live: float
    process: float | None
    #: Live bytes a step from the first record to the highest: what comes in
    #: bursts is no steady growth, but it is part of the process's.
    gained: float
    in_use: bool = False


def growth(points: Column, kind: int, steps: int) -> Growth:
    """How fast live tensor memory and the process grew; ``points`` as
    ``Curves`` has them."""
    step, live = points[Counts._fields[kind]], points["live_bytes"]
    resident = points["resident_bytes"]
    process = None
    if resident.any():
        known = resident > 0
        process = _steady(step[known], resident[known], LEAST_RISE)
    in_use = 0.0 if process else _in_use(step, points)
    gained = int(live.max()) - int(live[0]) if len(live) else 0
    return Growth(
        _steady(step, live),
        in_use or process,
        gained / steps if steps else 0.0,
        in_use > 0,
    )


def explain(findings: Sequence[Finding], rises: Growth) -> bool:
    """Whether they account for what the process grew by."""
    known = sum(f.host_bytes_per_step for f in findings)
    return known >= EXPLAINED * (rises.process or 0.0)


def grows_beside(
    points: Column, kind: int, findings: Sequence[Finding]
) -> bool:
    """Whether the process grows by more than these findings account for."""
    step = points[Counts._fields[kind]]
    whole = sum(f.host_bytes_per_step for f in findings)
    objects = sum(f.cost_per_step - f.bytes_per_step for f in findings)
    for size, known, least in (
        (points["resident_bytes"], whole, LEAST_RISE // LONGER),
        (points["heap_bytes"], objects, LEAST_HEAP_RISE),
    ):
        read = size > 0
        rest = _steady(step[read], size[read], least, known)
        if known < EXPLAINED * (known + rest):
            return True
    return False


def _in_use(step: Column, points: Column) -> float:
    """What malloc's heap has besides tensors and arrays, where that grows, and
    these: to the byte, where resident memory is known to some MiB."""
    heap = points["heap_bytes"]
    asked = heap > 0
    beside = _steady(step[asked], heap[asked], LEAST_HEAP_RISE)
    return beside + _steady(step, points["host_bytes"]) if beside else 0.0


def _steady(
    steps: Column, sizes: Column, least_rise: int = 0, known: float = 0.0
) -> float:
    """The slope of windows' minima, where they rise steadily; without what is
    ``known`` to come with each step."""
    if len(steps) < WINDOWS:
        return 0.0
    step = steps.astype("int64")
    size = sizes.astype("int64") - (known * step).astype("int64")
    first, last = int(step[0]), int(step[-1])
    if last <= first:
        return 0.0
    window = (step - first) * WINDOWS // (last - first)
    window[window == WINDOWS] = WINDOWS - 1  # the last point ends it
    inside = (size[window == w] for w in range(BUILD_UP, WINDOWS))
    least = [_two_least(sizes) for sizes in inside if len(sizes)]
    minima = [first for first, _next in least]
    rises = [b - a for a, b in itertools.pairwise(minima)]
    if len(rises) < 2:
        return 0.0
    pairs = itertools.pairwise(rises)
    stairs = min(rises) == 0 and all(max(pair) > 0 for pair in pairs)
    if not stairs and sum(r <= 0 for r in rises) > MOST_FALLS:
        return 0.0
    if _slope([after for _least, after in least]) <= 0:
        return 0.0
    rise, half = _slope(minima), len(rises) // 2
    if not stairs:
        rise = min(_median(rises), rise)
    if min(rises) < -rise or rise < least_rise:
        return 0.0
    if sum(rises[-half:]) < GOES_ON * sum(rises[:half]):
        return 0.0
    if _has_stopped(step, size, minima[-1] - rise / 2):
        return 0.0
    return max(rise * WINDOWS / (last - first), 0.0)


def _two_least(sizes: Column) -> tuple[int, int]:
    """The least, and the next; of one alone, that.  They are put in order."""
    after = min(1, len(sizes) - 1)
    sizes.partition(after)
    return int(sizes[0]), int(sizes[after])


def _has_stopped(step: Column, size: Column, least: float) -> bool:
    """Whether for a third of the time there was no less than that: about the
    least of the last window, but for what comes and goes.  A holder that has
    not grown for so long has stopped."""
    first, last = int(step[0]), int(step[-1])
    less = step[size < least]
    grew = int(less.max()) if len(less) else last
    return 3 * (last - grew) > last - first


def _slope(values: Sequence[int]) -> float:
    """The median slope between any two of them.  What lies between neighbours
    is by chance where one has just missed what comes and goes; what came at
    once lies between most pairs, but between one of neighbours alone."""
    pairs = itertools.combinations(enumerate(values), 2)
    return _median((b - a) / (j - i) for (i, a), (j, b) in pairs)


def _median(values: Iterable[float]) -> float:
    """As ``statistics`` has it, which imports fractions and decimals."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2


def after_the_last_step(
    points: Column, status: Status
) -> tuple[int, int, float] | None:
    """What calls have made grow since the last step, where that goes on
    steadily: their kind, how many they were and bytes each; None otherwise.

    Steps say nothing of it, and the calls in their place only once they are
    many beside those that came with steps.  An evaluation that is as long as
    those before it gathers what they gathered.
    """
    if not status.silent:
        return None
    for kind in CALLS:
        before = status.strongest_counts[kind]
        if kind <= status.kind:
            continue
        calls = points[Counts._fields[kind]]
        tail = calls >= before
        rate = _steady(calls[tail], points["live_bytes"][tail])
        if rate > 0:
            return kind, status.counts[kind] - before, rate
    return None


def explained(findings: Sequence[Finding]) -> float:
    """Bytes of tensor memory a step that the findings account for."""
    return sum(f.bytes_per_step for f in findings)


def lines(
    rises: Iterable[Rise], findings: Sequence[Finding], status: Status
) -> tuple[GrowingLine, ...]:
    """Lines that grow and that no finding is about, the fastest first; what
    they keep may be let go of by now."""
    import numpy as np  # which the program has imported, before any step

    told = {(f.allocated_at.file, f.allocated_at.line) for f in findings}
    found: dict[tuple[Site, str], float] = {}
    for rise in rises:
        site, noun = site_of(rise.site), noun_of((rise.device,))
        begins = (rise.base + i * rise.width for i in range(len(rise.least)))
        steps = [status.step(begin) for begin in begins]
        built_up = len(steps) * BUILD_UP // WINDOWS
        if (site.file, site.line) in told or steps[-1] <= steps[built_up]:
            continue
        if _steady(np.array(steps), np.array(rise.least)):
            rate = (rise.least[-1] - rise.least[built_up]) / (
                steps[-1] - steps[built_up]
            )
            found[site, noun] = found.get((site, noun), 0.0) + rate
    each = (GrowingLine(site, found[site, noun], noun) for site, noun in found)
    return tuple(sorted(each, key=lambda one: -one.bytes_per_step))
