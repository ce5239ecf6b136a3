"""From suspects to findings: when to look, what to make of a look.

A look is one walk over the heap.  A suspect is looked at when it appears and
once more some steps later; settled ones ever more rarely, so that the
figures of a program that ends are not too old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import _core
from ..base.units import plural
from ..core import devices, hooks, ledger, questions
from ..core.sources import environment, site_of, stack_of
from ..core.wire import Status, Totals, cycle_of, graph_of, path_of
from ..knowledge.advice import advise
from ..model.finding import Cycle, Finding, Holder, TensorExample
from ..model.path import Path
from ..model.report import Cost, History, Report
from ..model.words import BOUNDED
from .allowlist import AllowList, is_allowed_object
from .forecast import Forecast
from .masks import obfuscated
from .patches import patch_of
from .rules import (
    LOOK_GAP,
    PATIENCE,
    Observation,
    Suspicion,
    afterwards,
    due,
    judge,
    settled_by,
)
from .severity import DEFAULT_RULES
from .statement import grown_at

#: Bits of a suspect's ``kinds``, as criterion.h has them.
GROWS_COUNT, GROWS_BYTES, GROWS_GRAPH, GROWS_CYCLES = 1, 2, 4, 8

#: Roots that are no place of the program's.
ROOTLESS = frozenset({"cycle", "native", "outside"})
#: A keeper as ``_core.diagnose`` describes it, and in words.
Seen = tuple[dict[str, Any], Finding]

#: Looks that are made in any case, and the share of the run that further
#: ones may take.
FREE_LOOKS = 6
LOOK_SHARE = 0.005


@dataclass
class Diagnostician:
    """Makes findings of one watched run."""

    warmup: int
    window: int
    allow: AllowList
    obfuscate: bool
    on_finding: Callable[[Finding], object] | None
    memory_limit: int | None
    phases: Sequence[str]
    _seen: dict[str, Suspicion] = field(default_factory=dict)
    _kinds: dict[int, int] = field(default_factory=dict)
    _names: dict[tuple[int, str], str] = field(default_factory=dict)
    _looks: int = 0
    _last_look: int = 0
    _answer: dict[str, Any] | None = None
    _callback_failed: str | None = None
    _busy: Any = field(default_factory=threading.Lock)
    _failures: Callable[[], int] = field(
        default_factory=questions.failures_from_now
    )

    # -- looks ------------------------------------------------------------

    def look(self, step: int) -> None:
        """Called at a boundary where a look is due."""
        if not self._busy.acquire(blocking=False):
            hooks.look_at(step + LOOK_GAP)
            return
        try:
            self._look(step)
        finally:
            self._busy.release()

    def _look(self, step: int) -> None:
        status = ledger.status()
        if self._looks >= FREE_LOOKS:
            pause = self._pause(status)
            if pause > 0:
                hooks.look_at(step + max(LOOK_GAP, pause))
                return
        findings = self._diagnose(step, status.provisional, PATIENCE)
        self._last_look = step
        unsettled = [
            due(self._seen[finding.signature], finding)
            for finding in findings
            if finding.verdict == "growing"
        ]
        hooks.look_at(max(min(unsettled, default=2 * step), step + LOOK_GAP))
        self._announce(findings)

    def _pause(self, status: Status) -> int:
        """Steps until the run is long enough for another look."""
        needed = status.callback_seconds / LOOK_SHARE
        missing = needed - status.elapsed_seconds
        return int(missing / max(status.step_seconds, 1e-6))

    def _announce(self, findings: Sequence[Finding]) -> None:
        """Tells ``on_finding`` of each settled finding, once.

        What was said to be bounded and then leaks is told again.
        """
        for finding in findings:
            suspicion = self._seen[finding.signature]
            told, verdict = suspicion.announced, finding.verdict
            worse = told in BOUNDED and verdict not in BOUNDED
            if verdict == "growing" or not (told is None or worse):
                continue
            suspicion.announced = verdict
            if self.on_finding is None:
                continue
            try:
                self.on_finding(finding)
            except Exception as error:
                self._callback_failed = f"{type(error).__name__}: {error}"

    def confirmed(self) -> list[Finding]:
        """What the looks so far have settled as growth without a bound."""
        found = [s.finding for s in tuple(self._seen.values())]
        return [f for f in found if f is not None and f.confirmed]

    def _diagnose(
        self, step: int, provisional: bool, patience: int = 0
    ) -> list[Finding]:
        suspects = self._suspects()
        if not suspects:
            self._answer = None
            return []
        # Growth without more storages may be that of an old one.
        any_age = [
            i for i, s in suspects.items() if not s["kinds"] & GROWS_COUNT
        ]
        answer = self._answer = _core.diagnose(list(suspects), any_age)
        self._looks += 1
        look = Look(
            step=step,
            offset=ledger.status().offset,
            provisional=provisional,
            patience=patience,
            suspects=suspects,
            keepers=answer["keepers"],
            forecast=Forecast(self.memory_limit),
        )
        findings = []
        for signature, siblings in self._holders(look).items():
            finding = self._finding(look, signature, siblings)
            if finding is not None:
                self._seen[signature].finding = finding
                findings.append(finding)
        return findings

    def _suspects(self) -> dict[int, dict[str, Any]]:
        """Sites to look at, by number.

        Where a leak was confirmed, its line is looked at even when it sets
        no new high: another holder on that line may have let go.
        ``kinds`` are all that the site ever was suspected of, ``now`` says
        whether it is suspect by itself.
        """
        grows = GROWS_COUNT | GROWS_BYTES | GROWS_GRAPH
        found = {
            s["site"]: {**s, "now": True}
            for s in _core.suspects()
            if s["kinds"] & grows
        }
        for suspicion in self._seen.values():
            if suspicion.confirmed_at and suspicion.site not in found:
                trend = _core.site_trend(suspicion.site)
                if trend is not None:
                    found[suspicion.site] = {**trend, "now": False}
        for site, suspect in found.items():
            suspect["kinds"] |= self._kinds.get(site, 0)
            self._kinds[site] = suspect["kinds"]
        return found

    def _holders(self, look: Look) -> dict[str, list[Seen]]:
        """What the walk found, by signature: siblings are one holder."""
        holders: dict[str, list[Seen]] = {}
        for keeper in look.keepers:
            if keeper["purpose"] == "optimizer_state":
                continue  # of an optimizer that steps, for its parameters
            finding = look.describe(keeper, self.phases)
            holders.setdefault(finding.signature, []).append((keeper, finding))
        for signature, siblings in holders.items():
            self._recognise(signature, siblings[0][0], holders)
        return holders

    def _recognise(
        self, signature: str, keeper: dict[str, Any], present: Collection[str]
    ) -> None:
        """A container that goes by another name now is the one it was."""
        if keeper["holder"]["length"] < 0 or keeper["path"][0] in ROOTLESS:
            return
        place = keeper["holder"]["owners"][0], keeper["holder"]["type"]
        before = self._names.get(place, signature)
        self._names[place] = signature
        if (
            before != signature
            and before not in present
            and signature not in self._seen
            and before in self._seen
        ):
            self._seen[signature] = self._seen.pop(before)

    # -- one finding ------------------------------------------------------

    def _finding(
        self, look: Look, signature: str, siblings: Sequence[Seen]
    ) -> Finding | None:
        """The finding of one holder; None where it is explained."""
        # The sibling that grows stands for all.
        keeper, finding = max(siblings, key=lambda seen: seen[1].last_step)
        known = self._seen.get(signature)
        if known is None and not look.is_suspect(keeper):
            return None
        finding = replace(finding, grown_at=grown_at(finding))
        if not look.is_credible(keeper, finding):
            return None
        path = finding.path
        types = [edge.type for edge in path.edges] if path else []
        if is_allowed_object(
            keeper["holder"]["owners"], path
        ) or self.allow.covers(finding, types):
            return None
        keepers = [sibling for sibling, _finding in siblings]
        now = Observation.of(keepers, look.step)
        if known is None:
            known = self._seen[signature] = Suspicion(
                keeper["site"],
                look.began(keeper),
                now,
                now,
                provisional=look.provisional,
                reach=now.span,
            )
        suspicion = known
        # Where the line sets no new high, what replaces its oldest is full.
        turns = not look.is_suspect(keeper) and now.oldest > known.last.oldest
        suspicion.observe(now)
        if suspicion.stopped or turns:
            return None
        verdict = judge(
            suspicion,
            keeper,
            _core.past(keeper["site"]),
            look.forecast.room_of(finding),
            look.provisional,
            look.patience,
        )
        if verdict is None:
            return None
        finding = _joined([sibling for _keeper, sibling in siblings], finding)
        holder = finding.holder
        if holder is not None:
            per_step = suspicion.items_per_step()
            holder = replace(holder, growth_per_step=per_step)
        # The holder's own growth, where two looks have measured it.
        rates = suspicion.rates()
        if rates is not None:
            size, count = rates
            finding = replace(
                finding, bytes_per_step=size, tensors_per_step=count
            )
        finding = replace(
            finding,
            verdict=verdict,
            holder=holder,
            graph_bytes_per_step=suspicion.node_bytes_per_step(),
            confirmed_step=None
            if suspicion.confirmed_at is None
            else suspicion.confirmed_at - look.offset + 1,
            confirmation=settled_by(suspicion, look.offset)
            if verdict == "growing"
            else None,
        )
        finding = look.forecast.apply(finding)
        finding = replace(finding, advice=advise(finding))
        return DEFAULT_RULES.grade(
            finding, DEFAULT_RULES.horizon(look.step - look.offset)
        )

    # -- the report -------------------------------------------------------

    def report(self) -> Report:
        """Looks once more and puts everything together.

        While a look is being made, by this thread or another, it gives what
        the looks before have settled.
        """
        if not self._busy.acquire(blocking=False):
            return Report(
                findings=tuple(self.confirmed()),
                warnings=("a look was just being made: no figures of now",),
            )
        try:
            return self._report()
        finally:
            self._busy.release()

    def _report(self) -> Report:
        ledger.refresh()
        status = ledger.status()
        # A look comes at the end of a step, before the next one is counted.
        step = max(status.steps - 1, 0)
        findings = self._diagnose(step, status.provisional)
        self._announce(findings)
        gone = self._gone({f.signature for f in findings}, status)
        taken_back = [f for f in gone if f.verdict in BOUNDED]
        released = [f for f in gone if f.verdict not in BOUNDED]
        # What a leak has just let go may hang on a cycle for its last look.
        sites = {self._seen[f.signature].site for f in released}
        findings = released + [
            f
            for f in findings
            if f.verdict != "growing"
            or f.path is None
            or not f.path.root.startswith("<")
            or self._seen[f.signature].site not in sites
        ]
        # Not before: making one takes time and leaves garbage.
        findings = [
            replace(f, patch=patch_of(f)) if f.verdict == "leak" else f
            for f in findings
        ]
        totals = ledger.totals()
        points = ledger.history()
        report = Report(
            findings=tuple(findings),
            taken_back=tuple(taken_back),
            steps=status.steps - status.offset,
            live_bytes=totals.live_bytes,
            peak_bytes=totals.peak_bytes,
            accounted=self._accounted(totals),
            cost=self._cost(status, totals),
            warnings=tuple(self._warnings(status, totals)),
            environment=environment(),
            history=History(
                tuple(p.step for p in points),
                tuple(p.live_bytes for p in points),
            ),
            memory_limit=Forecast(self.memory_limit).limit,
            needed_steps=self.warmup + self.window,
            devices=devices.memory(),
        )
        return obfuscated(report) if self.obfuscate else report

    def _gone(self, present: Collection[str], status: Status) -> list[Finding]:
        """Findings of holders that are no suspects any more."""
        found = []
        for signature, suspicion in self._seen.items():
            if signature in present:
                continue
            finding = afterwards(
                suspicion,
                _core.past(suspicion.site),
                status.steps,
                status.offset,
                self._last_look,
            )
            if finding is not None:
                found.append(finding)
        return found

    def _accounted(self, totals: Totals) -> dict[str, int]:
        """Live bytes by what they are for; the sum is ``live_bytes``."""
        answer = self._answer or _core.diagnose([], [])
        known = dict(answer["purposes"])
        known["findings"] = known.pop("claimed")
        known["allowed"] = totals.allowed_bytes
        known.pop("other")
        known["other"] = max(totals.live_bytes - sum(known.values()), 0)
        return known

    def _cost(self, status: Status, totals: Totals) -> Cost:
        steps = status.steps - status.offset
        spent = status.boundary_seconds + totals.hook_seconds
        walk = self._answer["seconds"] if self._answer else None
        return Cost(
            ms_per_step=1e3 * spent / steps if steps else None,
            last_walk_ms=None if walk is None else 1e3 * walk,
            ledger_bytes=totals.ledger_bytes,
            looks=self._looks,
            looks_ms=1e3 * status.callback_seconds,
        )

    def _warnings(self, status: Status, totals: Totals) -> list[str]:
        said = []
        if status.failure:
            said.append(f"watching ended early: {status.failure}")
        if totals.lost:
            said.append(
                f"{totals.lost} storages could not be recorded:"
                " memory was short"
            )
        failures = self._failures()
        if failures:
            said.append(
                f"{plural(failures, 'look')} at objects of torch's had to be"
                " given up: what they lead to may be missing"
            )
        if self._callback_failed:
            said.append(f"on_finding raised {self._callback_failed}")
        if self._answer is not None and not self._answer["graph"]:
            said.append(
                "another thread was busy in torch during the last look: the"
                " autograd graph was left out of it"
            )
        for rule, error in self.allow.failed.items():
            said.append(f"allow rule {rule} raised {error}")
        said += devices.said()
        for rule in self.allow.dead():
            said.append(f"allow rule {rule} matched nothing")
        return said


# -- one look ----------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """A walk's answer, and how its sites' growth is parted."""

    step: int
    offset: int
    provisional: bool
    patience: int
    suspects: dict[int, dict[str, Any]]
    keepers: list[dict[str, Any]]
    forecast: Forecast

    def describe(
        self, keeper: dict[str, Any], phases: Sequence[str]
    ) -> Finding:
        """What the walk says of one holder, before any verdict."""
        cost, groups = keeper["cost"], keeper["groups"]
        path = path_of(keeper["path"])
        held = Path(path.root, path.edges[: keeper["holder_depth"]])
        length = keeper["holder"]["length"]
        size, count = self._rates(keeper)
        return Finding(
            verdict="growing",
            allocated_at=site_of(keeper["site"]),
            path=path,
            holder=Holder(
                expression=str(held),
                type=keeper["holder"]["type"],
                length=None if length < 0 else length,
                bound=keeper["holder"]["bound"],
                depth=keeper["holder_depth"],
            ),
            bytes_per_step=size,
            tensors_per_step=count,
            retained_bytes=cost["bytes"],
            retained_tensors=cost["storages"],
            generations=max(g["generations"] for g in groups),
            first_step=self._step(min(g["first"] for g in groups)),
            last_step=self._step(max(g["last"] for g in groups)),
            graph=graph_of(cost),
            cycle=self._cycle(keeper),
            tensors=self._examples(keeper),
            stack=stack_of(keeper["stack"]),
            phase=phases[self.suspects[keeper["site"]]["phase"]] or None,
        )

    def _cycle(self, keeper: dict[str, Any]) -> Cycle | None:
        path = cycle_of(keeper["cycle"])
        if path is None:
            return None
        return Cycle(
            path,
            collectable=not keeper["forever"],
            collected_bytes=self.suspects[keeper["site"]]["cycle_bytes"],
        )

    def is_suspect(self, keeper: dict[str, Any]) -> bool:
        """Whether one of its lines is suspect by itself just now."""
        return any(self.suspects[g["site"]]["now"] for g in keeper["groups"])

    def is_credible(self, keeper: dict[str, Any], finding: Finding) -> bool:
        """Whether growth in bytes alone is growth of one and the same thing.

        A tensor that is replaced by a larger one each step may as well be a
        batch of a curriculum: it grows only where the source says that the
        new one is made from the old (``cache = torch.cat([cache, x])``).
        """
        kinds = {self.suspects[g["site"]]["kinds"] for g in keeper["groups"]}
        if any(kind & ~GROWS_BYTES for kind in kinds):
            return True
        return finding.grown_at is not None

    def began(self, keeper: dict[str, Any]) -> int:
        """The step since which it gathers, as far as that is known."""
        first: int = min(
            min(g["first"], self.suspects[g["site"]]["first_step"])
            for g in keeper["groups"]
        )
        return first

    def _step(self, generation: int) -> int:
        """The step of a generation; 0 for before the first."""
        return max(generation - self.offset + 1, 0)

    def _rates(self, keeper: dict[str, Any]) -> tuple[float, float]:
        """Bytes and storages per step: of its sites' growth, its share."""
        size = count = 0.0
        for group in keeper["groups"]:
            site = group["site"]
            everywhere = sum(
                g["count"]
                for k in self.keepers
                for g in k["groups"]
                if g["site"] == site
            )
            share = group["count"] / everywhere
            size += share * self.suspects[site]["bytes_per_step"]
            count += share * self.suspects[site]["storages_per_step"]
        return max(size, 0.0), max(count, 0.0)

    def _examples(self, keeper: dict[str, Any]) -> tuple[TensorExample, ...]:
        e = keeper["example"]
        if e["dtype"] is None:
            return ()
        return (
            TensorExample(
                shape=e["shape"],
                dtype=e["dtype"],
                device=e["device"],
                generation=self._step(keeper["generation"]),
                bytes=e["bytes"],
            ),
        )


def _joined(siblings: Sequence[Finding], one: Finding) -> Finding:
    """Siblings (``epochs[0]``, ``epochs[1]``) as ``one`` of them."""
    if len(siblings) == 1:
        return one
    return replace(
        one,
        bytes_per_step=sum(f.bytes_per_step for f in siblings),
        tensors_per_step=sum(f.tensors_per_step for f in siblings),
        retained_bytes=sum(f.retained_bytes for f in siblings),
        retained_tensors=sum(f.retained_tensors for f in siblings),
        generations=max(f.generations for f in siblings),
        first_step=min(f.first_step for f in siblings),
        last_step=max(f.last_step for f in siblings),
    )
