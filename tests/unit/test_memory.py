"""What a holder's past says: made-up observations, no heap."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from impactarbiter.base.records import Changing
from impactarbiter.core import heap
from impactarbiter.core.wire import (
    GROWS_BYTES,
    GROWS_COUNT,
    GROWS_STEADILY,
    STEP_KINDS,
    Counts,
    Held,
    SiteNow,
    Sort,
    Statement,
    Status,
    Suspect,
    Visit,
)
from impactarbiter.judging.allowlist import AllowList
from impactarbiter.judging.holders import leaving, rates
from impactarbiter.judging.holders.departures import Departures
from impactarbiter.judging.holders.growth import Pace
from impactarbiter.judging.holders.known import KnownHolders
from impactarbiter.judging.holders.memory import HolderHistory
from impactarbiter.judging.holders.observation import (
    Moment,
    Observation,
    observed,
)
from impactarbiter.judging.holders.reach import Reach
from impactarbiter.judging.holders.scaled import scaled
from impactarbiter.judging.holders.turnover import Turnover
from impactarbiter.judging.verdicts import verdict
from impactarbiter.judging.verdicts.garbage import waits_for_a_run
from impactarbiter.judging.verdicts.verdict import stood_at_the_end
from impactarbiter.judging.watch import StatementWatch
from impactarbiter.model.finding import GraphCost
from impactarbiter.model.history import Ages
from impactarbiter.model.path import Edge, Path

LINE = 7
OPTIMIZER = STEP_KINDS.index("optimizer")


def at(tick: int) -> Moment:
    counts = Counts(optimizer=tick)
    return Moment(tick, tick, counts, tick, counts, counts)


def seen(tick: int, items: int | None, storages: int) -> Observation:
    return Observation(
        at=at(tick),
        items=items,
        storages=storages,
        held=100 * storages,
        bytes=100 * storages,
        nodes=0,
        node_bytes=0,
        probed={},
        first=0,
        value=1,
        graph=0,
    )


#: No way leads on from the holder.
nowhere = {"path": Path("main()", ()), "depth": 0}


def history(first: Observation) -> HolderHistory:
    return HolderHistory(
        "signature",
        cast(
            Held,
            SimpleNamespace(turn=True, root="frame", length=20, **nowhere),
        ),
        since=0,
        first=first,
        last=first,
        turnover=Turnover(first),
        sites={LINE: SiteNow(0, 0, 0, 0, 0, 0)},
        departures=Departures(first.items or 0),
    )


def alive(count: int) -> dict[int, SiteNow]:
    return {LINE: SiteNow(count, 100 * count, 0, 0, count, 0)}


def none_older(site: int, tick: int) -> int:
    """All that a walk saw has died."""
    return 0


def tensor(tick: int, size: int, **more: Any) -> Observation:
    return replace(seen(tick, None, 1), size=size, **more)


def test_a_list_that_is_longer_than_ever_was_emptied_if_all_of_it_died():
    known = history(seen(20, 40, 40))
    now = known.told_apart(seen(90, 60, 60), alive(60), none_older)
    assert now.emptied
    known.observe(now)
    assert known.departures.lets_go


def test_what_is_found_again_where_all_had_gone_was_let_go():
    """Its eldest item lies where the old one's lay: nothing stays."""
    known = history(replace(seen(20, 40, 40), eldest=7))
    known.seen(Visit("broken", None, 0, 0, 0), at(50), alive(0), none_older)
    assert known.is_gone
    again = Visit("intact", 60, 1, 0, 0, eldest=7)
    known.seen(again, at(90), alive(60), none_older)
    assert known.departures.lets_go and not known.is_gone
    assert known.broken_at is None and not known.turnover.renews


def test_what_each_turn_makes_anew_did_not_go_with_its_path():
    """A tensor that each step makes longer goes by another name when the
    function whose variable it was has returned it."""
    known = history(tensor(20, 640))
    longer = Visit("intact", None, 2, 0, 0, bytes=960)
    known.seen(longer, at(40), alive(1), none_older)
    known.seen(Visit("broken", None, 0, 0, 0), at(50), alive(1), none_older)
    assert known.broken_at is not None and not known.is_gone
    known.observe(known.told_apart(tensor(51, 999), alive(1), none_older))
    assert not known.departures.lets_go


@pytest.mark.parametrize(
    ("storages", "is_remade"), [(2, True), (1, True), (3, False)]
)
def test_an_object_in_place_of_another_is_no_growth(storages, is_remade):
    """`cam = GradCAM(net)` in each turn: what it keeps of a larger batch is
    more, but of no more tensors."""
    known = history(seen(20, None, 2))
    known.held = cast(
        Held,
        SimpleNamespace(turn=False, root="module", length=None, **nowhere),
    )
    now = replace(seen(40, None, storages), bytes=9000, value=2)
    known.observe(known.told_apart(now, alive(storages), none_older))
    assert known.turnover.renews and known.is_remade == is_remade


def test_a_list_that_kept_one_item_was_not_emptied():
    asked = []

    def older(site: int, tick: int) -> int:
        asked.append((site, tick))
        return 1

    known, now = history(seen(20, 40, 40)), seen(90, 60, 60)
    assert not known.told_apart(now, alive(61), older).emptied
    assert asked == [(LINE, 20)]


@pytest.mark.parametrize(
    ("then", "items"),
    [
        (seen(20, 2, 2), 2),  # `buffers[k] = cat([buffers[k], x])`
        (seen(20, None, 9), None),
        (seen(20, 2, 0), 3),
    ],
)
def test_what_the_ledger_cannot_tell_was_not_emptied(then, items):
    assert not Turnover(then).is_emptied(items, alive=9, old=0)


def test_an_object_whose_attributes_were_all_replaced_lets_go_each_time():
    """`setattr(store, f"item_{n}", value)`, and the 20th before it goes: what
    has more than the last time may still fill."""
    known, asked = history(seen(20, None, 9)), []

    def older(site: int, tick: int) -> int:
        asked.append(tick)
        return 0

    larger = {LINE: alive(40)[LINE]._replace(live_bytes=8000)}
    for tick, lines, emptied in (
        (200, alive(40), False),
        (300, larger, False),
        (400, alive(40), True),
    ):
        now = known.told_apart(seen(tick, None, 40), lines, older)
        assert now.emptied == emptied
        known.observe(now)
        assert known.departures.lets_go == emptied
    assert asked == [20, 200, 300] and known.first.at.tick == 400


def test_more_nodes_behind_an_object_may_be_those_of_more_graphs():
    known = history(replace(seen(20, None, 9), nodes=36, probed={LINE: 4}))
    known.reach = Reach({LINE: 4})
    now = replace(seen(40, None, 18), nodes=72, probed={LINE: 4})
    known.observe(now)
    assert not known.graph_grows
    known.observe(replace(now, probed={LINE: 8}))
    assert known.graph_grows


def test_a_list_that_was_read_from_a_checkpoint_was_not_emptied():
    """Of its 60 items 46 were made by the line that reads it."""
    assert not Turnover(seen(20, 40, 40)).is_emptied(60, alive=14, old=0)


def test_an_emptied_list_is_seen_once_for_a_walk():
    known = history(seen(20, 40, 40))
    known.observe(replace(seen(40, 50, 50), emptied=True))
    now = known.told_apart(seen(60, 60, 60), alive(60), none_older)
    assert not now.emptied


def asked(step: int, items: int) -> Observation:
    """What a report sees, after the statement that comes after the step."""
    now = seen(step, items + 1, items + 1)
    return replace(now, at=replace(now.at, ends_step=False))


@pytest.mark.parametrize("looks", [[17], [17, 19]])
def test_a_report_in_the_middle_of_a_step_adds_none_to_a_rate(looks):
    known = history(seen(16, 16, 16))
    for step in looks:
        known.observe(seen(step, step, step))
    known.observe(asked(20, 20))
    assert known.last.items == 21
    assert rates.rate(known, 0, "items") == 1
    assert rates.rate(known, 0, "held") == 100


def test_what_left_is_seen_once():
    since = Turnover(seen(20, 40, 40))
    thinner = [since.thins(old) for old in (40, 31, 31, 30)]
    assert thinner == [False, True, False, True]


def test_a_queue_that_is_longer_than_ever_has_let_go_of_its_eldest():
    known = history(replace(seen(20, 40, 40), eldest=1))
    known.observe(replace(seen(40, 50, 50), eldest=1))
    assert known.departures.let_go_at == 0
    known.observe(replace(seen(60, 60, 60), eldest=2))
    assert known.departures.let_go_at == 40 and not known.departures.lets_go


def test_what_left_between_two_looks_did_so_after_the_first():
    """All of an epoch's items at its end, and all of the next one's."""
    known = history(seen(300, 80, 80))
    known.observe(seen(356, 115, 115))
    known.observe(replace(seen(480, 120, 120), thinned=True))
    assert known.departures.let_go_at == 356
    assert not leaving.outgrows(known, since=362)


@pytest.mark.parametrize(
    ("most", "until", "outgrows"),
    [
        (64, 130, False),
        (1000, 110, False),  # what lives for 60 steps may be all there yet
        (1000, 130, True),
    ],
)
def test_what_has_just_reached_its_bound_does_not_outgrow_it(
    most, until, outgrows
):
    """From step 60 on something leaves at each."""
    known = history(replace(seen(20, 20, 20), eldest=1))
    for step in range(21, until):
        left = max(step - 60, 0)
        now = seen(step, min(step - left // 2, most), 20)
        known.observe(replace(now, eldest=1 + left))
    assert known.departures.let_go_at == until - 2
    assert leaving.outgrows(known, since=3) == outgrows


@pytest.mark.parametrize(
    ("alive", "together", "slows"),
    [
        ((100, 60, 30, 20, 9, 5, 2, 1), 1, True),  # ever fewer new keys
        ((14, 0, 0, 0, 0, 0, 0, 0), 1, True),
        ((30, 30, 30, 30, 30, 30, 30, 30), 1, False),
        ((40, 35, 30, 30, 30, 25, 30, 30), 1, False),
        ((5, 2, 1, 1, 1, 0, 1, 1), 1, False),  # too few to say
        ((1, 0, 0, 0, 0, 1, 2, 9), 1, False),
        ((400, 200, 40, 40, 80, 0, 40, 40), 40, False),  # of 21 steps
        ((128, 64), 1, False),  # the one was as long again as the other
        ((128, 8), 1, True),
    ],
)
def test_what_comes_ever_more_rarely_slows(
    alive: tuple[int, ...], together: int, slows: bool
) -> None:
    known = history(seen(100, 12, 30))
    assert not leaving.slows(known)  # nobody has counted
    begins = (1, 129) if len(alive) == 2 else range(1, 160, 20)
    known.ages = Ages(tuple(begins), alive, 192 if len(alive) == 2 else 160)
    known.retained, known.generations = 10 * together, 10
    assert leaving.slows(known) == slows


@pytest.mark.parametrize(
    ("alive", "slows"),
    [
        ((8, 2, 1, 0, 1, 0, 1, 0), True),
        ((5, 2, 1, 1, 1, 0, 1, 1), False),
        ((2, 2, 1, 2, 1, 2, 2, 1), False),
    ],
)
def test_what_may_come_ever_more_rarely(
    alive: tuple[int, ...], slows: bool
) -> None:
    known = history(seen(100, 12, 30))
    known.ages = Ages(tuple(range(1, 160, 20)), alive, 160)
    known.retained, known.generations = 10, 10
    assert leaving.seems_to_slow(known) == slows
    assert not leaving.slows(known)


@pytest.mark.parametrize(("generations", "fits"), [(114, True), (115, False)])
def test_blocks_of_a_tee_have_more_than_when_they_were_walked_to(
    generations: int, fits: bool
) -> None:
    """Of what has no length, one item each is made in a step."""
    known = history(seen(60, None, 50))
    known.held.bound = 114  # type: ignore[misc]
    known.generations = generations
    assert verdict._fits(known, None) == fits


def test_what_outgrows_what_leaves_it_grows_from_the_first_that_left():
    """Not from the last that did: of some of its time a rate says little."""
    known = history(seen(20, 10, 10))
    items = 10
    for tick in range(30, 330, 10):
        items += 6 if tick % 20 else -4
        known.observe(seen(tick, items, items))
    first = known.departures.before_first
    assert first is not None and (first.at.tick, first.items) == (30, 16)
    since = known.last.at.tick - 30
    assert rates.net(known, OPTIMIZER, "items") == (items - 16) / since
    assert rates.rate(known, OPTIMIZER, "items") != (items - 16) / since


@pytest.mark.parametrize(("taken", "outgrows"), [(None, False), (3, True)])
def test_what_is_emptied_has_its_peaks_by_chance(taken, outgrows):
    """It gets to eleven, to twelve, and so on: two are left each time, or all
    but three."""
    known, step = history(seen(20, 10, 20)), 20
    for most in range(11, 31):
        for items in (most, 2 if taken is None else most - taken):
            step += 10
            known.observe(seen(step, items, 20))
    assert leaving.outgrows(known, since=20) == outgrows


@pytest.mark.parametrize(
    ("counted", "items", "told"),
    [(240, 297, 294), (240, 290, 286), (120, 270, 133)],
)
def test_each_step_is_counted_where_each_has_left_an_item(
    counted: int, items: int, told: int
) -> None:
    """A walk in the middle of step 244 had seen what 240 steps left, from the
    fourth on; three items are older, and one is of the present step."""
    known = history(seen(244, 244, 240))
    known.generations = counted
    scale = 1 + (items - 244) / 240
    known.observe(replace(seen(297, items, items), scale=scale))
    said = rates.generations(known, OPTIMIZER, first_step=4, last_step=297)
    assert said == told


@pytest.mark.parametrize(
    ("lived", "rising", "may_wait"),
    [(40, (), True), (20, (), False), (40, (3,), False)],
)
def test_what_lives_for_long_may_wait_for_its_turn(lived, rising, may_wait):
    """Rows of a table of which the last three of each user stay."""
    known = history(seen(20, 20, 20))
    known.fellows = [fellow()]
    known.observe(seen(60, 30, 20))
    known.lived, known.rising = lived, rising
    assert leaving.may_wait(known) == may_wait


@pytest.mark.parametrize(
    ("kinds", "life", "seems"),
    [
        (GROWS_COUNT | GROWS_STEADILY, 400, False),  # sessions that leak
        (GROWS_COUNT, 400, True),  # of any length, and ever fewer new ones
        (GROWS_COUNT, 3, False),  # only the newest ever left
        (GROWS_BYTES, 3, True),  # each is larger
    ],
)
def test_what_is_longer_than_ever_may_let_go_all_the_same(kinds, life, seems):
    """So it was, a second time, where looks have missed what left."""
    known = history(listed(20, 12, 1))
    known.departures.waits_no_more()
    suspect = Suspect(LINE, kinds, 3, life, 190, 190, 190, 0, 0, 0)
    known.rising = [3] if kinds & GROWS_STEADILY else []
    known.keeps_old = suspect.keeps_old(500)
    assert leaving.only_seemed_to_outgrow(known) == seems


@pytest.mark.parametrize(
    ("spans", "died"),
    [
        ([(1, 50)], True),
        ([(1, 50), (2, 48)], True),  # a model's layers
        ([(1, 50), (51, 100)], False),  # an epoch's, and the next one's
    ],
)
def test_garbage_grows_by_what_was_filled_later(spans, died):
    garbage = [
        SimpleNamespace(
            died=True, groups=[SimpleNamespace(first=first, last=last)]
        )
        for first, last in spans
    ]
    known = history(seen(100, 50, 50))
    known.fellows = cast(Any, garbage)
    assert known.died is died
    garbage[0].died = False
    assert not known.died


def test_a_tensor_that_is_begun_anew_lets_go():
    known = history(tensor(20, 4000))
    known.observe(tensor(30, 5000))
    assert (known.growth.gains, known.departures.lets_go) == (1, False)
    known.observe(tensor(40, 200))
    assert known.departures.lets_go


def test_a_tensor_with_a_graph_is_not_judged_by_its_size():
    known = history(tensor(20, 4000, graph=5))
    known.observe(tensor(30, 200, graph=6))
    assert not known.departures.lets_go


def test_what_a_statement_needs_for_a_moment_is_no_growth_of_a_tensor():
    known = history(tensor(20, 4000))
    both = replace(tensor(30, 4000), storages=2, held=8000)
    known.observe(both)
    assert known.growth.gains == 0


def test_what_a_chain_frees_grows_with_its_lines():
    then = replace(seen(20, None, 10), freed=12, bytes=1500)
    now = replace(then, at=at(60))
    now = scaled(now, then, (), alive(10), alive(40), recurs=None)
    assert (now.storages, now.freed, now.bytes) == (40, 48, 6000)


def test_a_dict_of_rows_has_no_more_storages_than_its_line_has_alive():
    """Eight rows are views of one batch: 10 batches then, 50 now."""
    row = SimpleNamespace(branches=10, older=0, alone=0.0, length=80)
    then = replace(seen(20, 80, 10), freed=10)
    now = replace(then, at=at(60), items=400)
    dicts = [cast(Held, row)]
    now = scaled(now, then, dicts, alive(11), alive(51), recurs=None)
    assert (now.storages, now.held, now.freed) == (51, 5100, 51)


def test_an_item_that_stands_there_many_times_is_freed_once():
    """A heap of 100 entries for 50 rows, 40 of them another's too, when it
    was walked to; now 1,000, and its line has 70 rows alive."""
    heap = SimpleNamespace(branches=50, older=0, alone=0.1, length=100)
    then = replace(seen(20, 100, 50), freed=10, bytes=1000)
    now = replace(then, at=at(60), items=1000)
    heaps = [cast(Held, heap)]
    now = scaled(now, then, heaps, alive(50), alive(70), recurs=None)
    assert (now.storages, now.held) == (70, 7000)
    assert now.freed <= 10 + 20 and now.bytes <= 1000 + 2000
    assert now.longer <= 3


def test_a_carried_value_is_no_part_of_what_its_graph_gains():
    """A weight of 4,000 B is renewed; each of ten steps has saved 8 B."""
    then = replace(
        seen(20, None, 1), bytes=4080, freed=11, nodes=20, node_bytes=2000
    )
    known = history(then)
    known.began = 10
    known.recurs = True
    known.graph = GraphCost(20, 10, 80, (), 2000)
    assert rates.carried(known, 0, "bytes") == 8
    assert rates.carried(known, 0, "freed") == 1
    assert rates.carried(known, 0, "node_bytes") == 200


def test_a_tensor_that_grows_by_concatenation_is_as_large_as_it_is_seen():
    """The one before it may be alive still, in a graph that read it."""
    then = replace(tensor(20, 4000), storages=1, held=4000, bytes=4000)
    now = replace(then, at=at(60), size=12_000)
    now = scaled(now, then, (), alive(2), alive(2), recurs=None)
    assert (now.held, now.bytes, now.storages) == (12_000, 12_000, 1)


def test_what_a_carried_graph_frees_grows_with_its_nodes():
    then = replace(
        seen(20, None, 1), nodes=50, node_bytes=500, probed={LINE: 40}
    )
    now = replace(then, at=at(60), probed={LINE: 120})
    assert scaled(now, then, (), {}, {}, recurs=False) == now
    later = scaled(now, then, (), {}, {}, recurs=True)
    assert (later.nodes, later.node_bytes) == (150, 1500)


def test_what_was_known_is_brought_back():
    """Whatever changed, in the same history, which others refer to."""
    known = KnownHolders(AllowList(()).allows)
    one = known["one"] = history(seen(20, 20, 20))
    one.observe(seen(30, 30, 30))
    one.sightings.take_in([Statement("train.py", 3, "main", 2, 2, 0)])
    before = deepcopy(one)
    bring_back = known.as_known()
    for items in (40, 10, 50):
        one.observe(seen(100 - items, items, items))
    one.sightings.take_in([Statement("train.py", 3, "main", 2, 2, 9)])
    known["two"] = known.pop("one")
    bring_back()
    assert dict(known) == {"one": before} and known["one"] is one


def test_what_is_remembered_of_a_holder_is_replaced_or_a_part_of_it():
    """What would change in place would not be brought back."""
    records: list[Changing] = [history(seen(20, 20, 20))]
    for record in records:
        for field in fields(cast(Any, record)):
            value = getattr(record, field.name)
            assert not str(field.type).startswith(("dict", "list", "set"))
            if is_dataclass(value) and type(value).__hash__ is None:
                assert isinstance(value, Changing), field.name
                records.append(value)
    assert len(records) > 2


def test_what_is_copied_has_parts_of_its_own():
    known = history(seen(20, 20, 20))
    other = known.copied()
    assert other == known and other.sightings is not known.sightings
    before = deepcopy(known)
    other.sightings.take_in([Statement("train.py", 3, "main", 2, 2, 0)])
    other.observe(seen(30, 30, 30))
    assert known == before != other


@pytest.mark.parametrize(
    ("type_", "gone", "left", "collected"),
    [
        ("Trainer", True, 1, True),
        ("Trainer", False, 1, False),
        ("Net", True, 1, False),
        # It goes by another's name, say.
        ("Trainer", True, 4, False),
    ],
)
def test_garbage_that_is_gone_was_collected(type_, gone, left, collected):
    def cycle(name: str) -> Held:
        return cast(Held, SimpleNamespace(root="cycle", type=name))

    known = KnownHolders(AllowList(()).allows)
    known["before"] = history(seen(20, None, 4))
    known["before"].held = cycle(type_)
    known["before"].broken_at = at(60) if gone else None
    known["before"].turnover.collected(left, left)
    assert known._was_collected(cycle("Trainer")) == collected


@pytest.mark.parametrize(
    ("others", "stood"), [(0, True), (2000, False), (100, True)]
)
def test_what_others_hold_since_is_not_what_a_broken_path_kept(
    monkeypatch: pytest.MonkeyPatch, others: int, stood: bool
) -> None:
    """A call's list, found at an early step, beside a holder of the same line
    and of another one, which has half of what it holds."""
    known = KnownHolders(AllowList(()).allows)
    gone = known["gone"] = history(seen(36, 4, 4))
    gone.confirmed_at, gone.broken_at = at(36), at(40)
    other = known["other"] = history(seen(900, 3, 2 * others))
    other.sites = {LINE: other.sites[LINE], LINE + 1: other.sites[LINE]}
    groups = [SimpleNamespace(site=s, count=others // 2) for s in other.sites]
    other.fellows = (cast(Held, SimpleNamespace(groups=groups)),)
    elsewhere = known.held_elsewhere(gone)
    assert (elsewhere, known.held_elsewhere(other)) == (others, 0)
    monkeypatch.setattr(heap, "site_now", lambda _site: alive(2000)[LINE])
    counts = Counts(optimizer=900)
    status = SimpleNamespace(
        ticks=900, now=900, counts=counts, strongest_kind=OPTIMIZER
    )
    assert stood_at_the_end(gone, cast(Status, status), elsewhere) == stood


@pytest.mark.parametrize(
    ("died", "alive_then", "is_left"),
    [(True, 50, True), (False, 50, False), (False, 40, True)],
)
def test_what_is_left_of_a_holder_is_no_garbage_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    died: bool,
    alive_then: int,
    is_left: bool,
):
    """A list of exceptions is part of one cycle with their frames, when its
    function has returned: a walk comes into that at any of them."""
    known = KnownHolders(AllowList(()).allows)
    rows = known["rows"] = history(seen(20, 10, 40))
    rows.confirmed_at = at(20)
    known._died = {"rows"} if died else set()
    groups = [SimpleNamespace(site=LINE, count=6)]
    frame = SimpleNamespace(root="cycle", died=False, groups=groups)
    known._garbage = [cast(Held, frame)]
    now = alive(alive_then)[LINE]
    monkeypatch.setattr(heap, "site_now", lambda _site: now)
    left = known._is_what_is_left([cast(Held, frame)], rows.last.at)
    assert left == is_left


def test_a_holder_that_was_seen_long_before_the_end_had_grown_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is left of it was in it, though a visit had not seen that yet."""
    known = KnownHolders(AllowList(()).allows)
    rows = known["rows"] = history(seen(20, 10, 40))
    rows.confirmed_at = at(20)
    groups = [SimpleNamespace(site=LINE, count=6)]
    node = cast(Held, SimpleNamespace(root="cycle", died=False, groups=groups))
    known._garbage = [node]
    monkeypatch.setattr(heap, "site_now", lambda _site: alive(50)[LINE])
    assert not known._is_what_is_left([node], rows.last.at)
    assert known._is_what_is_left([node], at(20 + rows.age // 4))


@pytest.mark.parametrize(
    ("lines", "known_as"), [({LINE, 8}, "two"), ({8}, "one")]
)
def test_a_value_keeps_its_past_when_another_line_has_most_of_it(
    lines: set[int], known_as: str
):
    """Its graph grows by several lines; in its place is a new object now."""

    def mean(lines: set[int], address: int) -> Held:
        groups = [SimpleNamespace(site=site) for site in lines]
        edge = Edge("attribute", "mean", "Tensor", ".mean")
        held = SimpleNamespace(
            length=None,
            root="frame",
            type="Tensor",
            path=Path("fit()", (edge,)),
            depth=1,
            owners=(address,),
            groups=groups,
        )
        return cast(Held, held)

    known = KnownHolders(AllowList(()).allows)
    known["one"] = history(seen(20, None, 4))
    known._recognise("one", [mean({LINE}, 64)], {"one"})
    known._recognise("two", [mean(lines, 128)], {"two"})
    assert list(known) == [known_as]


@pytest.mark.parametrize(
    ("forever", "known_as"), [(True, "two"), (False, "one")]
)
def test_garbage_that_stays_is_known_by_any_of_its_objects(
    forever: bool, known_as: str
):
    """The collector frees other garbage: what lies there now may be new."""

    def cycle(name: str) -> Held:
        groups = [SimpleNamespace(site=LINE)]
        held = SimpleNamespace(
            root="cycle",
            type=name,
            forever=forever,
            length=None,
            groups=groups,
        )
        return cast(Held, held)

    known = KnownHolders(AllowList(()).allows)
    known["one"] = history(seen(20, None, 4))
    known["one"].held = cycle("Tensor")
    known._recognise("two", [cycle("OrderedDict")], {"two"})
    assert list(known) == [known_as]


def fellow(**more: Any) -> Held:
    usual = {
        "branches": 20,
        "older": 0,
        "alone": 1.0,
        "length": 20,
        "others": 0,
        "owners": (1,),
        "place": "rows",
        "groups": (),
    }
    return cast(Held, SimpleNamespace(**nowhere | usual | more))


def test_what_came_is_as_large_as_what_its_line_has_gained():
    """A curriculum's tensors: 100 B each when a walk saw them, 700 B since."""
    walked = seen(20, 20, 20)
    then, now = alive(20), {LINE: SiteNow(60, 30_000, 0, 0, 60, 0)}
    visit = replace(seen(60, 60, 20))
    grown = scaled(visit, walked, [fellow()], then, now, None)
    assert (grown.storages, grown.held, grown.bytes) == (60, 30_000, 30_000)


@pytest.mark.parametrize(("others", "grown"), [(0, 60), (29, 1_800)])
def test_tensors_that_nobody_visits_grow_like_the_others(
    others: int, grown: int
):
    """Of thirty that are alike one is visited: its memory was 100 B."""
    one = fellow(length=None, branches=0, others=others)
    walked = replace(seen(20, None, 1 + others), size=100)
    visit = replace(walked, at=at(60), size=160)
    now = scaled(visit, walked, [one], {}, {}, None)
    assert now.held - walked.held == now.bytes - walked.bytes == grown


def test_what_another_holder_took_is_not_this_one_s():
    """Half of what the line has made went elsewhere: which is not known."""
    walked = seen(20, 20, 20)
    now = {LINE: SiteNow(100, 20 * 100 + 80 * 700, 0, 0, 100, 0)}
    visit = seen(60, 60, 20)
    grown = scaled(visit, walked, [fellow()], alive(20), now, None)
    assert grown.held == 6_000


def test_a_line_may_make_small_ones_beside_large_ones():
    """A loss of 4 B for each hidden state of 8,192 B, kept elsewhere."""
    walked = replace(seen(20, 20, 20), held=80, bytes=80)
    then = {LINE: SiteNow(40, 20 * 8196, 0, 0, 40, 0)}
    now = {LINE: SiteNow(120, 60 * 8196, 0, 0, 120, 0)}
    visit = replace(walked, at=at(60), items=60)
    grown = scaled(visit, walked, [fellow()], then, now, None)
    assert (grown.storages, grown.held) == (60, 240)


def test_a_line_may_have_few_large_ones_in_use_beside_many_small_ones():
    """One of 30,000 B was alive when the walk was made, one of 90,000 now."""
    walked = seen(20, 20, 20)
    then = {LINE: SiteNow(21, 20 * 100 + 30_000, 0, 0, 21, 0)}
    now = {LINE: SiteNow(24, 23 * 100 + 90_000, 0, 0, 24, 0)}
    visit = seen(23, 23, 20)
    grown = scaled(visit, walked, [fellow()], then, now, None)
    assert (grown.storages, grown.held) == (23, 2300)


@pytest.mark.parametrize(
    ("generations", "until", "is_of_a_moment"),
    [
        (4, 24, True),  # one in four steps: four more say little
        (4, 40, False),  # visits have seen more than the walk
        (15, 24, False),  # one in each step: four more say all
    ],
)
def test_what_comes_now_and_then_grows_as_the_walk_measured(
    generations: int, until: int, is_of_a_moment: bool
):
    known = history(seen(20, 8, 8))
    known.fellows = [fellow()]
    known.generations = generations
    known.growth.pace = Pace(200.0, 2.0, 16, OPTIMIZER)
    known.observe(seen(21, 9, 9))
    known.observe(seen(until, 12, 12))
    assert rates.is_of_a_moment(known, OPTIMIZER) == is_of_a_moment
    assert not rates.is_of_a_moment(known, OPTIMIZER + 1)


def test_what_grows_again_is_looked_at_again():
    """By another statement, maybe."""
    known = history(seen(20, 8, 8))
    known.growth.gained_at = 20
    known.sightings.take_in([Statement("fit.py", 61, "fit", 8, 8, 0)])
    for tick in (21, 60):
        known.observe(seen(tick, 9, 9))
    assert not known.sightings.resumed
    known.observe(seen(61, 10, 10))
    assert known.sightings.resumed
    served = Statement("serve.py", 74, "serve", 2, 2, 0)
    known.sightings.take_in([served])
    assert list(known.sightings.shares) == [("serve.py", 74, "serve")]
    assert not known.sightings.resumed


def test_a_statement_is_sought_again_when_most_came_since():
    """The later one stands for three of the four times its age."""
    known = history(seen(20, 8, 8)).sightings
    first = Statement("serve.py", 51, "warm_up", 3, 3, 0)
    known.end([first], None, 10)
    assert not known.is_wanted(39) and known.is_wanted(40)
    assert known.grown_at is not None and known.grown_at.line == 51
    assert known.elsewhere == 0.0
    second = Statement("serve.py", 54, "search", 1, 1, 0)
    known.end([second], None, 40)
    assert known.grown_at.line == 54
    assert known.elsewhere == pytest.approx(0.25)
    assert not known.is_wanted(159) and known.is_wanted(160)


def test_a_watch_of_what_grows_no_more_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
):
    """Its pace was one item in 40 steps, and slows with each that passes."""
    known = history(seen(40, 1, 1))
    one = SimpleNamespace(generations=1)
    known.held = fellow(visit=7, groups=(one,))
    monkeypatch.setattr(heap, "watch_statement", lambda path, by_graph: True)
    watch = StatementWatch()
    status = cast(Status, SimpleNamespace(now=40, by_turns=False))
    assert watch.begin([known], status)
    for now, lasts in ((90, True), (101, False)):
        known.last = seen(now, 1, 1)
        status.now = now  # type: ignore[misc]
        assert watch._has_lasted(known, status) is not lasts


def test_calls_that_no_position_counts_are_steps_of_a_service():
    """100 of them came before they were steps, and 12 since."""
    status = Status(
        ticks=272,
        position=52,
        counts=Counts(optimizer=40, module=192),
        strongest_until=40,
        strongest_counts=Counts(optimizer=40, module=80),
        kind=STEP_KINDS.index("module call"),
        by_tick=False,
        trained=True,
        boundary_seconds=0.0,
        callback_seconds=0.0,
        tick_seconds=0.0,
        elapsed_seconds=0.0,
        freed_from=0,
        collects=False,
        rises=False,
        silent=False,
        failure=None,
    )
    assert status.stalled == 100
    assert status.span(40, 51) == 112
    assert status.span(45, 51) == 7
    assert status.span(4, 39) == 36


@pytest.mark.parametrize(("came", "carries"), [(9, True), (24, False)])
def test_what_is_read_from_a_checkpoint_outlasts_its_turn(came, carries):
    """A new list of 28 after one of 23, its eldest at the address where the
    old one's was: what its line has made since is 9 of them, or most."""
    known = history(seen(70, 23, 23))
    known.observe(replace(seen(70, 23, 23), eldest=1))
    now = replace(seen(96, 28, 28), eldest=1)
    now = known.told_apart(now, alive(came), none_older)
    known.observe(now)
    assert known.turnover.carries_over == carries
    assert (known.first is known.last) == carries


@pytest.mark.parametrize(("came", "carries"), [(9, True), (24, False)])
def test_copies_of_what_had_gone_with_its_path_are_not_let_go(came, carries):
    known = history(seen(70, 23, 23))
    known.is_gone = True
    known.observe(known.told_apart(seen(96, 28, 28), alive(came), none_older))
    assert known.departures.lets_go != carries


def listed(tick: int, items: int, eldest: int) -> Observation:
    """A list's newest item is the one that is seen first."""
    return replace(seen(tick, items, items), first=100 + tick, eldest=eldest)


def test_a_list_that_fills_again_lets_go_of_nothing_meanwhile():
    known = history(listed(20, 60, 1))
    known.observe(listed(40, 20, 2))
    assert known.departures.lets_go and known.departures.let_go_at == 20
    for tick in (50, 60, 70):
        known.observe(listed(tick, tick - 20, 2))
    assert known.departures.let_go_at == 20


def test_epochs_that_get_longer_let_go_each_time():
    """Each lasts twice as long as the one before: what is kept for so long is
    emptied all the same."""
    known, tick = history(listed(3, 1, 1)), 3
    for epoch, length in enumerate((24, 48, 96, 192), 1):
        for items in range(1, length):
            tick += 1
            known.observe(listed(tick, items, epoch))
    assert known.departures.lets_go and not known.departures.outgrew
    for items in range(200, 800):
        tick += 1
        known.observe(listed(tick, items, epoch))
    assert known.departures.outgrew and not known.departures.lets_go


def test_a_list_that_was_cut_since_is_longer_and_yet_lets_go():
    known = history(listed(20, 60, 1))
    known.observe(listed(40, 20, 2))
    known.observe(listed(50, 30, 3))
    assert known.departures.let_go_at == 40


def test_items_that_a_slice_led_to_first_are_not_measured() -> None:
    """`recent = history[-20:]` was in use at the second walk, which found
    thirty-five of the fifty-five items by the list itself."""
    then = replace(seen(20, 15, 30), ours=15)
    now = replace(seen(60, 55, 70), ours=35)
    each = now.each_since(then)
    assert each is not None
    assert (each["storages"], each["held"]) == (2, 200)
    assert replace(now, ours=15).each_since(then) is None


def test_what_was_in_use_at_the_walk_before_did_not_come_since() -> None:
    """The newest of five items of four tensors was the loop's, too."""
    then = replace(seen(63, 6, 20), ours=5, bytes=1600, freed=16)
    now = replace(seen(123, 11, 40), ours=10, freed=40)
    each = now.each_since(then)
    assert each is not None
    assert (each["freed"], each["bytes"]) == (4, 400)


def test_what_a_step_works_with_at_a_walk_is_no_growth():
    """A report between forward and backward saw a hundred saved tensors."""
    known = history(seen(10, 10, 10))
    for tick in (20, 30):
        known.observe(seen(tick, tick, tick))
    one = [fellow()]
    report = replace(seen(31, 31, 131), at=replace(at(31), ends_step=False))
    known.walked_again(known.held, one, report, in_use=True)
    known.observe(seen(40, 40, 140))
    known.walked_again(known.held, one, seen(41, 41, 41))
    assert rates.rate(known, OPTIMIZER, "storages") == 1


def test_what_came_between_a_walk_and_its_visit_says_of_nothing_that_it_left():
    """Another thread had the interpreter; a list shows its newest first."""
    none = dict.fromkeys(("others_storages", "others_bytes", "bytes"), 0)
    none |= dict.fromkeys(("storages", "nodes", "node_bytes"), 0)
    held = fellow(
        groups=(), shared=False, with_alike=False, together=0, **none
    )
    known = history(replace(seen(20, 20, 20), first=7, eldest=3))
    known.fellows = [held]
    for length in (21, 20):
        visit = Visit("intact", length, 1, 8, 0, eldest=3)
        now = observed([held], visit, at(20), alive(20))
        assert now.lost_some(known.last) == (length == 20)


def test_one_step_s_graph_may_be_larger_than_another_s() -> None:
    """A list of 20 has 200 nodes, 10 of each step; what leads back to the
    steps before has most of these, or gains a part of what all gain."""
    known = history(replace(seen(20, 10, 10), nodes=100, probed={LINE: 10}))
    known.reach = Reach({LINE: 10})
    now = replace(seen(40, 20, 20), nodes=200, probed={LINE: 20})
    known.observe(now)
    assert not known.graph_grows
    known.observe(replace(now, probed={LINE: 100}))
    assert known.graph_grows
    known.observe(replace(now, nodes=900, probed={LINE: 120}))
    assert known.graph_grows


@pytest.mark.parametrize(
    ("items", "nodes"),
    [
        (2, 20),  # half of both is one's own
        (5, 50),  # fewer than it had: it was emptied
        (10, 101),  # as many, of other steps
    ],
)
def test_few_items_of_graphs_that_vary_lead_back_nowhere(
    items: int, nodes: int
) -> None:
    known = history(replace(seen(20, 10, 10), nodes=98, probed={LINE: 10}))
    known.reach = Reach({LINE: 10})
    known.observe(replace(seen(40, items, 10), nodes=nodes, probed={LINE: 11}))
    assert not known.graph_grows


@pytest.mark.parametrize(("oldest", "grows"), [(35, False), (3, True)])
def test_a_window_of_ever_larger_graphs_leads_back_nowhere(
    oldest: int, grows: bool
) -> None:
    """Eight items with four saved tensors each."""
    known = history(replace(seen(20, 8, 8), nodes=80))
    known.reach = Reach(found=20)
    known.fellows = [fellow(groups=(SimpleNamespace(count=40, first=oldest),))]
    known.observe(replace(seen(43, 8, 8), nodes=160))
    assert known.graph_grows == grows


@pytest.mark.parametrize("shared", [False, True])
def test_what_others_have_of_the_same_is_no_gain(shared: bool) -> None:
    """What cutting all that hold it would free grows as the others do."""
    before = replace(seen(10, 20, 20), nodes=100, shared=shared)
    later = replace(seen(20, 20, 20), nodes=300, shared=shared)
    assert later.exceeds(before) == (not shared)
    assert later.has_more_nodes(before) == (not shared)
    assert Reach().grows(before, later, by_graph=True) == (not shared)


def test_what_lines_had_put_there_before_they_were_suspect_is_no_growth():
    """The first walk knew of one line's parameters, the second of their
    state and gradients, too."""
    before = replace(seen(10, 20, 16), ours=16, bytes=9000, probed={1: 0})
    lines = {1: 0, 2: 0, 3: 0}
    later = replace(seen(20, 28, 96), ours=24, bytes=9800, probed=lines)
    each = later.each_since(before)
    assert each is not None
    assert (each["storages"], each["bytes"]) == (4, 100)
    between = seen(14, 24, 32).measured(before, later)
    assert (between.storages, between.bytes) == (80, 9400)
    # Of the same lines what came is what was counted.
    later = replace(later, probed=before.probed)
    each = later.each_since(before)
    assert each is not None and each["storages"] == 10


def test_of_a_graph_that_something_else_has_in_part_all_that_comes_is_ours():
    """Thirty-one nodes, of which a mean that was printed has twenty."""
    walked = replace(
        seen(31, None, 1),
        nodes=11,
        node_bytes=1100,
        probed={LINE: 31},
        graph=1,
    )
    visit = replace(walked, at=at(77), probed={LINE: 77})
    grown = scaled(visit, walked, [fellow()], alive(1), alive(1), True)
    assert (grown.nodes, grown.node_bytes) == (57, 5700)


def test_one_more_that_is_alike_is_nothing_that_left():
    """`by_length[3]` gets its first item, and what has the most is named
    first; then both are visited in another order."""
    one, other = (Visit("intact", 20, 0, n, 0, eldest=n) for n in (7, 8))
    known = history(replace(seen(20, 20, 20), first=7, eldest=7))
    known.fellows = [fellow()]
    both = heap.as_one([one, other])
    now = replace(seen(31, 40, 40), first=both.first, eldest=both.eldest)
    known.walked_again(known.held, [fellow(), fellow()], now)
    again = heap.as_one([other, one])
    now = replace(seen(40, 41, 41), first=again.first, eldest=again.eldest)
    known.observe(now)
    assert not known.departures.lets_go and not known.departures.let_go_at
    known.observe(replace(seen(50, 41, 41), first=3, eldest=3))
    assert known.departures.lets_go


def test_a_walk_that_measures_less_of_a_growing_graph_counts_anew():
    first = replace(seen(16, None, 1), nodes=16, probed={LINE: 16}, graph=1)
    known = history(first)
    known.fellows = [fellow()]
    now = replace(seen(31, None, 1), nodes=11, probed={LINE: 31}, graph=1)
    known.observe(replace(first, at=at(24), nodes=24, probed={LINE: 24}))
    known.walked_again(known.held, known.fellows, now)
    assert known.first.at.tick == 31


@pytest.mark.parametrize(
    ("nodes", "grows"),
    [
        ([8, 13], True),
        ([8, 13, 8, 13], False),  # the line makes two kinds of tensors
        ([8, 13, 8, 20], True),
        ([8, 13, 5, 14, 5, 15], True),  # one of them is carried on
        ([13, 8], False),
    ],
)
def test_a_graph_that_is_now_larger_now_smaller_does_not_grow(nodes, grows):
    known = history(replace(seen(20, 5, 5), probed={LINE: nodes[0]}))
    known.reach.probed = known.first.probed
    for step, count in enumerate(nodes[1:], 21):
        known.observe(replace(seen(step, 5, 5), probed={LINE: count}))
    assert known.graph_grows == grows


@pytest.mark.parametrize(("nodes", "grows"), [(252, False), (264, True)])
def test_the_graph_of_the_newest_item_may_have_been_in_use(nodes, grows):
    """Twelve losses of 21 nodes each: of the newest one's, 12 were some other
    variable's as well, when a walk came in the middle of its step."""
    known = history(replace(seen(16, 12, 12), nodes=240))
    known.observe(replace(seen(108, 12, 12), nodes=nodes))
    assert known.graph_grows == grows


def test_items_of_the_warm_up_came_in_no_step_that_counts():
    """Three of sixteen: their nodes are in what the walk has measured."""
    walked = replace(seen(16, 16, 32), ours=13, node_bytes=16_000)
    known = history(walked)
    known.growth.pace = Pace(0.0, 0.0, 13, OPTIMIZER)
    assert rates.nodes_as_walked(known) == 1000


def test_a_graph_has_grown_until_a_probe_last_saw_that():
    """Twelve nodes a step came until step 29, of which all is known."""
    walked = replace(
        seen(20, None, 1), nodes=200, node_bytes=2000, probed={LINE: 200}
    )
    known = history(walked)
    known.recurs = True
    further = {"nodes": 308, "node_bytes": 3080, "probed": {LINE: 308}}
    known.observe(replace(walked, at=at(29), **further))
    known.observe(replace(walked, at=at(40), **further))
    assert rates.rate(known, OPTIMIZER, "node_bytes") == 120


def with_items(tick: int, ours: int, storages: int) -> Observation:
    """150 items, of which so many have something."""
    return replace(seen(tick, 150, storages), ours=ours)


@pytest.mark.parametrize(
    ("ours", "storages", "fills"),
    [
        (60, 120, True),  # two to each that had none
        (40, 120, False),  # more and more to those that have some
        (30, 60, True),  # nothing since: it is as it was
    ],
)
def test_what_gives_each_of_its_items_one_thing_fills_up(
    ours: int, storages: int, fills: bool
):
    known = history(with_items(16, 12, 24))
    for walk in (with_items(30, 30, 60), with_items(60, ours, storages)):
        known.walked_again(known.held, [fellow()], walk)
    assert known.turnover.fills == fills


@pytest.mark.parametrize(
    ("before", "items"),
    [
        # Another of them stands for all.
        ([fellow(owners=(1,), place="rows[1]", others=2)], 40),
        # One does, where each was looked at.
        ([fellow(owners=(n,), place=f"rows[{n}]") for n in range(1, 4)], 90),
    ],
)
def test_of_lists_that_are_alike_none_let_go(before: list[Held], items: int):
    known = history(seen(16, items, 90))
    known.fellows, known.alike = before, 3
    one = fellow(owners=(9,), place="rows[9]", others=2)
    known.walked_again(known.held, [one], seen(30, 35, 120))
    assert not known.departures.lets_go
    known.walked_again(known.held, [one], seen(40, 20, 60))
    assert known.departures.lets_go  # the same one


def test_what_is_found_by_another_way_fills_nothing_up():
    """By what else leads there, where the holder has become garbage."""
    known = history(with_items(16, 150, 450))
    known.walked_again(known.held, [fellow()], with_items(30, 150, 440))
    assert not known.turnover.fills


def test_what_the_last_walk_has_found_is_as_old_as_it_was_made():
    """Step 150 was the last that brought something; nobody saw that."""
    known = history(with_items(60, 57, 114))
    last = with_items(380, 147, 294)
    known.walked_again(known.held, [fellow()], last, 150)
    assert known.growth.gains == 1 and known.growth.gained_at == 150
    assert known.overdue()


def test_a_tensor_that_is_made_longer_now_and_then_grows_from_time_to_time():
    """By 384 B at every fifteenth step, of which the first look saw none."""
    sizes = {105: 3840, 119: 3840, 120: 4224, 125: 4224}
    known = history(tensor(104, 3456, held=3456))
    for tick, size in sizes.items():
        known.observe(tensor(tick, size, held=size))
    assert known.growth.gains == 2
    assert rates.rate(known, OPTIMIZER, "held") == 384 / 15


@pytest.mark.parametrize(
    ("items", "counted", "at_tick", "stopped"),
    [
        (40, 40, 40, True),
        (40, 38, 40, True),
        (40, 40, 41, False),
        (80, 40, 40, False),
    ],
)
def test_what_nothing_came_to_until_the_end_has_stopped(
    items: int, counted: int, at_tick: int, stopped: bool
) -> None:
    """A visit comes long after the last gain, the end long after the visit;
    what has more items than its lines have made may have gained of others.  A
    walk does not count what the warm-up has made."""
    known = history(seen(20, 8, 8))
    known.observe(replace(seen(90, items, counted), alive=40))
    if known.gains_by_births:
        known.growth.was_made(62)
    assert not known.overdue()
    known.lasts(at(100), at_tick)
    assert known.overdue() is stopped


def test_what_other_lines_make_came_after_it_was_seen_with_less() -> None:
    known = history(seen(20, 8, 8))
    for tick, items in ((90, 40), (120, 50)):
        known.observe(seen(tick, items, items))
        known.growth.was_made(40)
    assert known.growth.gained_at == 90


def test_what_a_run_has_left_the_next_walk_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it was to free all of it: what has stayed once is a leak, however
    many runs like that one come."""
    known = history(seen(20, None, 4))
    known.held = cast(
        Held, SimpleNamespace(cycle=object(), forever=False, eldest=20)
    )
    known.fellows = (known.held,)
    known.runs = (3, 3, 0)
    runs = known.runs
    monkeypatch.setattr(heap, "collections", lambda: runs)

    def waits(freed_from: int | None, tick: int, now: int = 60) -> bool:
        known.turnover.walked = seen(tick, None, 4)
        status = SimpleNamespace(
            freed_from=freed_from, collects=True, now=now
        )
        return waits_for_a_run(known, cast(Status, status), None)

    assert waits(10, 20)  # it is younger than the newest run
    runs = (3, 4, 0)
    assert waits(25, 20)
    assert not waits(25, 30)
    runs = (3, 9, 0)
    assert not waits(40, 30)
    assert waits(None, 50)  # another may come: nobody knows when
    assert not waits(None, 70, now=96)
    assert waits(None, 50)
    runs = (3, 9, 1)
    assert waits(0, 50)
    assert not waits(0, 60)


@pytest.mark.parametrize(
    ("members", "in_turn", "items", "come"),
    [
        (3, True, 12, True),
        (2, True, 12, False),  # too few
        (3, False, 12, False),  # at one time
        (3, True, 8, False),  # one has less since
    ],
)
@pytest.mark.parametrize("item", [False, True])
def test_what_comes_in_turn(
    members: int, in_turn: bool, items: int, come: bool, item: bool
) -> None:
    """In a call each; in a list of all of them it is the list that grows."""
    known = history(seen(20, 12, 12))
    kind = "index" if item else "attribute"
    path = Path("run()", (Edge(kind, "queue", "deque", ".queue"),))
    known.held = fellow(
        root="frame",
        path=path,
        depth=1,
        sort=Sort(members, 9, 1, 9, in_turn),
    )
    known.last = seen(30, items, items)
    assert leaving.come_in_turn(known, 3) == (come and not item)


def test_what_leaves_the_newest_of_many_is_not_what_all_of_them_have():
    left = Departures(88)

    def let_go(now: Observation, before: Observation) -> None:
        left.observe(now, before, graph_grows=False, alike=22)

    let_go(seen(30, 87, 87), seen(20, 88, 88))
    assert left.lets_go and left.of_one
    let_go(seen(40, 4, 4), seen(30, 87, 87))
    assert left.lets_go and not left.of_one
