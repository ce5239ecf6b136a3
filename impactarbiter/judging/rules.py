"""Verdicts: what one look at a holder says, and what two of them prove.

Each look at a suspect leaves an observation of its holder.  Growth between
two of them, some steps apart, confirms a leak; a bound in the holder's type,
or a reset that was seen, makes it a cache or an accumulation instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import ledger
from ..model.finding import Finding
from ..model.words import BOUNDED

#: Steps between the two looks that confirm a leak.
LOOK_GAP = 4
#: Steps that a holder must have gathered for before a run that goes on calls
#: it a leak: a buffer or cache that is nearly full gets the time to show it.
PATIENCE = 13
#: By how much the cost of a full ring varies as its items are replaced.
VARIATION = 0.1
#: Storages on the graph of one item that make it reach back over steps.
DEEP = 16
#: Collections that freed what hung on cycles of one line: the next one comes
#: in good time, too.
GOOD_TIME = 2
#: What comes more rarely than every so manieth step (a model for each fold)
#: and is less than so many bytes may wait for the collector.
SELDOM = 4
FEW_BYTES = 100 << 20
#: Purposes of storages that a model or its optimizer is made of.
EXPLAINED = frozenset({"parameters", "buffers", "optimizer_state"})
#: A reset stands for a habit until this many times its period has passed.
RESET_PERIODS = 3


@dataclass(frozen=True)
class Observation:
    """What a look saw of one holder; ``items`` is -1 for no container.

    ``held`` are the bytes of what the suspects' lines have put there,
    ``bytes`` all that cutting it would free; ``oldest`` and ``newest`` the
    steps that what is there was born in.
    """

    step: int
    oldest: int
    newest: int
    items: int
    storages: int
    held: int
    bytes: int
    nodes: int
    node_bytes: int
    by_graph: bool  # over the graph of what the holder has

    @classmethod
    def of(cls, keepers: Sequence[dict[str, Any]], step: int) -> Observation:
        """From keepers as the C core describes them.

        Several are siblings (``history[0]``, ``history[1]``): one holder.
        """
        groups = [group for keeper in keepers for group in keeper["groups"]]
        lengths = [keeper["holder"]["length"] for keeper in keepers]
        costs = [keeper["cost"] for keeper in keepers]
        return cls(
            step=step,
            oldest=min(group["first"] for group in groups),
            newest=max(group["last"] for group in groups),
            items=sum(lengths) if min(lengths) >= 0 else -1,
            storages=sum(group["count"] for group in groups),
            held=sum(group["bytes"] for group in groups),
            bytes=sum(cost["bytes"] for cost in costs),
            nodes=sum(cost["nodes"] for cost in costs),
            node_bytes=sum(cost["node_bytes"] for cost in costs),
            by_graph=any(map(_leads_through_graph, keepers)),
        )

    @property
    def is_state(self) -> bool:
        """Whether it is a few results with a graph that reaches far back."""
        return self.by_graph and self.storages > DEEP * max(self.items, 1)

    @property
    def span(self) -> int:
        """Steps that what is there reaches back."""
        return self.step - self.oldest

    def exceeds(self, older: Observation) -> bool:
        """Whether the holder has gained anything since."""
        if self.items > older.items:
            return True
        # As many of new steps in place of old ones are no growth, and what
        # they cost varies a little.
        replaced = self.items >= 0 and self.oldest > older.oldest
        if self.storages > older.storages and (
            self.items < 0 or self.is_state
        ):
            return True
        least = 1 + VARIATION if replaced else 1
        return (
            self.nodes > least * older.nodes
            or self.bytes > least * older.bytes
        )


@dataclass
class Suspicion:
    """All that is remembered of one holder between looks."""

    site: int
    began: int  # the step since which it gathers
    first: Observation
    last: Observation
    confirmed_at: int | None = None
    announced: str | None = None  # the verdict that was told
    explained: bool = False  # what a model or its optimizer is made of
    provisional: bool = False  # all of it seen while steps were guessed
    finding: Finding | None = None
    grew_at: int = 0  # the last look that saw it grown
    reach: int = 0  # the longest span so far
    lets_go: bool = False  # all of it was seen replaced

    def observe(self, now: Observation) -> None:
        """Takes in a new look."""
        before, self.last = self.last, now
        if now.exceeds(before) or before is now:
            self.grew_at = now.step
        if now.items >= 0 and now.oldest > before.newest:
            # A list that is cleared each epoch, a window that moves on.
            if now.span <= self.reach:
                self.lets_go = True
                self.confirmed_at = None
            self.first = now
        elif self.lets_go and now.span > RESET_PERIODS * self.reach:
            self.lets_go = False
        self.reach = max(self.reach, now.span)

    def restart(self) -> None:
        """Growth counts from the last look on: it has just become full."""
        self.first = self.last

    @property
    def stopped(self) -> bool:
        """Whether it has not grown for long, for the pace it had."""
        pause = self.last.step - self.grew_at
        return pause > max(PATIENCE, (self.grew_at - self.began) // 2)

    def items_per_step(self) -> float | None:
        """Growth of the container since the first look; None before."""
        steps = self.last.step - self.first.step
        if steps <= 0 or self.first.items < 0 or self.last.items < 0:
            return None
        return (self.last.items - self.first.items) / steps

    def rates(self) -> tuple[float, float] | None:
        """Bytes and storages per step since the first look; None before."""
        steps = self.last.step - self.first.step
        if steps <= 0:
            return None
        held = self.last.held - self.first.held
        storages = self.last.storages - self.first.storages
        return max(held, 0) / steps, max(storages, 0) / steps

    def node_bytes_per_step(self) -> float:
        """Growth of the graph's nodes since the first look, in bytes."""
        steps = self.last.step - self.first.step
        gained = self.last.node_bytes - self.first.node_bytes
        return max(gained, 0) / steps if steps > 0 else 0.0

    def graph_grew(self) -> bool:
        """Whether the graph gained nodes while the holder gained nothing."""
        return (
            self.last.nodes > self.first.nodes
            and self.last.items <= self.first.items
        )


def _leads_through_graph(keeper: dict[str, Any]) -> bool:
    below = keeper["path"][3][keeper["holder_depth"] :]
    return any(edge[0] == "grad_fn" for edge in below)


def judge(
    suspicion: Suspicion,
    keeper: dict[str, Any],
    past: dict[str, Any],
    room: int | None,
    provisional: bool,
    patience: int = 0,
) -> str | None:
    """The verdict after the look that ``suspicion.last`` holds; None where
    it is not worth a word.

    ``past`` is the site's, ``room`` the bytes that are
    left, ``provisional`` says that steps are guessed just now: nothing is
    confirmed then.  ``patience``: steps that it must have gathered for.
    """
    suspicion.explained = keeper["purpose"] in EXPLAINED
    suspicion.provisional &= provisional
    root = keeper["path"][0]
    settled = "leak"
    if root in ("cycle", "native", "outside"):
        settled = "cycle" if keeper["cycle"] else "native"
        if settled == "cycle" and ledger.status().collector:
            if past["resets"] >= GOOD_TIME and not keeper["forever"]:
                return "accumulation"
            if _can_wait(keeper):
                return None
    elif not suspicion.graph_grew() and _fits(keeper, room):
        if 0 <= suspicion.first.items < keeper["holder"]["bound"]:
            suspicion.restart()
        return "cache"
    elif suspicion.lets_go or _was_reset(suspicion, past):
        return "accumulation"
    if suspicion.confirmed_at is None and not provisional:
        now = suspicion.last
        if (
            now.step - suspicion.first.step >= LOOK_GAP
            and now.step - suspicion.began >= patience
            and now.exceeds(suspicion.first)
            and not (now.items >= 0 and _overdue(keeper, past, now.step))
        ):
            suspicion.confirmed_at = now.step
    return settled if suspicion.confirmed_at is not None else "growing"


def _can_wait(keeper: dict[str, Any]) -> bool:
    """Whether a cycle is too little to speak of before it is collected."""
    few: bool = keeper["cost"]["bytes"] < FEW_BYTES
    return few and _pace(keeper) >= SELDOM and not keeper["forever"]


def _pace(keeper: dict[str, Any]) -> float:
    """Steps from one generation to the next."""
    spread = max(g["last"] - g["first"] for g in keeper["groups"])
    turns = max(g["generations"] for g in keeper["groups"])
    pace: float = spread / max(turns - 1, 1)
    return pace


def _overdue(keeper: dict[str, Any], past: dict[str, Any], step: int) -> bool:
    """Whether a container has missed its last turn to grow."""
    return bool(step - past["last_high"] > 1.5 * _pace(keeper))


def _fits(keeper: dict[str, Any], room: int | None) -> bool:
    """Whether the holder has a bound that memory can hold."""
    bound, length = keeper["holder"]["bound"], keeper["holder"]["length"]
    if bound is None:
        return False
    cost = keeper["cost"]
    held = cost["bytes"] + cost["node_bytes"]
    count = (
        length
        if length > 0
        else sum(group["count"] for group in keeper["groups"])
    )
    if room is None or count <= 0:
        return True
    missing: float = max(bound - count, 0) * held / count
    return missing <= room


def _was_reset(suspicion: Suspicion, past: dict[str, Any]) -> bool:
    """Whether its line lets go now and then, and this holder with it."""
    now = suspicion.last
    return _resets(past, now.step) and now.oldest >= past["last_reset"] - 1


def _resets(past: dict[str, Any], step: int) -> bool:
    """Whether what gathers is let go now and then."""
    if past["resets"] == 0:
        return False
    period = past["last_reset"] / past["resets"]
    return bool(step - past["last_reset"] <= RESET_PERIODS * period)


def due(suspicion: Suspicion, finding: Finding) -> int:
    """The step whose look can settle a ``growing`` finding."""
    # Not before it should have grown again at its own pace.
    spread = finding.last_step - finding.first_step
    pace = spread / max(finding.generations - 1, 1)
    return max(
        suspicion.first.step + LOOK_GAP,
        suspicion.began + PATIENCE,
        suspicion.last.step + int(1.5 * pace) + 1,
    )


def settled_by(suspicion: Suspicion, offset: int) -> str:
    """What would confirm a ``growing`` finding."""
    step = max(suspicion.first.step + LOOK_GAP, suspicion.began + PATIENCE)
    if suspicion.last.step >= step:
        last = suspicion.last.step - offset + 1
        return f"growth at a later look: at step {last} there was none"
    return f"a look after step {step - offset} that finds the holder grown"


def _collected(past: dict[str, Any], offset: int) -> str:
    if past["last_reset"]:
        step = past["last_reset"] - offset + 1
        return f"the collector freed what there was by step {step}"
    return "released by now"


def afterwards(
    suspicion: Suspicion,
    past: dict[str, Any],
    step: int,
    offset: int,
    last_look: int,
) -> Finding | None:
    """The finding of a holder that is no suspect any more.

    What grew up to the last step was dropped by the program's end: it
    stands, with the figures of the last look.  What stopped growing before
    is taken back to what it turned out to be; None where it was never
    confirmed, or was gone at the run's last look (a step) already.
    """
    finding = suspicion.finding
    if finding is None:
        return None
    if suspicion.confirmed_at is None and suspicion.last.step < last_look:
        return None
    seen = suspicion.last.step - offset
    resets = _resets(past, step)
    grows = past["growing"] and not suspicion.stopped
    if (
        finding.verdict == "cycle"
        and suspicion.confirmed_at is not None
        and past["resets"] < GOOD_TIME
    ):
        return replace(finding, severity="info", note=_collected(past, offset))
    if grows and not resets and finding.verdict not in BOUNDED:
        if suspicion.provisional:
            return None
        return replace(
            finding, note=f"released by now: figures as of step {seen}"
        )
    if suspicion.confirmed_at is None or suspicion.explained:
        return None
    last = suspicion.grew_at - offset + 1
    verdict = "accumulation" if resets or suspicion.lets_go else "cache"
    return replace(
        finding,
        verdict=verdict,
        severity="info",
        steps_to_oom=None,
        seconds_to_oom=None,
        note=f"but has not since step {last}",
    )
