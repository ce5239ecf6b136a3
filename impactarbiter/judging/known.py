"""The holders that are known: found by walks, visited, and who is who.

One object may be found under another name by the next walk, several objects
may be one finding, and a list may turn out to be one of many in a dict.  What
each holder's past is stays in its history (memory.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..core import heap
from ..core.wire import Held, Visit
from ..model.finding import Finding
from .allowlist import AllowList, is_allowed_object
from .look import Look
from .memory import HolderHistory, Moment, observed
from .statement import remakes
from .watch import grown_at

#: No address, for holders whose path can't be followed.
NOWHERE = Visit("unknown", None, 0, 0, 0)


class KnownHolders(dict[str, HolderHistory]):
    """Histories by their findings' signatures."""

    def __init__(self, allow: AllowList) -> None:
        super().__init__()
        self._allow = allow
        self._names: dict[tuple[int, str], str] = {}

    def visit(self, at: Moment) -> None:
        """Sees again every holder whose path can be followed."""
        for history in self.values():
            if history.visitable and history.last.at.tick < at.tick:
                lines = {s: heap.site_now(s) for s in history.sites}
                seen = heap.visit(history.held.visit)
                emptied = history.is_emptied(
                    seen.length, lines, heap.site_older
                )
                history.seen(seen, at, lines, emptied)

    def _see_whose_graphs(self) -> None:
        """A holder whose cut frees no node, beside another of the same lines
        whose cut does, has values on that one's graph: `states` beside
        `state`."""
        for history in self.values():
            history.graph_is_others = not history.walked.nodes and any(
                other.walked.nodes
                and (history.broken_at or not other.broken_at)
                and other.is_suspect(history.sites)
                for other in self.values()
            )

    def take_in(self, look: Look) -> None:
        """Remembers what a walk has found; what it has not is broken."""
        found = self._by_signature(look)
        for signature, siblings in found.items():
            self._remember(look, signature, siblings)
            self._absorb(signature, found)
        for signature, history in self.items():
            if signature not in found and history.broken_at is None:
                history.broken_at = look.at
        self._see_whose_graphs()
        kept = {history.held.visit for history in self.values()}
        for held in look.walk.holders:
            if held.visit and held.visit not in kept:
                heap.forget(held.visit)

    def _by_signature(
        self, look: Look
    ) -> dict[str, list[tuple[Held, Finding]]]:
        """What the walk found: containers that differ by an index are one."""
        found: dict[str, list[tuple[Held, Finding]]] = {}
        for held in look.walk.holders:
            held = self._by_known_name(held)
            finding = look.describe(held)
            found.setdefault(finding.signature, []).append((held, finding))
        for signature, siblings in found.items():
            self._recognise(signature, siblings[0][0], found)
        return found

    def _by_known_name(self, held: Held) -> Held:
        """A confirmed container keeps the name that it was confirmed by.

        The call whose variable it was may have returned since; what holds it
        now, a traceback or garbage, was not what made it grow.  A name that
        comes and goes with a call is worth less than another.
        """
        if held.length is None:
            return held
        signature = self._names.get((held.owners[0], held.type), "")
        history = self.get(signature)
        if (
            history is None
            or history.confirmed_at is None
            or history.comes_and_goes
            or history.held.goes_by_the_name_of(held)
            or held.length < (history.last.items or 0)
        ):
            return held
        known = history.held
        return replace(
            held,
            root=known.root,
            path=known.path,
            depth=known.depth,
            cycle=known.cycle,
            forever=known.forever,
        )

    def _recognise(
        self, signature: str, held: Held, present: Collection[str]
    ) -> None:
        """A container that goes by another name now is the one it was."""
        if held.length is None:
            return
        identity = held.owners[0], held.type
        before = self._names.get(identity, signature)
        self._names[identity] = signature
        if (
            before != signature
            and before not in present
            and signature not in self
            and before in self
        ):
            history = self[signature] = self.pop(before)
            history.signature = signature

    def _remember(
        self,
        look: Look,
        signature: str,
        siblings: Sequence[tuple[Held, Finding]],
    ) -> None:
        """Remembers a holder, new or known."""
        # The sibling that grew last stands for all; of cycles one that the
        # collector never frees.
        held, finding = max(
            siblings, key=lambda pair: (pair[0].forever, pair[1].last_step)
        )
        if is_allowed_object(held.owners, held.path) or self._allow.covers(
            finding, [e.type for e in held.path.edges]
        ):
            self._drop(signature)
            return
        history = self.get(signature)
        if history is None and not look.is_suspect(held):
            return
        visit = heap.visit(held.visit) if held.visit else NOWHERE
        lines = {
            g.site: heap.site_now(g.site)
            for one, _finding in siblings
            for g in one.groups
        }
        now = observed([one for one, _f in siblings], visit, look.at, lines)
        if history is None:
            history = self[signature] = HolderHistory(
                signature,
                held,
                look.began(held),
                now,
                now,
                now,
                siblings=len(siblings),
                gained_at=look.status.now,
                peak=now.items or 0,
                probed=now.probed,
            )
        else:
            if history.held.visit:
                heap.forget(history.held.visit)
            emptied = history.is_emptied(now.items, lines, heap.site_older)
            now = replace(now, emptied=emptied)
            history.walked_again(held, len(siblings), now)
        history.sites = lines
        history.generations = max(f.generations for _one, f in siblings)
        history.retained = sum(one.storages for one, _f in siblings)
        history.graph = finding.graph
        history.alike = sum(1 + one.others for one, _f in siblings)
        rates = [look.rates(one) for one, _f in siblings]
        size, count = (sum(each) for each in zip(*rates, strict=True))
        history.pace = max(history.pace, (size, count))
        history.finding = replace(
            finding,
            bytes_per_step=size,
            tensors_per_step=count,
            verdict=history.finding.verdict if history.finding else "growing",
            retained_bytes=now.bytes,
            retained_tensors=history.retained,
            generations=history.generations,
            first_step=min(f.first_step for _one, f in siblings),
            last_step=max(f.last_step for _one, f in siblings),
        )
        alone = history.alike == 1 and look.is_one_of_many(held)
        history.remade = alone or (
            look.only_bytes_grow(held)
            and not remakes(finding, grown_at(history))
        )

    def _absorb(self, signature: str, present: Collection[str]) -> None:
        """Makes one of it and of what was taken for the holder before: the
        list of an epoch until there was a second one, or the dict of lists
        until these had grown longer than it."""
        history = self.get(signature)
        if history is None:
            return
        for other, part in tuple(self.items()):
            if (
                other not in present
                and part.is_suspect(history.sites)
                and part.shares_a_way_with(history)
            ):
                history.told = history.told or part.told
                self._drop(other)

    def _drop(self, signature: str) -> None:
        """Forgets a holder."""
        history = self.pop(signature, None)
        if history is not None and history.held.visit:
            heap.forget(history.held.visit)
