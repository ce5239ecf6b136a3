"""When live memory is said to grow, by what it was at each point."""

from __future__ import annotations

import moments
import pytest

from impactarbiter.judging.sums.closure import grows_beside, growth
from impactarbiter.model.finding import Finding
from impactarbiter.model.site import Site

KIND = 0
STEPS = 900


def rate(live: list[int]) -> float:
    points = moments.points(len(live), live_bytes=live)
    return growth(points, KIND, len(live)).live


def test_what_rises_all_along_grows() -> None:
    assert rate([7 * n for n in range(STEPS)]) == pytest.approx(7, rel=0.01)


def test_what_comes_and_goes_within_a_window_does_not() -> None:
    assert rate([n % 50 for n in range(STEPS)]) == 0


def test_one_small_fall_is_no_end() -> None:
    """Something else was let go of in the middle."""
    assert rate([7 * n - 300 * (n > 500) for n in range(STEPS)]) > 5


def test_what_comes_and_goes_across_windows_is_no_part_of_it() -> None:
    """Minima that rise by 7 a step, of which one in two has just missed what
    comes and goes."""
    late = [2, 4, 5, 7]
    live = [7 * n + 700 * (n * 8 // STEPS in late) for n in range(STEPS)]
    assert rate(live) == pytest.approx(7, rel=0.25)


def test_what_comes_at_once_is_no_slope() -> None:
    live = [n + 9000 * (n > 500) for n in range(STEPS)]
    assert rate(live) == pytest.approx(1, rel=0.05)


def test_a_fall_that_undoes_a_window_s_rise_is_one() -> None:
    """Two tables that are filled in turn: at the end the first has gone."""
    live = [n if n < 600 else n - 300 for n in range(STEPS)]
    assert rate(live) == 0


@pytest.mark.parametrize("evaluations", [4, 5, 6])
def test_what_each_evaluation_brings_rises_in_stairs(evaluations: int) -> None:
    """Some windows see none of them."""
    each = STEPS // evaluations
    live = [n // each * each * 7 for n in range(STEPS)]
    assert rate(live) == pytest.approx(7, rel=0.25)


@pytest.mark.parametrize("at", [0.3, 0.5, 0.7, 0.9])
def test_what_came_at_once_is_no_stairs(at: float) -> None:
    assert rate([9000 * (n > at * STEPS) for n in range(STEPS)]) == 0


def test_what_rose_in_stages_that_are_over_has_stopped() -> None:
    """For the last third of the time it was what it is."""
    live = [min(n // 100 * 100, 500 + 100 * (n > 590)) for n in range(STEPS)]
    assert rate(live) == 0


def test_one_moment_with_a_little_less_is_no_growth_since() -> None:
    """Layers that are unfrozen one after another, a pool that fills, and what
    is averaged from two thirds of the time on."""
    live = [min(n // 75 * 75, 375) + 200 * (n > 597) for n in range(STEPS)]
    live[730] -= 5
    live = [size + n % 3 for n, size in enumerate(live)]
    assert rate(live) == 0


def test_of_moments_that_are_never_alike_the_least_are_by_chance() -> None:
    """A search that is as large again each time: where a window's least rise,
    the next to them do not."""
    least = [0, 9, 20, 21, 260, 476, 500, 644]
    after = [40, 60, 44, 1292, 1004, 668, 884, 812]
    live = []
    for low, high in zip(least, after, strict=True):
        window = [5000 + 37 * n for n in range(STEPS // 8)]
        window[30], window[70] = low, high
        live += window
    assert rate(live) == 0
    assert rate([size + 100 * n for n, size in enumerate(live)]) > 90


@pytest.mark.parametrize("epochs", [8, 12, 13, 40])
def test_what_is_emptied_each_epoch_and_grows_by_a_little(epochs: int) -> None:
    """A window has one trough or two."""
    live = [
        1000 * (n % 100) + 200 * (n // 100) for n in range(100 * epochs)
    ]
    assert rate(live) == pytest.approx(2, rel=0.3)


def in_use(heap: list[int]) -> tuple[float | None, bool]:
    """With resident memory that is known to a MiB."""
    resident = [(size >> 20) << 20 for size in heap]
    points = moments.points(
        len(heap), resident_bytes=resident, heap_bytes=heap
    )
    made = growth(points, KIND, len(heap))
    return made.process, made.in_use


def test_what_is_in_use_grows_before_resident_memory_tells() -> None:
    rate, is_in_use = in_use([(100 << 20) + 9000 * n for n in range(160)])
    assert rate == pytest.approx(9000, rel=0.05) and is_in_use


def test_what_looks_of_ours_leave_in_use_is_no_growth() -> None:
    assert in_use([(100 << 20) + 90 * n for n in range(160)]) == (0, False)
    filled = [(100 << 20) + 9000 * min(n, 90) for n in range(160)]
    assert in_use(filled) == (0, False)


@pytest.mark.parametrize(
    ("graphs", "is_beside"),
    [(0, True), (4000, True), (8800, False), (9000, False), (12000, False)],
)
def test_what_holders_bring_is_no_growth_beside_them(
    graphs: int, is_beside: bool
) -> None:
    """Nodes of the kept graphs make the heap grow."""
    site = Site("train.py", 7, "step")
    finding = Finding(
        verdict="leak",
        allocated_at=site,
        bytes_per_step=50_000,  # tensors are not among what is beside them
        graph_bytes_per_step=graphs,
    )
    heap = [(100 << 20) + 9000 * n for n in range(160)]
    points = moments.points(160, heap_bytes=heap)
    assert grows_beside(points, KIND, [finding]) == is_beside
