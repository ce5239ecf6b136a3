"""What is told while the program runs, and what of it is taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...base.records import replace
from ...base.signals import Tolerated
from ...base.units import plural
from ...core.wire import Status
from ...model.finding import Finding
from ...model.words import BOUNDED, Verdict, is_confirmed
from ..holders.known import KnownHolders
from ..holders.leaving import slows
from ..holders.memory import HolderHistory
from ..holders.rates import EVEN
from .forecast import is_much
from .rules import MAY_END, UNSURE
from .verdict import stood_at_the_end

#: Bytes left where a finding's tensors lie, if known.
Room = Callable[[Finding], "int | None"]


class Telling:
    """Tells ``on_finding`` of each settled finding, once."""

    def __init__(
        self,
        on_finding: Callable[[Finding], object] | None,
        known: KnownHolders,
    ) -> None:
        self._on_finding = on_finding
        self._known = known
        #: What was told of findings that have no holder, by signature.
        self._of_lines: dict[str, Finding] = {}
        #: What ``on_finding`` raised last, in words.
        self.failed: str = ""

    def tell(
        self, findings: Sequence[Finding], age: int, room: Room | None
    ) -> None:
        """What was said to be bounded and then leaks is told again.

        While the program runs, what may be kept for a purpose waits until so
        many times as many steps have left something there as the ``age`` of
        what is sure; ``room`` is what is left for a finding, None at a report,
        which is the last word.
        """
        for finding in findings:
            if self._is_news(finding, UNSURE * age, room):
                self._note(finding)
                self._call(finding)

    def _is_news(
        self, finding: Finding, enough: int, room: Room | None
    ) -> bool:
        history = self._known.get(finding.signature)
        line = self._of_lines.get(finding.signature)
        if history is not None:
            told = history.told
        else:
            told = line.verdict if line is not None else None
        verdict = finding.verdict
        if history is not None and _evidence(finding, history) < enough:
            if verdict == "growing":
                return False
            if room is not None and _gains_seldom(finding, history, room):
                return False
        if (
            history is not None
            and room is not None
            and (
                _grew_once(history) or _slows_with_room(finding, history, room)
            )
        ):
            return False
        if verdict == "growing" and (
            finding.rule != MAY_END or history is None
        ):
            return False
        worse = (told in BOUNDED and verdict not in BOUNDED) or (
            told == "growing" and finding.confirmed
        )
        if not (told is None or worse):
            return False
        # By how much it grows, the next visit shows.
        return verdict in BOUNDED or finding.all_bytes_per_step != 0

    def _note(self, finding: Finding) -> None:
        history = self._known.get(finding.signature)
        if history is not None:
            history.told = finding.verdict
        else:
            self._of_lines[finding.signature] = finding

    def _call(self, finding: Finding) -> None:
        if self._on_finding is None:
            return
        with Tolerated() as failure:
            self._on_finding(finding)
        if failure.error is not None:
            self.failed = failure.said

    def taken_back(
        self, present: Collection[str], status: Status
    ) -> list[Finding]:
        """What was told to leak and does not any more."""
        found = [
            _taken(finding, "cache", "but was let go before the end")
            for signature, finding in self._of_lines.items()
            if signature not in present
            and signature not in self._known
            and finding.confirmed
        ]
        for signature, history in self._known.items():
            finding = history.finding
            if (
                signature in present
                or finding is None
                or history.told is None
                or not is_confirmed(history.told)
            ):
                continue
            verdict: Verdict = (
                "accumulation" if history.departures.lets_go else "cache"
            )
            found.append(
                _taken(finding, verdict, self._last_seen(history, status))
            )
        return found

    def _last_seen(self, history: HolderHistory, status: Status) -> str:
        """What became of it, as far as it was seen."""
        elsewhere = self._known.held_elsewhere(history)
        stands = stood_at_the_end(history, status, elsewhere)
        if history.broken_at is not None and not stands:
            return "but was let go before the end"
        if history.departures.lets_go:
            return "but was seen to let go since"
        if history.is_remade:
            return "but is one value in place of another"
        items = history.length
        size = "" if items is None else f" ({plural(items, 'item')})"
        if stands:
            return f"but had stopped growing at the end{size}"
        return f"but has stopped growing{size}"


def _evidence(finding: Finding, history: HolderHistory) -> int:
    """Steps that have left something in a container; of one value, positions
    that it has grown for."""
    if history.length is None:
        return history.age
    return min(finding.generations, history.age)


def _slows_with_room(
    finding: Finding, history: HolderHistory, room: Room
) -> bool:
    """Whether ever less comes to it, and it has little beside the memory that
    is left: where that ends, the program's end shows."""
    return slows(history) and not is_much(history.last.bytes, room(finding))


def _grew_once(history: HolderHistory) -> bool:
    """Whether a tensor was seen made longer a single time: how often that
    happens, and so how fast it grows, the next time shows."""
    return (
        history.length is None
        and history.last.is_plain
        and history.growth.gains < 2
    )


def _gains_seldom(
    finding: Finding, history: HolderHistory, room: Room
) -> bool:
    """Whether something comes to it now and then, as it does to a cache until
    that has all there is, and it has little beside the memory that is left.
    Of one value nobody knows at how many steps it grew.  Nobody collects
    graphs, and garbage and what C++ alone has are no collection."""
    even = finding.generations >= EVEN * history.age
    return (
        finding.verdict == "leak"
        and (history.length is None or not even)
        and finding.graph is None
        and not (history.graph_grows or finding.graph_bytes_per_step)
        and not is_much(history.last.bytes, room(finding))
    )


def _taken(finding: Finding, verdict: Verdict, note: str) -> Finding:
    """What became of it: it kills nobody."""
    return replace(
        finding,
        verdict=verdict,
        severity="info",
        steps_to_oom=None,
        seconds_to_oom=None,
        note=note,
    )
