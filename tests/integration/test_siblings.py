"""Holders that are alike are one finding, but for those that keep what the
others let go; and how fast they grow is how fast they do now."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import pytest
import torch

import impactarbiter
from impactarbiter import Finding, Report
from impactarbiter.judging import walks

#: Bytes of each tensor here.
BYTES = 256
#: Rounds until one is not cut any more.
FIRST = 60


class Client:
    def __init__(self) -> None:
        self.updates: list[torch.Tensor] = []

    def work(self) -> None:
        self.updates.append(torch.ones(BYTES // 4))


class Other(Client):
    """Its own class: what is done to a Client is not done to it."""


def rounds(clients: list[Client], count: int, cut: int, of: int) -> Report:
    """All are cut to so many updates at each ``of`` rounds, but for the last
    one, that only at first."""
    with impactarbiter.watch(step="manual") as arbiter:
        for number in range(1, count + 1):
            for client in clients:
                client.work()
            if number % of == 0:
                for client in clients[:-1] if number > FIRST else clients:
                    del client.updates[: max(len(client.updates) - cut, 0)]
            arbiter.step()
        return arbiter.report()


def leaks(report: Report) -> list[impactarbiter.Finding]:
    return [f for f in report.findings if f.verdict == "leak"]


@pytest.mark.parametrize(("cut", "of"), [(6, 1), (0, 20)])
@pytest.mark.parametrize("last", [Client, Other])
def test_the_one_that_is_never_cut_is_the_leak(
    last: type[Client], cut: int, of: int
) -> None:
    clients = [*(Client() for _ in range(4)), last()]
    report = rounds(clients, 400, cut, of)
    (finding,) = leaks(report)
    assert finding.holder is not None
    assert finding.holder.expression.endswith("clients[4].updates")
    assert (finding.holder.length, finding.holder.alike) == (340 + cut, 1)
    assert finding.bytes_per_step == pytest.approx(BYTES, rel=0.1)
    assert finding.retained_bytes == pytest.approx(340 * BYTES, rel=0.1)
    assert finding.grown_at is not None
    assert finding.grown_at.function == "Client.work"


def test_those_that_are_cut_in_turn_are_no_leak() -> None:
    """The first is full after ten steps, the last after eighty."""
    buffers: list[list[torch.Tensor]] = [[] for _ in range(8)]
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(400):
            for slow, buffer in enumerate(buffers, 1):
                if step % slow == 0:
                    buffer.append(torch.ones(BYTES // 4))
                if len(buffer) > 10:
                    buffer.clear()
            arbiter.step()
        report = arbiter.report()
    assert not leaks(report)


def test_one_that_came_late_and_is_not_full_is_no_leak() -> None:
    users: list[list[torch.Tensor]] = []
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(400):
            if step % 100 == 0:
                users.append([])
            for user in users:
                user.append(torch.ones(BYTES // 4))
                del user[:-40]
            arbiter.step()
        report = arbiter.report()
    assert not leaks(report)


def test_those_that_are_filled_one_after_another_grow_as_fast_as_one() -> None:
    """One comes every fourth step, and thirty are a month."""
    months: dict[int, dict[int, torch.Tensor]] = {}
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(601):
            day = step // 4
            if step % 4 == 0:
                months.setdefault(day // 30, {})[day] = torch.ones(BYTES // 4)
            arbiter.step()
        report = arbiter.report()
    (finding,) = leaks(report)
    assert finding.bytes_per_step == pytest.approx(BYTES / 4, rel=0.1)


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1)])
def test_what_grows_again_after_a_pause_grows_as_fast_as_it_does_now(
    before: int, after: int
) -> None:
    cache: dict[int, torch.Tensor] = {}
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(400):
            came = before if step < 30 else after if step >= 150 else 0
            for _ in range(came):
                cache[len(cache)] = torch.ones(BYTES // 4)
            arbiter.step()
        report = arbiter.report()
    (finding,) = leaks(report)
    assert finding.bytes_per_step == pytest.approx(after * BYTES, rel=0.05)


def make(size: int) -> torch.Tensor:
    return torch.ones(size)


def test_what_visits_took_to_be_alike_is_measured_by_the_next_walk() -> None:
    """Items that grow, by a line that makes what others use, too."""
    used: deque[torch.Tensor] = deque(maxlen=600)
    kept: list[list[torch.Tensor]] = []
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(600):
            used.extend(make(BYTES // 4) for _ in range(3))
            kept.append([make(BYTES // 4) for _ in range(1 + step // 20)])
            arbiter.step()
        true = BYTES * sum(map(len, kept))
        (finding,) = leaks(arbiter.report())
    assert finding.retained_bytes == pytest.approx(true, rel=0.01)
    assert finding.bytes_per_step == pytest.approx(true / 600, rel=0.1)


def test_what_comes_is_as_large_as_what_came_between_two_walks() -> None:
    """Not as what it began with, by a line that makes what others use."""
    used: deque[torch.Tensor] = deque(maxlen=600)
    kept = [make(64 * BYTES) for _ in range(8)]
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(600):
            used.extend(make(BYTES // 4) for _ in range(3))
            kept.append(make(BYTES // 4))
            arbiter.step()
            if step in (40, 80):
                arbiter.report()
        (finding,) = leaks(arbiter.glance())
    true = BYTES * 600 + 8 * 4 * 64 * BYTES
    assert finding.retained_bytes == pytest.approx(true, rel=0.05)


def test_each_of_those_that_are_confirmed_goes_by_its_own_name() -> None:
    """None is cut for the first rounds, and a walk then finds all again."""
    clients = [Client() for _ in range(5)]
    with impactarbiter.watch(step="manual") as arbiter:
        for number in range(1, 401):
            for client in clients:
                client.work()
            for client in clients[:-1] if number > FIRST else ():
                del client.updates[:-6]
            arbiter.step()
            if number == FIRST - 10:
                (together,) = leaks(arbiter.report())
                arbiter.report()
        (finding,) = leaks(arbiter.report())
    assert together.holder is not None and finding.holder is not None
    assert together.holder.alike == 5
    assert finding.holder.expression.endswith("clients[4].updates")
    assert finding.holder.alike == 1


def test_what_is_twice_as_large_as_measured_is_walked_to_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Walks are free here, and so made whenever one is wanted."""
    monkeypatch.setattr(walks, "WALK_SHARE", 1e9)
    kept: list[torch.Tensor] = []
    made = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(800):
            kept.append(make(BYTES // 4))
            arbiter.step()
            if len(kept) in (100, 800):
                made.append(arbiter.report().cost.looks or 0)
    assert made[1] >= made[0] + 2  # by 200 and 400 at the latest


class Tap:
    """Has a list of its own of what every other one has as well."""

    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def record(
        self, _module: object, _args: object, out: torch.Tensor
    ) -> None:
        self.outputs.append(out.detach())


def told_of_taps(call: Callable[[int, torch.Tensor], object]) -> Finding:
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(40):
            call(step, torch.ones(1, 64))
            arbiter.step()
        (finding,) = leaks(arbiter.report())
    assert finding.holder is not None and finding.holder.doubles == 8
    assert "8 others alike had the same at the last look" in str(finding)
    return finding


def test_hooks_of_which_each_has_the_same() -> None:
    """The first had all that came, and clearing its list frees little."""
    model = torch.nn.Identity()

    def call(step: int, x: torch.Tensor) -> None:
        if step % 5 == 0 or step == 6:
            model.register_forward_hook(Tap().record)
        model(x)

    assert re.fullmatch(
        r"remove each hook from `.*model\._forward_hooks` once it has served,"
        r" .*: 9 of them had the same at the last look, each in its own"
        r" `\.__self__\.outputs`",
        told_of_taps(call).advice,
    )


def test_others_that_have_the_same_are_counted() -> None:
    """Each takes in all that comes, the first from the start."""
    taps = {number: Tap() for number in range(9)}

    def call(step: int, x: torch.Tensor) -> None:
        for number, tap in taps.items():
            if step >= 4 * number:
                tap.record(None, None, x)

    assert re.fullmatch(
        r"bound `.*taps\[0\]\.outputs` or clear it .*;"
        " so in 8 others alike, which had the same at the last look",
        told_of_taps(call).advice,
    )


def test_those_that_have_others_beside_the_same_are_not() -> None:
    """The second has three of its own for each that both have."""
    taps = [Tap(), Tap()]
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(40):
            both = torch.ones(64)
            for number, tap in enumerate(taps):
                tap.record(None, None, both)
                for _ in range(3 * number):
                    tap.record(None, None, torch.ones(64))
            arbiter.step()
        report = arbiter.report()
    assert [f.holder.doubles for f in leaks(report) if f.holder] == [0]


class Part:
    def __init__(self, data: torch.Tensor) -> None:
        self.data = data


def test_what_is_made_anew_each_time_is_told_apart_by_its_place(
    parts_in: Callable[[list[Part]], Collection[Part]],
) -> None:
    """An object lies where another of its kind lay a step ago: an address does
    not say which of them it is."""
    parts = parts_in([Part(torch.ones(64 * n)) for n in range(4)])
    with impactarbiter.watch(step="manual") as arbiter:
        for _step in range(400):
            old = parts.values() if isinstance(parts, dict) else parts
            new = [Part(torch.cat([p.data, torch.ones(64)])) for p in old]
            old = None
            parts = parts_in(new)
            new = None
            arbiter.step()
        report = arbiter.report()
    found = leaks(report)
    # Those that differ by a name are findings of their own.
    assert sum(f.holder.alike for f in found if f.holder) == 4
    size = sum(f.bytes_per_step for f in found)
    assert size == pytest.approx(4 * BYTES, rel=0.01)


def test_an_object_that_changes_places_is_the_one_that_it_was() -> None:
    """The scheduler's turns are no statement that makes any of them grow."""
    queue = [Part(torch.ones(64 * n)) for n in range(3)]
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(400):
            if step % 5 == 0:
                for part in queue:
                    part.data = torch.cat([part.data, torch.ones(64)])
            queue.append(queue.pop(0))
            arbiter.step()
        report = arbiter.report()
    (finding,) = leaks(report)
    assert finding.holder is not None
    assert finding.holder.alike == 3
    assert finding.bytes_per_step == pytest.approx(3 * BYTES / 5, rel=0.05)
    assert finding.grown_at is not None
    assert "torch.cat" in (finding.grown_at.source or "")


class Parts(NamedTuple):
    first: Part
    second: Part
    third: Part
    fourth: Part


@pytest.fixture(
    params=[
        list,
        tuple,
        lambda parts: Parts(*parts),
        lambda parts: dict(enumerate(parts)),
    ]
)
def parts_in(
    request: pytest.FixtureRequest,
) -> Callable[[list[Part]], Collection[Part]]:
    made: Callable[[list[Part]], Collection[Part]] = request.param
    return made


QUOTA = 24


class Sample:
    """Keeps a sample of what it is offered."""

    def __init__(self) -> None:
        self.items: list[torch.Tensor] = []
        self.seen = 0

    def offer(self) -> None:
        self.seen += 1
        if len(self.items) < QUOTA:
            self.items.append(torch.ones(BYTES // 4))
        else:
            self.items[self.seen % QUOTA] = torch.ones(BYTES // 4)


def sampled(tasks: int, steps: int) -> Report:
    """Each task has two samples, which are full before it ends."""
    samples: dict[int, Sample] = {}
    with impactarbiter.watch(step="manual") as arbiter:
        for task in range(tasks):
            for _ in range(steps):
                for key in (2 * task, 2 * task + 1):
                    samples.setdefault(key, Sample()).offer()
                arbiter.step()
        return arbiter.report()


def test_a_few_that_are_full_are_no_leak_yet() -> None:
    for finding in sampled(4, 2 * QUOTA).findings:
        assert finding.verdict != "leak"


def test_many_that_are_full_are_one() -> None:
    (leak,) = sampled(40, QUOTA + 4).findings
    assert leak.verdict == "leak"


@pytest.mark.parametrize("inside", [1, 2])
def test_a_variable_that_a_loop_sets_is_no_second_holder(inside: int) -> None:
    """That loop is over when a step ends: the variable has a list still."""
    rows: list[list[torch.Tensor]] = [[] for _ in range(12)]
    draw = random.Random(0)
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(300):
            for _ in range(inside):
                row = rows[draw.randrange(12)]
                row.append(make(BYTES // 4))
            arbiter.step()
        report = arbiter.report()
    (finding,) = leaks(report)
    assert finding.holder is not None
    assert re.search(r"\.rows\[\d+\]$", finding.holder.expression)
    assert finding.holder.alike == 12
    true = pytest.approx(inside * BYTES, rel=0.1)
    assert finding.bytes_per_step == true


def test_a_variable_of_a_loop_that_was_over_before_is_a_name() -> None:
    registry: dict[str, dict[str, list[torch.Tensor]]] = {}
    for name in ("train", "val"):
        log: list[torch.Tensor] = []
        registry[name] = {"sink": log}
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(100):
            log.append(make(BYTES // 4))
            arbiter.step()
        report = arbiter.report()
    (finding,) = leaks(report)
    assert finding.holder is not None
    assert finding.holder.expression.endswith("().log")


@pytest.mark.parametrize("lists", [12, 100])
def test_of_what_comes_to_one_or_another_each_step_counts(lists: int) -> None:
    """No list alone has something of each; more than 24 are told by one."""
    rows: list[list[torch.Tensor]] = [[] for _ in range(lists)]
    live: list[Finding] = []
    draw = random.Random(0)
    with impactarbiter.watch(
        step="manual", on_finding=live.append
    ) as arbiter:
        for _ in range(400):
            for _ in range(8):
                rows[draw.randrange(lists)].append(make(BYTES // 4))
            arbiter.step()
        (finding,) = leaks(arbiter.report())
    assert finding.generations > 390
    (told,) = live
    assert told.verdict == "leak" and told.last_step < 200


def test_lists_that_have_stopped_do_not_go_on_with_a_window() -> None:
    """One line makes what fills the lists, and then what a window takes."""
    rows: list[list[torch.Tensor]] = [[] for _ in range(12)]
    window: deque[torch.Tensor] = deque(maxlen=3000)
    draw = random.Random(0)
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(420):
            for _ in range(8):
                row = rows[draw.randrange(12)] if step < 120 else window
                row.append(make(BYTES // 4))
            arbiter.step()
            if step in (119, 219, 319):
                arbiter.report()
        report = arbiter.report()
    assert not leaks(report)
    assert len(report.taken_back) == 1
