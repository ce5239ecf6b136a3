"""What one walk says of a holder, in a finding's words; no verdict yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...base.records import dataclass, replace
from ...core.sources import readers_of, site_of, stack_of
from ...core.wire import (
    GROWS_ANEW,
    GROWS_BYTES,
    GROWS_COUNT,
    Group,
    Held,
    Status,
    Suspect,
    Walk,
)
from ...knowledge.containers import MEMO
from ...model.finding import Cycle, Finding, Holder, TensorExample
from ...model.path import Path
from .observation import Moment, moment

#: Lines whose storages get more, with the graphs behind them as they were.
EVER_MORE = (GROWS_COUNT, GROWS_BYTES | GROWS_ANEW)


@dataclass(frozen=True)
class Look:
    """A walk's answer, and when it was made.

    ``kind`` is the index of the kind of events that are steps for printing.
    """

    status: Status
    kind: int
    suspects: Mapping[int, Suspect]
    walk: Walk
    phases: Sequence[str]
    #: When the walk was over, which other threads may have kept waiting.
    tick: int = 0

    @property
    def at(self) -> Moment:
        """When it was made: what was born by its tick may be in it."""
        at = moment(self.status)
        return replace(at, tick=max(at.tick, self.tick))

    def describe(self, held: Held) -> Finding:
        """One holder's finding before any verdict."""
        path = held.path
        suspect = self.suspects.get(held.site)
        phase = self.phases[suspect.phase] if suspect else ""
        first, last = map(self.step, held.span)
        return Finding(
            verdict="growing",
            allocated_at=site_of(held.site),
            path=path,
            holder=Holder(
                expression=str(Path(path.root, path.edges[: held.depth])),
                type=_type_of(held),
                length=held.length,
                bound=held.bound,
                depth=held.depth,
                shared=held.shared,
                older=held.older,
                doubles=held.doubles,
            ),
            retained_bytes=held.bytes,
            retained_tensors=held.storages,
            # What came after the last step is of no step of its own.
            generations=min(held.generations, last - first + 1),
            first_step=first,
            last_step=last,
            graph=held.graph,
            needed_by=readers_of(
                None if held.device == "numpy" else held.reads
            ),
            readers=held.readers,
            cycle=self._cycle(held),
            tensors=self._examples(held),
            stack=stack_of(held.stack),
            phase=phase or None,
        )

    def step(self, birth: int) -> int:
        """The step, from 1, that a birth by the clock in force fell into."""
        return self.status.step(birth)

    def began(self, held: Held) -> int:
        """Since when it gathers, by the clock in force."""
        return min(
            [
                self.suspects[g.site].since
                for g in held.groups
                if g.site in self.suspects
            ]
            + [max(g.first for g in held.groups)]
        )

    def gained(self, fellows: Sequence[Held]) -> int:
        """When one that is new was last seen to gain; what died has gained
        nothing since its youngest was born."""
        youngest = self.youngest(fellows)
        if all(held.died for held in fellows):
            return youngest
        return self.status.end_of(youngest)

    def youngest(self, fellows: Sequence[Held]) -> int:
        """When the last of what they have was born."""
        return max(g.last for held in fellows for g in held.groups)

    def is_suspect(self, held: Held) -> bool:
        """Whether one of its lines is suspect just now."""
        return any(g.site in self.suspects for g in held.groups)

    def only_bytes_grow(self, held: Held) -> bool:
        """Whether its lines have as many storages as ever, of more bytes."""
        kinds = {
            self.suspects[g.site].kinds
            for g in held.groups
            if g.site in self.suspects
        }
        return kinds == {GROWS_BYTES}

    def is_one_of_many(self, held: Held) -> bool:
        """Whether it has a single storage of lines that keep ever more: it is
        not what keeps them."""
        kinds = [
            self.suspects[g.site].kinds
            for g in held.groups
            if g.site in self.suspects
        ]
        has = sum(g.count for g in held.groups) + held.others_storages
        return (
            held.length is None
            and has == 1
            and bool(kinds)
            and all(kind in EVER_MORE for kind in kinds)
        )

    def rates(self, fellows: Sequence[Held]) -> tuple[float, float]:
        """Bytes and storages a step, by this one walk alone; what one was
        filled with after another came in the time of all."""
        size = count = 0.0
        for groups in self._by_line(fellows):
            span = self._span(groups)
            if span > 0 and (_lasted(groups) or self._since(groups)):
                size += sum(group.bytes for group in groups) / span
                count += sum(group.count for group in groups) / span
        return size, count

    def span(self, fellows: Sequence[Held]) -> int:
        """Steps in which what they have was made."""
        return max(map(self._span, self._by_line(fellows)))

    def _by_line(self, fellows: Sequence[Held]) -> Iterable[list[Group]]:
        lines: dict[int, list[Group]] = {}
        for held in fellows:
            for group in held.groups:
                lines.setdefault(group.site, []).append(group)
        return lines.values()

    def _span(self, groups: Sequence[Group]) -> int:
        first = min(group.first for group in groups)
        last = max(group.last for group in groups)
        return self.status.span(self._since(groups) or first, last)

    def _since(self, groups: Sequence[Group]) -> int:
        """Since when their line keeps as much as one generation made of it,
        which was made anew since; 0: it is of more than one."""
        suspect = self.suspects.get(groups[0].site)
        if suspect is None or _lasted(groups) or groups[0].count < 2:
            return 0
        return min(suspect.since, groups[0].first)

    def _cycle(self, held: Held) -> Cycle | None:
        if held.cycle is None:
            return None
        suspect = self.suspects.get(held.site)
        return Cycle(
            held.cycle,
            collectable=not held.forever,
            collected_bytes=suspect.cycle_bytes if suspect else 0,
        )

    def _examples(self, held: Held) -> tuple[TensorExample, ...]:
        if held.dtype is None:
            return ()
        return (
            TensorExample(
                shape=held.shape,
                dtype=held.dtype,
                device=held.device,
                generation=self.step(held.born),
                bytes=held.example_bytes,
            ),
        )


def _type_of(held: Held) -> str:
    """What the holder is: where that is the dict of an object's attributes,
    no container of the program's, it is that object."""
    if held.is_memo:
        return MEMO
    above = held.path.edges[: held.depth]
    if held.type == "dict" and held.length is None and above:
        return above[-1].type
    return held.type


def _lasted(groups: Sequence[Group]) -> bool:
    """Whether more than one generation made them."""
    first = min(group.first for group in groups)
    return max(group.last for group in groups) > first
