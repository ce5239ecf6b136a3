"""The holders that are known: found by walks, visited, and who is who.

One object may be found under another name by the next walk, several objects
may be one finding, and a list may turn out to be one of many in a dict.  What
each holder's past is stays in its history (memory.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from ...base.records import replace
from ...core import heap
from ...core.wire import Held, SiteNow, Visit
from ...model.finding import Finding, Holder
from .departures import Departures
from .fates import Fates, apart
from .growth import Growth, Pace
from .leaving import leads_back
from .look import Look
from .memory import HolderHistory, in_use, storages_at_tick
from .observation import Moment, observed
from .reach import Reach
from .siblings import Siblings, stands_for
from .turnover import Turnover

#: Roots of what nothing in Python leads to, and something holds.
HELD_BY_C = frozenset({"native", "outside"})

#: No address, for holders whose path can't be followed.
NOWHERE = Visit("unknown", None, 0, 0, 0)


class KnownHolders(dict[str, HolderHistory]):
    """Histories by their findings' signatures."""

    def __init__(
        self, is_allowed: Callable[[Sequence[int], Finding], bool]
    ) -> None:
        """``is_allowed`` is asked of objects that own a holder, and of it."""
        super().__init__()
        self._is_allowed = is_allowed
        self._names: dict[tuple[int | str, str], str] = {}
        #: Those that the last walk found among garbage, and that garbage.
        self._died: set[str] = set()
        self._garbage: Sequence[Held] = ()
        #: Of rules, by signature: as the last walk found them.
        self.allowed: dict[str, Finding] = {}
        self._fates = Fates()

    def visit(self, at: Moment) -> None:
        """Sees again every holder whose path can be followed."""
        moved: list[tuple[Held, int]] = []
        for history in tuple(self.values()):
            if history.held.root == "cycle":
                history.sees(_now(history.sites), heap.site_older)
            elif history.visitable and history.last.at.tick < at.tick:
                lines = _now(history.sites)
                seen = [heap.visit(path) for path in history.paths]
                moved += history.move(seen)
                self._fates.see(history, seen, at.now)
                history.seen(heap.as_one(seen), at, lines, heap.site_older)
            elif history.visitable and history.held.length is not None:
                # Since that tick it may have been made anew.
                moved += history.move(map(heap.visit, history.paths))
        self._rename(moved)
        parts = set(map(apart, self))
        for signature in [one for one in self if one not in parts]:
            self._part_as_seen(signature, at)

    def _part_as_seen(self, signature: str, at: Moment) -> None:
        """Tells siblings that let go from those that do not wait to, as
        visits saw them; the last walk has measured each."""
        known = {
            s: self[s] for s in (signature, apart(signature)) if s in self
        }
        siblings = [pair for one in known.values() for pair in one.siblings]
        if len(siblings) < 2:
            return
        if any(not h.visitable or h.broken_at for h in known.values()):
            return
        parts = self._fates.part(signature, siblings, at.now)
        if {s: [h for h, _f in pairs] for s, pairs in parts.items()} == {
            s: history.fellows for s, history in known.items()
        }:
            return
        for one in known:
            del self[one]
        for one, pairs in parts.items():
            like = known.get(one, known[signature])
            part = self[one] = _some_of(like, one, pairs, at)
            fellows = part.fellows
            if len(parts) > 1 and one == signature:
                part.waits_no_more(self._fates.kept_since(fellows))
            else:
                part.starts_over(self._fates.last_of(fellows))
            part.rise_is_others = one != signature

    def _see_whose_graphs(self) -> None:
        """A holder whose cut alone frees no node, beside another of the same
        lines whose cut does, has values on that one's graph: `states` beside
        `state`, `recent = history[-20:]` beside `history`."""
        for history in self.values():
            history.reach.is_others = not history.frees_nodes and any(
                other.frees_nodes
                and (history.broken_at or not other.broken_at)
                and other.is_suspect(history.sites)
                for other in self.values()
            )

    def held_elsewhere(self, history: HolderHistory) -> int:
        """Storages of its lines that others were seen to hold after its path
        broke: those are not what it has kept."""
        broken = history.broken_at
        return sum(
            other.storages_of(history.sites)
            for other in self.values()
            if other is not history
            and broken is not None
            and other.last.at.now > broken.now
        )

    def unseen(self, history: HolderHistory) -> tuple[int, int]:
        """Storages of its lines that were alive when the last tick ended, and
        as many of them as no other holder was seen to have: what came to one
        of several that are alike, only a walk shows."""
        alive = storages_at_tick(_now(history.sites))
        elsewhere = sum(
            other.storages_of(history.sites)
            for other in self.values()
            if other is not history
            and other.broken_at is None
            and other.alike == 1
        )
        return alive, alive - elsewhere

    def take_in(self, look: Look, *, only_known: bool = False) -> None:
        """Remembers what a walk has found, or ``only_known`` holders of it;
        what it has not is broken.

        A walk that left graphs out has not seen all that leads to something,
        nor all that it keeps: what has a graph stays as it is known where its
        path holds, and of the rest is broken what has nothing alive any more.
        """
        graphs = look.walk.graph
        found = self._by_signature(look)
        self._join(found, look)
        found = {
            part: pairs
            for signature, siblings in found.items()
            for part, pairs in self._fates.part(
                signature, siblings, look.at.now
            ).items()
        }
        for signature, siblings in found.items():
            if only_known and signature not in self:
                continue
            if graphs or not self._has_a_graph(signature):
                self._remember(look, signature, siblings)
                self._absorb(signature, found)
            if signature in self:
                self[signature].measured |= not look.walk.near
        for signature, history in self.items():
            if signature in found or history.broken_at is not None:
                continue
            if graphs or history.has_died(heap.site_older):
                history.broken_at = look.at
        self._see_whose_graphs()
        self._fates.keep(f for one in self.values() for f in one.fellows)

    def _has_a_graph(self, signature: str) -> bool:
        """Whether that is known, by a path that holds, to keep a graph."""
        history = self.get(signature)
        return (
            history is not None
            and history.broken_at is None
            and history.walked.nodes > 0
        )

    def _by_signature(self, look: Look) -> dict[str, Siblings]:
        """What the walk found: containers that differ by an index are one."""
        found: dict[str, Siblings] = {}
        self._died.clear()
        self._garbage = [h for h in look.walk.holders if h.root == "cycle"]
        for held in look.walk.holders:
            if held.root in HELD_BY_C and not look.walk.graph:
                continue  # a graph may lead there
            held = self._by_known_name(held, look.at)
            finding = look.describe(held)
            found.setdefault(finding.signature, []).append((held, finding))
        for signature, siblings in found.items():
            fellows = [held for held, _finding in siblings]
            self._recognise(signature, fellows, found)
        return found

    def _join(self, found: dict[str, Siblings], look: Look) -> None:
        """Tensors that hang on one graph are one finding, by the name of the
        one that is known, or else of the one that has more generations: a
        mean is made anew of the sum that carries them, and may be larger.
        The others stand beside it, but for a call's that a loop makes: it has
        let go at the next turn."""
        graphs: dict[int, dict[str, str]] = {}
        passing = set()
        for signature, siblings in found.items():
            for held, finding in siblings:
                assert finding.holder is not None
                names = graphs.setdefault(held.together, {})
                names[signature] = finding.holder.expression
                if held.turn:
                    passing.add(signature)
        for joined in graphs.values():
            # One whose like hangs on another graph may be joined already.
            names = {s: name for s, name in joined.items() if s in found}
            if len(names) < 2:
                continue
            first = min(names, key=lambda s: self._how_new(s, found[s], look))
            beside = tuple(
                n for s, n in names.items() if s != first and s not in passing
            )
            for other in [s for s in names if s != first]:
                del found[other]
                if other in self:
                    self[first].told = self[first].told or self[other].told
                    del self[other]
            found[first] = [
                (held, replace(finding, holder=_with(finding.holder, beside)))
                for held, finding in found[first]
            ]

    def _how_new(
        self,
        signature: str,
        siblings: Siblings,
        look: Look,
    ) -> tuple[int, int]:
        """0 for a holder that is confirmed, 1 for one that is known, 2 for one
        that is suspect, 3 for another, or a call's that a loop makes; of those
        that are alike in that, the fewer the more generations it has."""
        generations = max(finding.generations for _held, finding in siblings)
        history = self.get(signature)
        if history is not None:
            known = 1 if history.confirmed_at is None else 0
            return known, -generations
        lasts = [held for held, _f in siblings if not held.turn]
        return 2 if any(map(look.is_suspect, lasts)) else 3, -generations

    def _by_known_name(self, held: Held, at: Moment) -> Held:
        """A confirmed holder keeps the name that it was confirmed by.

        The call whose variable it was may have returned since; what holds it
        now, a traceback, a library's memo or garbage, was not what made it
        grow.  A name that comes and goes with a call is worth less than
        another, any name more than that of garbage, one that led there until
        now more than what is left when a call has returned, and one of the
        user's that leads there more than one through a library.
        """
        known_as = [self._names.get((i, held.type)) for i in _identities(held)]
        signature = next(filter(None, known_as), "")
        history = self.get(signature)
        known = _fellow(history, held) if history is not None else None
        if known is not None and held.died:
            self._died.add(signature)
        if (
            history is None
            or known is None
            or not (held.died or _is_better(history, known, held, at))
            or known.goes_by_the_name_of(held)
            or not _is_the_same(history, known, held)
        ):
            return held
        return replace(
            held,
            root=known.root,
            path=known.path,
            depth=known.depth,
            cycle=known.cycle,
            forever=known.forever,
            turn=known.turn,
        )

    def _recognise(
        self,
        signature: str,
        fellows: Sequence[Held],
        present: Collection[str],
    ) -> None:
        """A container that goes by another name now is the one it was; so is
        a value in the same place that has something of the same lines, though
        another line's is the most of it now.  A garbage cycle has no place:
        any object of it may be what a walk names it by."""
        lines = {group.site for held in fellows for group in held.groups}
        if fellows[0].root == "cycle":
            before = ""
            if all(held.forever for held in fellows):
                before = self._absent(lines, present, _is_cycle_for_ever)
        else:
            named = [(i, h.type) for h in fellows for i in _identities(h)]
            before = next(filter(None, map(self._names.get, named)), "")
            before = before or self._absent(
                lines, present, partial(_had_handed_on, fellows)
            )
            before = before or signature
            self._names.update(dict.fromkeys(named, signature))
        if before == signature or before in present or signature in self:
            return
        history = self.get(before)
        if history is None or (
            fellows[0].length is None and not history.is_suspect(lines)
        ):
            return
        self[signature] = self.pop(before)
        history.signature = signature

    def _absent(
        self,
        lines: Collection[int],
        present: Collection[str],
        like: Callable[[HolderHistory], bool],
    ) -> str:
        """The one of these lines that is like that and was there until now, by
        the name that it had; an empty name where there is none."""
        return next(
            (
                signature
                for signature, history in self.items()
                if signature not in present
                and history.is_suspect(lines)
                and like(history)
            ),
            "",
        )

    def _rename(self, moved: Iterable[tuple[Held, int]]) -> None:
        """Containers that lie elsewhere now go by the names that they had:
        where one was, there may lie another."""
        names: dict[tuple[int | str, str], str] = {}
        for held, address in moved:
            name = self._names.pop((held.owners[0], held.type), None)
            if name is not None:
                names[address, held.type] = name
        self._names.update(names)

    def _remember(
        self,
        look: Look,
        signature: str,
        siblings: Siblings,
    ) -> None:
        """Remembers a holder, new or known."""
        held, finding = stands_for(siblings)
        fellows = [one for one, _finding in siblings]
        size, count = look.rates(fellows)
        if self._is_allowed(held.owners, finding):
            self.pop(signature, None)
            self.allowed[signature] = replace(finding, bytes_per_step=size)
            return
        history = self.get(signature)
        if history is None and (
            not look.is_suspect(held)
            or self._is_what_is_left(fellows, look.at)
        ):
            return
        paths = [one.visit for one in fellows]
        visit = heap.visit_all(paths) if all(paths) else NOWHERE
        lines = _now(g.site for one in fellows for g in one.groups)
        now = observed(fellows, visit, look.at, lines)
        if history is None:
            history = self[signature] = HolderHistory(
                signature,
                held,
                look.began(held),
                now,
                now,
                Turnover(now),
                fellows=fellows,
                bound=held.bound,
                growth=Growth(look.gained(fellows)),
                departures=Departures(now.items or 0),
                reach=Reach(now.probed, found=now.at.now),
                runs=heap.collections(),
            )
            history.starts_over(
                max(self._let_go_beside(held), self._fates.last_of(fellows))
            )
        else:
            now = history.told_apart(now, lines, heap.site_older)
            made = look.youngest(fellows) + 1
            back = leads_back(history, held, fellows, now, lines)
            history.walked_again(
                held,
                fellows,
                now,
                made,
                leads_back=back,
                in_use=not look.at.ends_step and in_use(lines),
            )
            if history.beside != _beside(finding):
                history.counts_from(now)  # what it is charged with is another
        history.was_collected |= self._was_collected(held)
        history.beside = _beside(finding)
        history.sites = lines
        if held.root != "cycle" or size > history.growth.pace.bytes:
            span = look.span(fellows)
            history.growth.pace = Pace(size, count, span, look.kind)
        history.consists_of(siblings, now, size, count)
        history.one_of_many = history.alike == 1 and look.is_one_of_many(held)
        history.only_larger = look.only_bytes_grow(held)

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
                history.takes_over(part)
                del self[other]

    def _let_go_beside(self, held: Held) -> int:
        """When its container, or another item of that, last let go; 0: none
        did.  What one key of a dict has is cleared with what others have."""
        return max(
            (
                history.departures.let_go_at
                for history in self.values()
                if history.departures.lets_go and held.goes_with(history.held)
            ),
            default=0,
        )

    def _was_collected(self, held: Held) -> bool:
        """Whether such cycles, which a walk had seen, were gone at a later
        one, and more of what they had than is left of it: nobody but the
        collector lets go of garbage, but it may go by another's name."""
        return held.root == "cycle" and any(
            other.held.root == "cycle"
            and other.held.type == held.type
            and other.broken_at is not None
            and other.turnover.freed_in_time
            for other in self.values()
        )

    def explaining(self, findings: Sequence[Finding]) -> list[Finding]:
        """These, and those that a rule allows: nobody asks where they grow."""
        return [*findings, *self.allowed.values()]

    def _is_what_is_left(self, fellows: Sequence[Held], at: Moment) -> bool:
        """Whether it is garbage that a confirmed holder of the same lines
        kept until that was let go of: it died at once, or that holder is
        garbage itself, or both together have more than there was when the last
        tick ended, if that grew as before since it was seen."""
        sites = {group.site for held in fellows for group in held.groups}
        # With what else is left: it is found in pieces.
        count = sum(
            group.count
            for held in self._garbage
            for group in held.groups
            if group.site in sites
        )
        return all(held.root == "cycle" for held in fellows) and any(
            all(held.died for held in fellows)
            or signature in self._died
            or history.storages_by(at.now) + count
            > sum(heap.site_now(site).at_tick for site in history.sites)
            for signature, history in self.items()
            if history.confirmed_at and sites <= history.sites.keys()
        )

    def as_known(self) -> Callable[[], None]:
        """Brings back, when it is called, what is known now."""
        names, allowed = self._names.copy(), self.allowed.copy()
        holders = self.copy()
        parts = [one.as_remembered() for one in holders.values()]
        parts.append(self._fates.as_seen())

        def bring_back() -> None:
            for part in parts:
                part()
            self._names, self.allowed = names, allowed
            self.clear()
            self.update(holders)

        return bring_back


def _is_cycle_for_ever(history: HolderHistory) -> bool:
    """Whether it is cycles that no collector frees, and that are there."""
    held = history.held
    return held.root == "cycle" and held.forever and history.broken_at is None


def _had_handed_on(fellows: Sequence[Held], history: HolderHistory) -> bool:
    """Whether it is a turn's variable that handed on what these have by now,
    and no call has it any more."""
    return (
        history.turnover.carries_over
        and history.held.type == fellows[0].type
        and min(held.eldest for held in fellows) <= history.eldest
    )


def _is_better(
    history: HolderHistory, known: Held, now: Held, at: Moment
) -> bool:
    """Whether the name that a holder was known by is worth more than that by
    which a walk has found it ``at`` this moment."""
    if history.comes_and_goes:
        return False
    broken = history.broken_at
    until_now = broken is not None and broken.now == at.now
    leads_there = broken is None and now.path.library
    if not known.path.library and (until_now or leads_there):
        return True
    return history.confirmed_at is not None


def _fellow(history: HolderHistory, held: Held) -> Held | None:
    """The same container, or the value that lay in the same place."""
    known = set(_identities(held))
    return next(
        (one for one in history.fellows if known & set(_identities(one))),
        None,
    )


def _is_the_same(history: HolderHistory, known: Held, now: Held) -> bool:
    """Whether a container is the one that lay there, and none that was made
    in its place: it has not become shorter, or has what it had first.  Of a
    value, whether the way there still leads to it."""
    if now.length is None:
        return (
            known.visit != 0 and heap.visit(known.visit).value == now.owners[0]
        )
    length = now.length or 0
    return length >= history.length_of(now) or now.eldest == known.eldest


def _some_of(
    like: HolderHistory, signature: str, pairs: Siblings, at: Moment
) -> HolderHistory:
    seen = heap.visit_all([held.visit for held, _finding in pairs])
    sites = {group.site for held, _f in pairs for group in held.groups}
    lines = _now(sites)
    return like.parted(signature, pairs, seen, at, lines)


def _now(sites: Iterable[int]) -> dict[int, SiteNow]:
    """What is alive of lines."""
    return {site: heap.site_now(site) for site in sites}


def _identities(held: Held) -> tuple[int | str, ...]:
    """A container's address; a value's place, as each is a new object: what
    has it, be that by another name now, or what leads to it."""
    if held.length is not None:
        return (held.owners[0],)
    path = held.path.upto(held.depth)
    if len(held.owners) < 2 or not path.edges:
        return (str(path),)
    return (str(path), f"{held.owners[1]:x}{path.edges[-1].text}")


def _with(holder: Holder | None, beside: tuple[str, ...]) -> Holder | None:
    return holder and replace(holder, beside=beside)


def _beside(finding: Finding) -> tuple[str, ...]:
    return finding.holder.beside if finding.holder is not None else ()
