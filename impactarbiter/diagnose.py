"""From suspects to findings: when to look, what two looks prove, what to say.

A look is one walk over the heap.  A suspect is looked at when it appears and
once more some steps later; what its holder has gained in between makes it a
leak.  Until then it is ``growing``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import _core
from .advice import advise
from .allowlist import AllowList, is_allowed_object
from .findings import (
    Cost,
    Finding,
    History,
    Holder,
    Path,
    Report,
    TensorExample,
)
from .forecast import Forecast
from .retention import graph_of, path_of
from .severity import DEFAULT_RULES
from .sources import environment, site_of, stack_of

#: Bits of a suspect's ``kinds``, as criterion.h has them.
GROWS_COUNT, GROWS_BYTES, GROWS_GRAPH, GROWS_CYCLES = 1, 2, 4, 8

#: Steps between the two looks at a suspect.
LOOK_GAP = 4
#: Share of the run that further looks may take.
LOOK_SHARE = 0.01


@dataclass
class Observation:
    """What a look saw of one holder."""

    step: int
    items: int
    storages: int
    nodes: int
    node_bytes: int
    bytes: int


@dataclass
class Suspicion:
    """All that is remembered of one holder between looks."""

    first: Observation
    last: Observation
    site: int
    confirmed_at: int | None = None
    announced: bool = False
    finding: Finding | None = None

    def growth(self, now: Observation) -> float | None:
        """Items per step since the first look, if it grew."""
        steps = now.step - self.first.step
        if steps <= 0:
            return None
        before, after = self.first.items, now.items
        if before < 0 or after < 0:
            before, after = self.first.storages, now.storages
        return (after - before) / steps

    def node_growth(self, now: Observation) -> float:
        """Bytes of graph nodes per step since the first look."""
        steps = now.step - self.first.step
        if steps <= 0:
            return 0.0
        return max(now.node_bytes - self.first.node_bytes, 0) / steps


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
    _looks: int = 0
    _walk_seconds: float | None = None
    _callback_failed: str | None = None

    # -- looks ------------------------------------------------------------

    def look(self, step: int) -> None:
        """Called at a boundary where a look is due."""
        status = _core.status()
        spent = status["callback_seconds"]
        if self._looks > 3 and spent > LOOK_SHARE * status["elapsed_seconds"]:
            # The budget is spent: look again when it has grown.
            pause = spent / LOOK_SHARE - status["elapsed_seconds"]
            took = max(status["step_seconds"], 1e-6)
            _core.look_at(step + max(LOOK_GAP, int(pause / took)))
            return
        findings = self._diagnose(step, status["provisional"])
        unsettled = any(f.verdict == "growing" for f in findings)
        # What is settled is looked at ever more rarely, so that the figures
        # of a program that ends are not too old.
        gap = max(LOOK_GAP, self.window) if unsettled else step
        _core.look_at(step + gap)
        self._announce(findings)

    def _announce(self, findings: Sequence[Finding]) -> None:
        """Tells ``on_finding`` of each confirmed finding, once."""
        for finding in findings:
            suspicion = self._seen[finding.signature]
            if suspicion.announced or finding.verdict == "growing":
                continue
            suspicion.announced = True
            if self.on_finding is None:
                continue
            try:
                self.on_finding(finding)
            except Exception as error:
                self._callback_failed = f"{type(error).__name__}: {error}"

    @property
    def _offset(self) -> int:
        """Steps of the ledger that were counted in another unit."""
        offset: int = _core.status()["offset"]
        return offset

    def _diagnose(self, step: int, provisional: bool) -> list[Finding]:
        suspects = {s["site"]: s for s in _core.suspects()}
        grows = GROWS_COUNT | GROWS_BYTES | GROWS_GRAPH
        wanted = [i for i, s in suspects.items() if s["kinds"] & grows]
        if not wanted:
            self._answer = None
            return []
        old = [
            i
            for i in wanted
            if suspects[i]["kinds"] & (GROWS_BYTES | GROWS_GRAPH)
        ]
        answer = _core.diagnose(wanted, old)
        self._looks += 1
        self._walk_seconds = answer["seconds"]
        self._answer = answer
        forecast = Forecast(self.memory_limit)
        keepers = [k for k in answer["keepers"] if _grows(k, suspects)]
        shares = _shares(keepers)
        made = [
            self._finding(
                keeper,
                suspects,
                _rates(keeper, suspects, shares),
                step,
                provisional,
                forecast,
            )
            for keeper in keepers
        ]
        findings = _merged([f for f in made if f is not None])
        for finding in findings:
            self._seen[finding.signature].finding = finding
        return findings

    _answer: dict[str, Any] | None = None

    # -- one finding ------------------------------------------------------

    def _finding(
        self,
        keeper: dict[str, Any],
        suspects: dict[int, dict[str, Any]],
        rates: _Rates,
        step: int,
        provisional: bool,
        forecast: Forecast,
    ) -> Finding | None:
        path, holder = _path_and_holder(keeper)
        cost, groups = keeper["cost"], keeper["groups"]
        graph = graph_of(cost)
        finding = Finding(
            verdict="growing",
            allocated_at=site_of(keeper["site"]),
            path=path,
            holder=holder,
            bytes_per_step=rates.bytes,
            tensors_per_step=rates.tensors,
            retained_bytes=cost["bytes"],
            retained_tensors=cost["storages"],
            generations=max(g["generations"] for g in groups),
            first_step=min(g["first"] for g in groups) - self._offset + 1,
            last_step=max(g["last"] for g in groups) - self._offset + 1,
            graph=graph,
            tensors=_examples(keeper, self._offset),
            stack=stack_of(keeper["stack"]),
            phase=self._phase(suspects[keeper["site"]]["phase"]),
        )
        if is_allowed_object(keeper["holder"]["id"]) or self.allow.covers(
            finding, [edge.type for edge in path.edges]
        ):
            return None
        finding = self._settle(finding, keeper, step, provisional)
        finding = forecast.apply(finding)
        finding = replace(finding, advice=advise(finding))
        return DEFAULT_RULES.grade(finding, DEFAULT_RULES.horizon(step))

    def _phase(self, number: int) -> str | None:
        return self.phases[number] or None

    def _settle(
        self,
        finding: Finding,
        keeper: dict[str, Any],
        step: int,
        provisional: bool,
    ) -> Finding:
        """The verdict: what this look adds to the ones before."""
        now = Observation(
            step,
            keeper["holder"]["length"],
            sum(g["count"] for g in keeper["groups"]),
            keeper["cost"]["nodes"],
            keeper["cost"]["node_bytes"],
            keeper["cost"]["bytes"],
        )
        before = self._seen.get(finding.signature)
        if before is None:
            before = Suspicion(now, now, keeper["site"])
            self._seen[finding.signature] = before
        grew = (
            now.storages > before.first.storages
            or now.items > before.first.items
            or now.nodes > before.first.nodes
            or now.bytes > before.first.bytes
        )
        if (
            grew
            and not provisional
            and before.confirmed_at is None
            and step - before.first.step >= LOOK_GAP
        ):
            before.confirmed_at = step
        growth, nodes = before.growth(now), before.node_growth(now)
        before.last = now
        holder = finding.holder
        if holder is not None and holder.length is not None and growth:
            holder = replace(holder, growth_per_step=growth)
        root = keeper["path"][0]
        if root in ("cycle", "native"):
            verdict = root
        else:
            verdict = "leak" if before.confirmed_at is not None else "growing"
        confirmation = None
        if verdict == "growing":
            confirmation = (
                f"a look at the holder {LOOK_GAP} or more steps after step"
                f" {before.first.step - self._offset} that finds it grown"
            )
        return replace(
            finding,
            verdict=verdict,
            holder=holder,
            confirmation=confirmation,
            graph_bytes_per_step=nodes,
        )

    # -- the report -------------------------------------------------------

    def report(self) -> Report:
        """Looks once more and puts everything together."""
        _core.refresh()
        status = _core.status()
        findings = self._diagnose(status["steps"], status["provisional"])
        self._announce(findings)
        gone, stopped = self._no_longer_held(findings)
        findings += gone
        totals = _core.totals()
        points = _core.history()
        return Report(
            findings=tuple(findings),
            steps=status["steps"] - status["offset"],
            live_bytes=totals["live_bytes"],
            peak_bytes=totals["peak_bytes"],
            accounted=self._accounted(totals),
            cost=self._cost(status, totals),
            warnings=tuple(self._warnings(status, totals) + stopped),
            environment=environment(),
            history=History(
                tuple(p[0] for p in points),
                tuple(p[1] for p in points),
            ),
            memory_limit=Forecast(self.memory_limit).limit,
            needed_steps=self.warmup + self.window,
        )

    def _no_longer_held(
        self, findings: Sequence[Finding]
    ) -> tuple[list[Finding], list[str]]:
        """Findings whose tensors are gone by now.

        What grew until the last step was dropped by the program's end: it
        stands, with the figures of the last look.  What stopped growing
        before is taken back, and the second list says so.
        """
        present = {f.signature for f in findings}
        gone, stopped = [], []
        for signature, suspicion in self._seen.items():
            finding, seen = suspicion.finding, suspicion.last.step
            if finding is None or signature in present:
                continue
            step = seen - self._offset
            if _core.was_growing(suspicion.site):
                note = f"released by now: figures as of step {step}"
                gone.append(replace(finding, note=note))
            elif suspicion.confirmed_at is not None:
                held = finding.holder.expression if finding.holder else "it"
                stopped.append(
                    f"taken back: {held} had grown up to step {step}, but"
                    " not since"
                )
        return gone, stopped

    def _accounted(self, totals: dict[str, Any]) -> dict[str, int]:
        """Live bytes by what they are for; the sum is ``live_bytes``."""
        answer = self._answer or _core.diagnose([], [])
        known = dict(answer["purposes"])
        known["findings"] = known.pop("claimed")
        known["allowed"] = totals["allowed_bytes"]
        known.pop("other")
        known["other"] = max(totals["live_bytes"] - sum(known.values()), 0)
        return known

    def _cost(self, status: dict[str, Any], totals: dict[str, Any]) -> Cost:
        steps = status["steps"] - status["offset"]
        spent = status["boundary_seconds"] + totals["hook_seconds"]
        spent += status["callback_seconds"]
        walk = self._walk_seconds
        return Cost(
            ms_per_step=1e3 * spent / steps if steps else None,
            last_walk_ms=None if walk is None else 1e3 * walk,
            ledger_bytes=totals["ledger_bytes"],
        )

    def _warnings(
        self, status: dict[str, Any], totals: dict[str, Any]
    ) -> list[str]:
        said = []
        if status["failure"]:
            said.append(f"watching ended early: {status['failure']}")
        if totals["lost"]:
            said.append(
                f"{totals['lost']} storages could not be recorded:"
                " memory was short"
            )
        if self._callback_failed:
            said.append(f"on_finding raised {self._callback_failed}")
        if self._answer is not None and not self._answer["graph"]:
            said.append(
                "a backward ran in another thread during the last look: the"
                " autograd graph was left out of it"
            )
        said += [
            f"allow rule {rule} matched nothing" for rule in self.allow.dead()
        ]
        return said


# -- pieces ------------------------------------------------------------------


@dataclass(frozen=True)
class _Rates:
    bytes: float
    tensors: float


def _grows(
    keeper: dict[str, Any], suspects: dict[int, dict[str, Any]]
) -> bool:
    """Whether this holder is where its sites grow.

    A loop variable holds the newest tensor of a site whose others are kept
    elsewhere: one generation only, and not growing itself.
    """
    alone = GROWS_BYTES | GROWS_GRAPH
    return any(
        g["generations"] > 1 or suspects[g["site"]]["kinds"] & alone
        for g in keeper["groups"]
    )


def _shares(keepers: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Storages by site over all holders, to part a site's growth by."""
    total: dict[int, int] = {}
    for keeper in keepers:
        for group in keeper["groups"]:
            site = group["site"]
            total[site] = total.get(site, 0) + group["count"]
    return total


def _rates(
    keeper: dict[str, Any],
    suspects: dict[int, dict[str, Any]],
    shares: dict[int, int],
) -> _Rates:
    """Growth of the keeper's sites, by its share of what they keep."""
    size = count = 0.0
    for group in keeper["groups"]:
        suspect = suspects[group["site"]]
        share = group["count"] / shares[group["site"]]
        size += share * suspect["bytes_per_step"]
        count += share * suspect["storages_per_step"]
    return _Rates(max(size, 0.0), max(count, 0.0))


def _path_and_holder(keeper: dict[str, Any]) -> tuple[Path, Holder]:
    path = path_of(keeper["path"])
    held = Path(path.root, path.edges[: keeper["holder_depth"]])
    length = keeper["holder"]["length"]
    return path, Holder(
        expression=str(held),
        type=keeper["holder"]["type"],
        length=None if length < 0 else length,
        bound=keeper["holder"]["bound"],
    )


def _examples(
    keeper: dict[str, Any], offset: int
) -> tuple[TensorExample, ...]:
    e = keeper["example"]
    if e["dtype"] is None:
        return ()
    return (
        TensorExample(
            shape=None if e["shape"] is None else tuple(e["shape"]),
            dtype=e["dtype"],
            device=e["device"],
            generation=keeper["generation"] - offset + 1,
            bytes=e["bytes"],
        ),
    )


def _merged(findings: list[Finding]) -> list[Finding]:
    """Siblings (``epochs[0]``, ``epochs[1]``) are one finding."""
    by_signature: dict[str, Finding] = {}
    for finding in findings:
        first = by_signature.get(finding.signature)
        if first is None:
            by_signature[finding.signature] = finding
            continue
        by_signature[finding.signature] = replace(
            first,
            bytes_per_step=first.bytes_per_step + finding.bytes_per_step,
            tensors_per_step=first.tensors_per_step + finding.tensors_per_step,
            retained_bytes=first.retained_bytes + finding.retained_bytes,
            retained_tensors=first.retained_tensors + finding.retained_tensors,
            generations=max(first.generations, finding.generations),
            first_step=min(first.first_step, finding.first_step),
            last_step=max(first.last_step, finding.last_step),
        )
    return list(by_signature.values())
