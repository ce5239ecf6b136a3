"""The clocks and the criterion, on traces that are made up."""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from impactarbiter import _core
from impactarbiter.core.wire import STEP_KINDS

COUNT, BYTES, STEADILY = 1, 2, _core.GROWS_STEADILY
#: Ages for a report and for a word in passing.
REPORT, TELL = 8, 12


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[int], None], int], None]]:
    """Runs ``turn(step)`` so many steps of a run without a warm-up."""
    _core.start(manual=True, warmup=0)

    def steps(turn: Callable[[int], None], count: int) -> None:
        for step in range(count):
            turn(step)
            _core.step()
            assert _core.consistent()

    yield steps
    _core.stop()


def born(key: int, size: int = 100) -> None:
    """One line that all storages here are born in."""
    _core._born(64 * (key + 1), size)


def died(key: int) -> None:
    _core._died(64 * (key + 1))


def suspects(age: int = TELL) -> list[int]:
    return [s["kinds"] & ~STEADILY for s in _core.suspects(age)]


def rises_steadily() -> bool:
    return any(s["kinds"] & STEADILY for s in _core.suspects(REPORT))


@pytest.mark.parametrize("every", [1, 2, 7, 50])
def test_what_is_kept_is_suspect_at_any_pace(run, every: int) -> None:
    def turn(step: int) -> None:
        if step % every == 0:
            born(step)

    run(turn, 40 * every)
    assert suspects() == [COUNT]


def test_what_was_emptied_began_then(run) -> None:
    """After eleven steps; the ten since then are none to tell of yet."""
    alive: list[int] = []

    def turn(step: int) -> None:
        alive.append(step)
        born(step)
        while step == 10 and alive:
            died(alive.pop())

    run(turn, 21)
    assert suspects() == []


def test_what_is_replaced_is_not(run) -> None:
    def turn(step: int) -> None:
        born(step)
        if step:
            died(step - 1)

    run(turn, 200)
    assert suspects() == []


@pytest.mark.parametrize("length", [5, 30, 100])
def test_a_window_that_moves_on_is_not(run, length: int) -> None:
    def turn(step: int) -> None:
        born(step)
        if step >= length:
            died(step - length)

    run(turn, 400)
    assert suspects(REPORT) == []


@pytest.mark.parametrize("epoch", [10, 25, 60])
def test_what_each_epoch_clears_is_not(run, epoch: int) -> None:
    def turn(step: int) -> None:
        if step % epoch == 0:
            for old in range(max(step - epoch, 0), step):
                died(old)
        born(step)

    run(turn, 6 * epoch - 1)
    assert suspects(REPORT) == []


def test_a_leak_behind_what_comes_and_goes(run) -> None:
    """Half of what one line makes is kept, half lives for ten steps."""

    def turn(step: int) -> None:
        born(2 * step)
        born(2 * step + 1)
        if step >= 10:
            died(2 * (step - 10) + 1)

    run(turn, 100)
    assert suspects() == [COUNT]


def test_a_queue_that_is_filled_faster_than_drained(run) -> None:
    def turn(step: int) -> None:
        born(step)
        if step % 3 == 2:
            died(step // 3)

    run(turn, 300)
    assert suspects(REPORT) == [COUNT] and rises_steadily()


def test_what_lives_for_a_while_rises_ever_more_slowly(run) -> None:
    """Sessions that end by chance, after a hundred steps on average."""
    chance = random.Random(0)
    ends: dict[int, list[int]] = {}

    def turn(step: int) -> None:
        for one in range(10):
            born(10 * step + one)
            end = step + 1 + int(chance.expovariate(1 / 100))
            ends.setdefault(end, []).append(10 * step + one)
        for key in ends.pop(step, []):
            died(key)

    run(turn, 150)
    assert suspects(REPORT) == [COUNT] and not rises_steadily()


@pytest.mark.parametrize("at_once", [0, 2000])
def test_what_came_at_once_when_it_began_is_no_pace(run, at_once) -> None:
    """Of ten a step three are kept, and the others live for a while."""
    chance = random.Random(0)
    ends: dict[int, list[int]] = {}
    made = 0

    def turn(step: int) -> None:
        nonlocal made
        for _ in range(10 + at_once * (step == 1)):
            born(made)
            if chance.random() >= 0.3:
                end = step + 1 + int(chance.expovariate(1 / 20))
                ends.setdefault(end, []).append(made)
            made += 1
        for key in ends.pop(step, []):
            died(key)

    run(turn, 600)
    assert suspects(REPORT) == [COUNT] and rises_steadily()


def test_a_buffer_that_is_full_is_not(run) -> None:
    run(lambda step: born(step) if step < 20 else None, 60)
    assert suspects(REPORT) == []


def test_one_value_that_is_made_larger(run) -> None:
    def turn(step: int) -> None:
        born(step, 100 * (step + 1))
        if step:
            died(step - 1)

    run(turn, 40)
    assert suspects() == [BYTES]


def test_batches_of_random_size_do_not_grow(run) -> None:
    chance = random.Random(0)

    def turn(step: int) -> None:
        born(step, chance.randrange(100, 10_000))
        if step:
            died(step - 1)

    run(turn, 300)
    assert suspects(REPORT) == []


def test_a_few_steps_are_not_enough(run) -> None:
    run(born, REPORT - 1)
    assert suspects(REPORT) == []


def test_a_report_asks_for_fewer_steps(run) -> None:
    run(born, REPORT + 1)
    assert suspects(REPORT) == [COUNT]
    assert suspects(TELL) == []


def test_the_stretch_begins_where_keeping_began(run) -> None:
    def turn(step: int) -> None:
        born(step)
        if 0 < step <= 100:
            died(step - 1)

    run(turn, 300)
    (suspect,) = _core.suspects(TELL)
    width = 300 // 32 * 2
    assert abs(suspect["since"] - 100) <= width


def test_warm_up_counts_for_nothing() -> None:
    _core.start(manual=True, warmup=40)
    try:
        for step in range(40):
            born(step)
            _core.step()
        assert suspects(REPORT) == []
        assert _core.consistent()
        for step in range(40, 60):
            born(step)
            _core.step()
        (suspect,) = _core.suspects(TELL)
        assert suspect["since"] == 40
        assert suspect["survivors"] == 20
    finally:
        _core.stop()


def test_allowed_storages_make_no_suspect(run) -> None:
    _core.set_allowed(3)
    run(born, 40)
    _core.set_allowed(0)
    assert suspects(REPORT) == []


def test_collected_storages_do_not_count_as_let_go(run) -> None:
    """That they waited for the collector says nothing of the program."""

    def turn(step: int) -> None:
        born(step)
        if step % 20 == 19:
            _core.collector_event("start", {})
            for old in range(step - 19, step):
                if old % 2:
                    died(old)
            _core.collector_event("stop", {})

    run(turn, 100)
    assert suspects() == [COUNT]


# -- clocks -----------------------------------------------------------------


class Optimizer:
    """The hook asks for its address, and whether it is still there."""


@pytest.fixture
def auto() -> Iterator[None]:
    _core.start(warmup=0)
    yield
    _core.stop()


def step(optimizer: Optimizer) -> None:
    _core.optimizer_stepped(optimizer, (), {})


def rounds() -> int:
    return _core.status()["counts"][0]


def test_one_optimizer_a_step_is_a_step(auto: None) -> None:
    one = Optimizer()
    for _ in range(10):
        step(one)
    assert rounds() == _core.status()["position"] == 10


def test_one_at_the_address_of_one_that_is_gone_is_new(auto: None) -> None:
    two, again = [Optimizer(), Optimizer()], 0
    for trial in range(12):
        for _ in range(4):
            step(two[trial % 2])
        address = id(two.pop(trial % 2))
        elsewhere = [one := Optimizer()]
        # Another object may have taken the place for good.
        while id(one) != address and len(elsewhere) < 2000:
            elsewhere.append(one := Optimizer())
        again += id(one) == address
        two.insert(trial % 2, one)
    # Some did, but where a sanitizer forbids it.
    assert again or "libasan" in os.environ.get("LD_PRELOAD", "")
    assert rounds() == 48


@pytest.mark.parametrize(("kept", "steps"), [(0, 10), (1, 9)])
def test_one_that_takes_the_place_of_another(
    auto: None, kept: int, steps: int
) -> None:
    """As where each sample, or each test, has a model of its own; until one
    is gone, nobody can tell those in turn from those one after the other."""
    last: deque[Optimizer] = deque(maxlen=kept)
    for _ in range(10):
        step(one := Optimizer())
        last.append(one)
    assert rounds() == _core.status()["position"] == steps


def test_two_in_turn_are_one_step(auto: None) -> None:
    one, other = Optimizer(), Optimizer()
    for _ in range(10):
        step(one)
        step(other)
    assert rounds() == 10
    assert _core.status()["ticks"] == 20


def test_one_optimizer_a_parameter(auto: None) -> None:
    many = [Optimizer() for _ in range(30)]
    for _ in range(10):
        for one in many:
            step(one)
    assert rounds() == 10


def test_one_optimizer_a_parameter_and_ever_more_of_them(auto: None) -> None:
    """As where each window of the data has parameters of its own."""
    many = [Optimizer() for _ in range(3)]
    for turn in range(40):
        if turn % 2 == 0:
            many[1:1] = [Optimizer(), Optimizer()]
        for one in (many[0], *many[1:3], many[-1]):
            step(one)
        if turn == 20:
            for one in many[3:-1]:  # some come back
                step(one)
    assert rounds() == 40


def test_a_critic_that_steps_more_often(auto: None) -> None:
    critic, generator = Optimizer(), Optimizer()
    for _ in range(10):
        for _ in range(5):
            step(critic)
        step(generator)
    assert rounds() == 50


def test_nothing_begins_again_when_optimizers_come(auto: None) -> None:
    """Survivors of before stay; they were born at position 0."""
    for key in range(50):
        born(key)
        _core.step()
    assert suspects(REPORT) == [COUNT]
    one = Optimizer()
    step(one)
    assert _core.consistent()
    assert _core.totals()["live_count"] == 50
    assert suspects(REPORT) == []
    for key in range(50, 80):
        born(key)
        step(one)
    (suspect,) = _core.suspects(TELL)
    assert suspect["live_count"] == 80
    assert _core.status()["ticks"] == 81


def test_calls_move_the_position_on_once_training_is_over(auto: None) -> None:
    """The fewer steps there were, the longer it takes to be sure."""
    one = Optimizer()
    for _ in range(64):
        step(one)
    for _ in range(64):
        _event()
    assert _now() == (64, "optimizer")
    for _ in range(100):
        _event()
    assert _now() == (64 + 100, "module call")
    step(one)
    assert _now() == (64 + 100 + 1, "optimizer")
    assert _core.status()["counts"][:3] == (65, 0, 164)


def test_an_evaluation_is_no_time(auto: None) -> None:
    one = Optimizer()
    for _ in range(4):
        for _ in range(64):
            _event()
            step(one)
        for _ in range(127):
            _event()
    assert _now() == (4 * 64, "optimizer")


def test_rollouts_before_the_first_step_are_no_time(auto: None) -> None:
    one = Optimizer()
    for _ in range(4096):
        _event()
    step(one)
    assert _now() == (1, "optimizer")
    for _ in range(2 * 4096):
        _event()
    assert _now() == (1, "optimizer")
    _event()
    assert _now() == (2, "module call")


def _now() -> tuple[int, str]:
    status = _core.status()
    assert status["clock"] == 0
    return status["position"], STEP_KINDS[status["kind"]]


def _event() -> None:
    """A tick of a weaker kind: a module that is called."""
    import torch

    _MODULE(torch.ones(1))


def _module() -> object:
    import torch

    return torch.nn.Identity()


_MODULE = _module()


@pytest.fixture(autouse=True)
def _hooked() -> Iterator[None]:
    from impactarbiter import _torch

    _torch.install()
    yield
    _torch.uninstall()
