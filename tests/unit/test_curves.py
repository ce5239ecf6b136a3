"""What is measured from step to step, against what is really alive."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import _core
from impactarbiter.base.errors import ReportError, UsageError
from impactarbiter.core import heap, ledger
from impactarbiter.core.wire import Curves
from impactarbiter.model.history import Ages, History
from impactarbiter.model.report import Report
from impactarbiter.watching.arbiter import Arbiter

KIB = 1 << 10


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    gc.collect()
    made = impactarbiter.watch(step="manual", warmup=0, numpy=False)
    yield made
    made.stop()


def lines_of(
    namespace: dict[str, Any], count: int
) -> list[Callable[..., Any]]:
    """So many functions that allocate, each on a line of its own."""
    source = "\n".join(
        f"def make{i}(n): return torch.empty(n, dtype=torch.uint8)"
        for i in range(count)
    )
    namespace["torch"] = torch
    exec(compile(source, "lines.py", "exec"), namespace)
    return [namespace[f"make{i}"] for i in range(count)]


def by_line(curves: Curves) -> dict[int, list[int | None]]:
    """Curves by line number, None before they begin."""
    return {
        frame.line: [None] * line.since
        + line.live_bytes[line.since :].tolist()
        for line in curves.lines
        if (frame := ledger.site_frame(line.site)) is not None
    }


def test_lines_are_exact_at_every_point(arbiter: Arbiter) -> None:
    make = lines_of({}, 3)
    kept: list[Any] = []
    expected: list[list[int]] = [[], [], []]
    for step in range(20):
        kept.append(make[0](KIB))
        once = make[1](4 * KIB)
        thrice = make[2](KIB) if step % 3 == 0 else None
        arbiter.step()
        expected[0].append((step + 1) * KIB)
        expected[1].append(4 * KIB)
        expected[2].append(KIB if step % 3 == 0 else 0)
        del once, thrice
    curves = ledger.curves()
    found = by_line(curves)
    assert [found[line] for line in (1, 2, 3)] == expected
    assert curves.points["live_bytes"].tolist() == [
        sum(sizes) for sizes in zip(*expected, strict=True)
    ]


def test_the_lines_that_hold_most_are_kept(arbiter: Arbiter) -> None:
    make = lines_of({}, 30)
    kept = [make[i](KIB * (i + 1)) for i in range(30)]
    arbiter.step()
    assert sorted(by_line(ledger.curves())) == list(range(19, 31))
    # A line that comes late takes the place of the one that held least.
    kept.append(make[0](64 * KIB))
    for _ in range(4):
        arbiter.step()
    found = by_line(ledger.curves())
    assert sorted(found) == [1, *range(20, 31)]
    assert found[1] == [None, *[65 * KIB] * 4]


def test_a_long_run_is_thinned(arbiter: Arbiter) -> None:
    (make,) = lines_of({}, 1)
    kept = []
    for step in range(9000):
        if step % 1000 == 0:
            kept.append(make(KIB))
        arbiter.step()
    curves = ledger.curves()
    assert 2048 <= len(curves.points) <= 4096
    ticks = curves.points["tick"].tolist()
    assert ticks == list(range(ticks[0], 9001, ticks[1] - ticks[0]))
    assert by_line(curves)[1] == curves.points["live_bytes"].tolist()
    assert curves.points["live_bytes"][-1] == 9 * KIB
    history = arbiter.report().history
    assert len(history.steps) <= 1024 and history.steps[-1] == ticks[-1]


def test_nodes_of_a_carried_sum_grow(arbiter: Arbiter) -> None:
    weight = torch.ones(4, requires_grad=True)
    total = torch.zeros(())
    for _ in range(30):
        total = total + weight.sum()
        arbiter.step()
    nodes = {n.counts.manual: n for n in ledger.curves().nodes}
    # Two nodes a step, and the one that takes the gradient in.
    assert all(n.nodes == 2 * step + 1 for step, n in nodes.items())
    assert len(nodes) >= 10
    first, last = min(nodes), max(nodes)
    each = (nodes[last].bytes - nodes[first].bytes) / (last - first)
    assert 200 < each < 4000
    del total
    for _ in range(8):
        arbiter.step()
    assert ledger.curves().nodes[-1].nodes == 0


def test_nodes_that_tensors_share_count_once(arbiter: Arbiter) -> None:
    weight = torch.ones(4, requires_grad=True)
    middle = weight * 2
    kept = [middle + i for i in range(5)]
    arbiter.step()
    assert ledger.curves().nodes[-1].nodes == 2 + 5
    assert len(kept) == 5


def test_phases_are_of_the_boundary(arbiter: Arbiter) -> None:
    arbiter.step()
    with arbiter.phase("train"):
        arbiter.step()
        with arbiter.phase("log"):
            arbiter.step()
    history = arbiter.report().history
    assert history.phases == ("", "train", "train/log")


def test_ages_of_a_leak_and_of_a_cache(arbiter: Arbiter) -> None:
    make = lines_of({}, 2)
    leak, cache = [], [make[1](KIB) for _ in range(32)]
    for _ in range(64):
        leak.append(make[0](KIB))
        arbiter.step()
    sites = {
        frame.line: line.site
        for line in ledger.curves().lines
        if (frame := ledger.site_frame(line.site)) is not None
    }
    of_leak, of_cache = (heap.site_ages(sites[n]).alive for n in (1, 2))
    assert sum(of_leak) == 64 and len(set(of_leak[:-1])) == 1
    assert of_cache[0] == 32 and sum(of_cache[1:]) == 0
    assert len(cache) == 32
    # By tick 20 the leak's line made so many; its cells are two ticks wide.
    assert 19 <= heap.site_older(sites[1], 20) <= 22
    assert heap.site_older(sites[2], 20) == 32
    report = arbiter.report()
    (finding,) = [f for f in report.findings if f.verdict == "leak"]
    assert finding.ages is not None
    assert sum(finding.ages.alive) == 64 and finding.ages.end == 64
    assert finding.ages.steps[0] == 1


def test_an_unknown_site_has_no_ages() -> None:
    assert _core.site_ages(1 << 40)[2] == ()
    assert _core.site_older(1 << 40, 1) == 0


def test_columns_must_agree() -> None:
    with pytest.raises(UsageError, match="1 seconds"):
        History((1, 2), (3, 4), seconds=(0.5,))
    with pytest.raises(UsageError, match="sizes of nodes"):
        History((1,), (3,), node_steps=(1,))
    with pytest.raises(UsageError, match="2 steps and 1 counts"):
        Ages((1, 2), (3,), 4)
    data = Report().to_dict()
    data["history"]["seconds"] = [1.0]
    with pytest.raises(ReportError, match="history is wrong"):
        Report.from_dict(data)


def test_curves_survive_a_file_and_masks(arbiter: Arbiter) -> None:
    make = lines_of({}, 1)
    kept = []
    for _ in range(20):
        with arbiter.phase("secret"):
            kept.append(make[0](KIB))
            arbiter.step()
    report = arbiter.report()
    assert report.history.lines and report.history.purposes
    assert report.history.resident_bytes[-1] > 1 << 20
    assert Report.from_dict(report.to_dict()) == report
    from impactarbiter.judging.masks import obfuscated

    masked = str(obfuscated(report).to_dict())
    assert "secret" not in masked and "lines.py" not in masked
