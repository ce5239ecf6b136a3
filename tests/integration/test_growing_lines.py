"""Lines that grow though no finding is about them, by what was least alive of
each in every stretch of the run."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

import impactarbiter
from impactarbiter import Report

STEPS = 120

pytestmark = pytest.mark.usefixtures("quiet")


def of_a_run(
    turn: Callable[[int], object], clear: Callable[[], None]
) -> Report:
    """What it keeps is let go of before the report is made."""
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(STEPS):
            turn(step)
            arbiter.step()
        clear()
        return arbiter.report()


def rates(report: Report) -> dict[str, float]:
    lines = [n for n in report.growing_lines if n.site.file == __file__]
    return {
        line.site.function.rpartition(".")[2]: line.bytes_per_step
        for line in lines
    }


def test_a_value_that_is_made_anew_and_larger_each_time() -> None:
    kept: dict[str, torch.Tensor] = {}

    def make(step: int) -> None:
        kept["table"] = torch.zeros(step + 1, 64)

    report = of_a_run(make, kept.clear)
    assert report.findings == ()
    assert rates(report) == {"make": pytest.approx(256, rel=0.02)}
    assert report.grown_bytes_per_step == pytest.approx(256, rel=0.1)


def test_what_is_as_large_as_it_happens_to_be_does_not_grow() -> None:
    kept: dict[str, torch.Tensor] = {}
    numbers = random.Random(0)

    def make(step: int) -> None:
        kept["batch"] = torch.zeros(numbers.randrange(1, 200), 64)

    assert rates(of_a_run(make, kept.clear)) == {}


def test_what_has_stopped_growing_does_not_grow() -> None:
    kept: dict[str, torch.Tensor] = {}

    def make(step: int) -> None:
        kept["table"] = torch.zeros(min(step + 1, STEPS // 2), 64)

    assert rates(of_a_run(make, kept.clear)) == {}


def test_small_ones_beside_much_larger_ones_are_not_named() -> None:
    kept: dict[str, torch.Tensor] = {}

    def much(step: int) -> None:
        kept["much"] = torch.zeros(step + 1, 640)

    def little(step: int) -> None:
        kept["little"] = torch.zeros(step + 1, 4)

    report = of_a_run(lambda step: (much(step), little(step)), kept.clear)
    assert set(rates(report)) == {"much"}
