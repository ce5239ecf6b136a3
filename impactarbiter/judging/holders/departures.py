"""What left a holder, as looks have seen it from one to the next, and whether
that lets go of what it gathers."""

from __future__ import annotations

from ...base.records import Changing, dataclass
from .observation import Observation


@dataclass
class Departures(Changing):
    """When something left, and how many items there were then.

    All times are `now` of a look.  A holder ``lets_go`` where all that was
    there was seen replaced; what ``outgrew`` that is longer than ever since,
    or was not seen to let go again for long: it is never both.
    """

    peak: int = 0  # most items so far
    peak_at: int = 0  # when it had them first
    let_go_at: int = 0  # the last look before something left it
    lets_go_since: int | None = None  # the same of the first time
    had_at_first: int = 0  # items just before that
    before_first: Observation | None = None  # what was seen then
    left_over: int = 0  # items just after the last time
    lets_go: bool = False
    # Of several that are alike no more than one has had ever left at a time.
    of_one: bool = True
    outgrew: bool = False
    # What left it is led to by what it has, still: nothing was let go.
    leads_back: bool = False

    def observe(
        self,
        now: Observation,
        before: Observation,
        *,
        graph_grows: bool,
        alike: int = 1,
    ) -> bool:
        """Takes in two looks, one after the other, and says whether all that
        was gathered until the first was let go of: not where the graph behind
        it goes on to grow.  So many that are ``alike`` are one holder."""
        items = now.items or 0
        # What leaves a holder is what judges it; one that takes in more than
        # leaves, and is longer than ever, does not let go.
        left = now.lost_some(before) and items <= self.peak
        gone = now.emptied or now.thinned or now.lost_its_eldest(before)
        if left or gone:
            self.let_go_at, self.left_over = before.at.now, items
            had = before.items or 0
            self.of_one &= alike * (had - items) <= had
            if self.lets_go_since is None:
                self.lets_go_since = before.at.now
                self.had_at_first = had
                self.before_first = before
        if items > self.peak:
            self.peak, self.peak_at = items, now.at.now
        goes_on = graph_grows or self.leads_back
        # Copies of what was there are there.
        emptied = now.emptied and not now.carried_over
        if not (left or emptied) or goes_on:
            return False
        self.lets_go, self.outgrew = True, False
        return True

    def walked_again(self, *, leads_back: bool) -> None:
        """A walk has seen what is led to by what there is."""
        self.leads_back = leads_back
        if leads_back:
            self.lets_go, self.outgrew = False, False

    def starts_over(self, let_go_at: int) -> None:
        """Its past says nothing; it let go then, or 0: never."""
        self.outgrew = False
        self.before_first = None
        if let_go_at:
            self.lets_go = True
            self.let_go_at = self.lets_go_since = let_go_at

    def waits_no_more(self) -> None:
        """What it has gathered is not let go in its turn."""
        self.lets_go, self.outgrew = False, True

    def has_at_most(self, items: int) -> None:
        """It is a part of what it was: so many are the most that are known,
        since when is not."""
        self.peak, self.peak_at = items, 0
        self.before_first = None

    def are_outgrown(self, since: int, began: int, now: int) -> bool:
        """Whether less leaves than comes: of the time ``since`` then, for a
        fourth it has gone on to let go and to be longer than ever, within the
        last third at last; ``began``: since when its line keeps what it makes.
        What is left of it each time is no less than what it had when it let
        go first: one that is emptied has a peak by chance."""
        if self.lets_go_since is None or self.left_over < self.had_at_first:
            return False
        lasted = min(self.let_go_at, self.peak_at) - max(
            since, self.lets_go_since
        )
        return (
            4 * lasted > now - since
            # What lives for so long reaches its number no sooner.
            and lasted >= self.lets_go_since - began
            and 3 * (now - self.peak_at) <= now - since
        )
