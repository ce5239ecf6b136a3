"""Stacks and sites that nothing names any more are dropped."""

from __future__ import annotations

import dataclasses
import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warm

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import ledger
from impactarbiter.watching.arbiter import Arbiter

#: As sites.h and sweep.h have them.
SWEEP_AFTER, IDLE_SITES = 2048, 2048
#: More than enough stacks for two sweeps: what was made before the first one
#: and did not come up again is gone after the second.
MANY = 3 * SWEEP_AFTER


@pytest.fixture
def arbiter() -> Iterator[Arbiter]:
    gc.collect()
    with impactarbiter.watch(step="manual") as watching:
        yield watching


def born_at(file: str, line: int = 1) -> torch.Tensor:
    """A tensor whose site is that line of a file that need not exist."""
    space: dict[str, Any] = {"torch": torch}
    text = "\n" * (line - 1) + "tensor = torch.empty(3)"
    exec(compile(text, file, "exec"), space)
    tensor: torch.Tensor = space["tensor"]
    return tensor


def churn(name: str, count: int = MANY) -> None:
    """Makes as many stacks and sites that never come up again."""
    for i in range(count):
        born_at(f"/generated/{name}_{i}.py")


def row_of(tensor: torch.Tensor) -> Any:
    _core.refresh()
    (row,) = (r for r in _core.rows() if r["address"] == tensor.data_ptr())
    return row


def ledger_bytes() -> int:
    size: int = _core.totals()["ledger_bytes"]
    return size


def test_code_under_ever_new_names(arbiter: Arbiter) -> None:
    churn("first", MANY + IDLE_SITES)
    before = ledger_bytes()
    churn("second", 3 * MANY)
    assert ledger_bytes() <= 1.1 * before
    assert before < 16 << 20


def test_with_steps(arbiter: Arbiter) -> None:
    """What is known of sites at boundaries is forgotten with them."""

    def run(name: str, count: int) -> None:
        for i in range(count):
            born_at(f"/generated/{name}_{i}.py")
            if i % 8 == 0:
                arbiter.step()

    run("first", MANY + IDLE_SITES)
    before = ledger_bytes()
    run("second", 2 * MANY)
    assert ledger_bytes() <= 1.1 * before
    assert before < 16 << 20


def test_call_paths_that_never_repeat(arbiter: Arbiter) -> None:
    """A recursion that takes either of two lines: few stacks, many paths."""
    generator = random.Random(0)

    def left(depth: int) -> torch.Tensor:
        return dive(depth - 1)

    def right(depth: int) -> torch.Tensor:
        return dive(depth - 1)

    def dive(depth: int) -> torch.Tensor:
        if depth == 0:
            return torch.empty(3)
        return left(depth) if generator.random() < 0.5 else right(depth)

    kept = [dive(20) for _ in range(2000)]
    stacks = {int(row["stack"]) for row in _core.rows()}
    assert len(_core.rows()) == len(kept)
    # Ways to order the lines of the three functions.
    assert len(stacks) <= 24


def test_what_is_alive_keeps_its_source(arbiter: Arbiter) -> None:
    kept = [born_at(f"/kept/{i}.py", i + 1) for i in range(100)]
    numbers = [(row_of(t)["site"], row_of(t)["stack"]) for t in kept]
    churn("a")
    churn("b")
    for i, tensor in enumerate(kept):
        row = row_of(tensor)
        assert (row["site"], row["stack"]) == numbers[i]
        source = _core.site_source(int(row["site"]))
        assert source == (f"/kept/{i}.py", i + 1, "<module>", False)
        assert _core.stack_frames(int(row["stack"]))[0] == source
    assert _core.consistent()


def test_a_dropped_number_is_never_used_again(arbiter: Arbiter) -> None:
    tensors = [born_at(f"/gone/{i}.py") for i in range(100)]
    rows = [row_of(tensor) for tensor in tensors]
    gone = {int(row["site"]) for row in rows}
    stacks = {int(row["stack"]) for row in rows}
    del tensors
    churn("after", MANY + 2 * IDLE_SITES)
    for number in stacks:
        assert _core.stack_frames(number) == []
    for number in gone:
        assert _core.site_source(number) is None
        assert _core.site_now(number) == (0,) * 6
    assert _core.diagnose(list(gone), list(gone))["holders"] == []
    # Their places are: another number with the same lower half.
    kept = [born_at(f"/new/{i}.py") for i in range(10)]
    numbers = {int(row["site"]) for row in map(row_of, kept)}
    assert not numbers & gone
    assert {n % 2**32 for n in numbers} < set(range(4 * MANY))
    assert max(numbers) >= 2**32


def test_a_line_that_comes_again_is_the_same(arbiter: Arbiter) -> None:
    """Nothing of it is alive, yet it is no new site at each sweep."""
    number = int(row_of(born_at("/again.py"))["site"])
    for i in range(2 * MANY):
        born_at(f"/generated/between_{i}.py")
        if i % 500 == 0:
            born_at("/again.py")
    assert int(row_of(born_at("/again.py"))["site"]) == number


def test_the_past_of_a_line_that_rests(arbiter: Arbiter) -> None:
    """What is known of a line stays while others are older."""
    kept = []
    for _ in range(20):
        kept.append(born_at("/rests.py"))
        arbiter.step()
    number = int(row_of(kept[0])["site"])
    kept.clear()
    life = _core.site_now(number)[3]
    assert life > 10
    for i in range(3):
        churn(f"others_{i}", SWEEP_AFTER + 1)
        born_at("/rests.py")
        arbiter.step()
    assert _core.site_now(number)[3] == life
    churn("too_many", MANY + 2 * IDLE_SITES)
    assert _core.site_now(number)[3] == 0


def test_the_stack_of_an_open_intervals_peak(arbiter: Arbiter) -> None:
    interval = _core.interval_open(0)
    peak = [born_at("/peak.py") for _ in range(100)]
    del peak
    churn("a")
    churn("b")
    stack = _core.interval_close(interval)[6]
    assert _core.stack_frames(stack)[0][0] == "/peak.py"


def test_sites_in_the_ring(arbiter: Arbiter, tmp_path: Path) -> None:
    """Births of a dropped site would be another one's in the bundle."""
    _core.recorder_arm(tmp_path, (), events=4 * MANY)
    try:
        site = int(row_of(born_at("/in/the/ring.py"))["site"])
        churn("a")
        churn("b", IDLE_SITES)
        assert _core.site_source(site) is not None
    finally:
        _core.recorder_disarm()


def test_lines_of_a_tensor_noticed_late(arbiter: Arbiter) -> None:
    """Its storage enters the ledger at the next boundary."""
    space: dict[str, Any] = {"torch": torch}
    text = "tensor = torch.empty(3, device='meta')"
    exec(compile(text, "/late.py", "exec"), space)
    churn("a")
    churn("b")
    _core.refresh()
    (row,) = (r for r in _core.rows() if r["device"] != 0)
    assert _core.site_source(int(row["site"]))[0] == "/late.py"  # type: ignore[index]


def test_a_snapshot_says_what_it_lacks(
    arbiter: Arbiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [torch.ones(100)]
    first = impactarbiter.snapshot()
    totals = dataclasses.replace(ledger.totals(), lost=3)
    monkeypatch.setattr(ledger, "totals", lambda: totals)
    held.append(torch.ones(100))
    new = impactarbiter.snapshot() - first
    assert (len(new), new.lost) == (1, 3)
    assert "3 storages could not be recorded: memory was short" in str(new)
    assert "could not" not in str(first)


def test_a_snapshot_outlives_what_it_shows(arbiter: Arbiter) -> None:
    kept = [born_at("/seen.py") for _ in range(3)]
    seen = impactarbiter.snapshot()
    kept.clear()
    churn("after", MANY + 2 * IDLE_SITES)
    ((site, count, size),) = seen.by_site()
    assert site.startswith("/seen.py:1") and (count, size) == (3, 36)


def test_names_stay_while_they_are_read(arbiter: Arbiter) -> None:
    """Making the answer runs the collector, which runs the program."""
    tensor = born_at("/read.py")
    number = int(row_of(tensor)["stack"])
    expected = _core.stack_frames(number)
    del tensor
    ran = []

    def busy(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and len(ran) < 1:
            ran.append(phase)
            churn("inside")

    thresholds = gc.get_threshold()
    gc.callbacks.append(busy)
    try:
        gc.set_threshold(1)
        frames = _core.stack_frames(number)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(busy)
    assert ran
    assert frames == expected


@pytest.mark.parametrize("kind", ["function", "cell"])
def test_code_at_a_used_address(kind: str, arbiter: Arbiter) -> None:
    """The same file, first line and size: its lines alone are others."""
    seen = set()
    for i in range(300):
        above = random.Random(i).randrange(2, 100)
        body = "\n" * above + "  return torch.empty(3)"
        text = f"def f():\n  pass{body}"
        space: dict[str, Any] = {"torch": torch}
        if kind == "cell":
            text = "pass" + "\n" * above + "t = torch.empty(3)"
        code = compile(text, "/used.py", "exec")
        exec(code, space)
        tensor = space["f"]() if kind == "function" else space["t"]
        seen.add(id(space["f"].__code__ if kind == "function" else code))
        source = _core.site_source(int(row_of(tensor)["site"]))
        assert source is not None
        assert source[1] == above + (2 if kind == "function" else 1)
        del code, tensor, space
        if i % 50 == 0:
            gc.collect()  # a function is on a cycle with its globals
    # Addresses did come again, but where a sanitizer forbids it.
    assert len(seen) < 300 or "libasan" in os.environ.get("LD_PRELOAD", "")


def test_the_end_of_code_is_watched_while_we_watch() -> None:
    """The slot of the code type is as it was, afterwards."""
    import ctypes

    offset = 48  # tp_dealloc, the same in all versions
    address = id(type(churn.__code__)) + offset
    slot = ctypes.c_size_t.from_address(address)
    before = slot.value
    with impactarbiter.watch(step="manual"):
        assert slot.value != before
    assert slot.value == before


def test_numbers_fit_an_array(arbiter: Arbiter) -> None:
    kept = born_at("/array.py")
    rows = _core.rows()
    assert rows["site"].dtype == rows["stack"].dtype == np.dtype("u8")
    assert kept is not None


def test_lines_that_allocate_more_than_once() -> None:
    """What comes up again at once is no line that is in use.

    In a process of its own, where no other test has made room for more.
    """
    code = f"""if True:
        import torch, impactarbiter
        from impactarbiter import _core
        arbiter, most = impactarbiter.watch(step="manual"), 0
        for i in range(4 * {SWEEP_AFTER}):
            space = {{"torch": torch}}
            text = "t = torch.empty(3)\\nfor i in range(3): t = t + i"
            exec(compile(text, f"/generated/loop_{{i}}.py", "exec"), space)
            if i % 64 == 0:
                stacks = _core.rows()["stack"].tolist()
                most = max(most, *(number % 2**32 for number in stacks))
        # Two a file: those before the last sweep, and since.
        assert 0 < most <= 2 * ({SWEEP_AFTER} + 64), most
    """
    done = warm.run(["-c", code])
    assert done.returncode == 0, done.stderr
