"""How far back the graph behind a holder reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ...base.records import Changing, dataclass, replace
from .observation import Observation

#: So many may be carried on side by side in one container, as the states of
#: several streams: each gains as large a part of what all of them do.
CHAINS = 8


@dataclass
class Reach(Changing):
    """What probes of a holder's lines have seen of the graph behind it, or of
    another holder's where that one's it is."""

    # Nodes behind its lines' newest tensors when it was found, or the most of
    # them before there were fewer; and the most so far.
    probed: Mapping[int, int] = field(default_factory=dict)
    farthest: Mapping[int, int] = field(default_factory=dict)
    # When the graph behind as many items was last seen to reach further.
    reached: Observation | None = None
    is_others: bool = False  # its lines' graph, where that grows
    found: int = 0  # position at which the holder was

    def own(self, now: Observation) -> Observation:
        """Without the probes of a graph that is another holder's."""
        return replace(now, probed={}) if self.is_others else now

    def observe(self, now: Observation, before: Observation) -> None:
        """Takes in two looks, one after the other."""
        self._note(now.probed)
        if now.items != before.items:
            self.reached = None
        elif now.has_more_nodes(before) or now.reaches_further(before.probed):
            self.reached = now

    def _note(self, probed: Mapping[int, int]) -> None:
        """What a graph has to exceed to have grown: what it had when it was
        found, and what it had before it was seen to have less."""
        for site, nodes in probed.items():
            least = self.probed.get(site, nodes)
            most = self.farthest.get(site, least)
            if nodes > most:
                self.farthest = {**self.farthest, site: nodes}
            elif nodes < most and least > 0:
                self.probed = {**self.probed, site: most}

    def grows(
        self, first: Observation, last: Observation, *, by_graph: bool
    ) -> bool:
        """Whether the graph reaches further back than it did; ``by_graph``:
        no containers below it may have more graphs."""
        if self.is_others:
            return False
        if last.reaches_further(self.probed):
            return self._leads_back(first, last)
        if not by_graph or (last.has_no_length and any(last.probed.values())):
            return False  # more nodes may be those of more graphs
        # One item's graph may have been in use beside at the first.
        items = last.items or 1
        own = last.nodes / items if items > 1 else 0
        return last.items == first.items and last.has_more_nodes(first, own)

    def _leads_back(self, first: Observation, last: Observation) -> bool:
        """Whether so much more leads back to the steps before: to most of what
        all its items keep, or to as much more as one of few chains gains.
        One step's graph may be larger than another's."""
        items = last.items or 1
        if items < 2 or last.nodes == 0 or last.shared:
            return True
        # Between the part of one item that has nothing in common with the
        # others, which of two is half, and all.
        newest = max(last.probed.values())
        if 2 * items * newest >= (items + 1) * last.nodes:
            return True
        gained = max(n - self.probed.get(s, n) for s, n in last.probed.items())
        more = last.nodes - first.nodes
        return (
            items >= (first.items or 1)
            and CHAINS * gained >= newest
            and gained <= more <= CHAINS * gained
        )

    def restart(self) -> None:
        """Counts anew."""
        self.reached = None
