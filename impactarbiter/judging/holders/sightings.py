"""Where a holder grows: the statements that were seen to grow it, and where,
by its name alone, one may."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

from ...base.records import Changing, dataclass
from ...core.sources import site_at
from ...core.wire import Statement
from ...model.finding import Finding, Site
from ..program.statement import maybe_grown_at, remakes, user_files

#: Watches of one holder in a row; later ones wait until it is twice as old,
#: as what grows at every hundredth step is rarely caught.
TRIES = 3
#: A statement that was seen is sought again once the holder is so many times
#: as old: most of what it has by then came since, by another maybe.
AGAIN = 4

#: A statement's file, line and function.
Key: TypeAlias = tuple[str, int, str]
#: Those of the calls around it, the innermost first.
Calls: TypeAlias = tuple[Key, ...]


class Share(NamedTuple):
    """What a statement has to do with a holder: how much of the holder's age
    it stands for, how often it ran for nothing for each time that it grew the
    holder, and how it was reached when it was seen first."""

    grown: float
    idle: float
    calls: Calls


@dataclass
class Sightings(Changing):
    """What the watches of one holder have shown, one after the other;
    ``so_far`` is empty unless a watch lasts."""

    shares: Mapping[Key, Share] = field(default_factory=dict)
    resumed: bool = False  # it had stopped growing since that was seen
    so_far: Sequence[Statement] = ()  # of a watch that still lasts
    watches: int = 0  # times that it was watched
    age: int = 0  # how old it was at the last of them
    census: Mapping[Any, int] | None = None  # what its items were then
    # Where its name alone says that it may grow; None: nobody asked yet.
    guessed: Collection[tuple[str, int]] | None = None
    # A statement, and whether the source says that it makes its value from the
    # one before; None: nobody asked yet.
    read: tuple[Site | None, bool] | None = None
    # Of the user's, where what may end it is looked for; None: not yet.
    files: tuple[str, ...] | None = None

    def is_wanted(self, age: int) -> bool:
        """Whether a watch is worth it for a holder that is so old."""
        if self.shares and not self.resumed:
            return age >= self.age * AGAIN
        return self.watches < TRIES or age > self.age * 2

    def begin(self) -> None:
        """A watch begins."""
        self.watches += 1

    def shows_more(self, so_far: Sequence[Statement]) -> bool:
        """Takes in what a watch has seen until now; whether it is more."""
        before, self.so_far = self.so_far, so_far
        return not {s[:3] for s in so_far} <= {s[:3] for s in before}

    def end(
        self,
        statements: Sequence[Statement],
        census: Mapping[Any, int] | None,
        age: int,
    ) -> None:
        """A watch has ended, and its holder was so old then; what it has been
        seen to have stays known where it could not be looked at."""
        self.take_in(statements, max(age - self.age, 1))
        self.so_far = ()
        self.age = age
        if census is not None:
            self.census = census

    def take_in(self, statements: Sequence[Statement], time: int = 1) -> None:
        """Adds the statements that a watched tick has shown: what came in so
        much ``time``, until then, came by them."""
        if self.resumed and statements:
            self.shares = {}
            self.resumed = False
        brought = sum(s.items for s in statements)
        for s in statements:
            key = (s.file, s.line, s.function)
            before = self.shares.get(key, Share(0.0, 0.0, s.calls))
            # Once shows too little of what else the statement grows.
            ratio = s.idle / s.times if s.times > 1 else s.idle * math.inf
            share = before._replace(
                grown=before.grown + time * s.items / brought,
                idle=max(before.idle, ratio if s.idle else 0.0),
            )
            self.shares = {**self.shares, key: share}

    def inherit(self, part: Sightings) -> None:
        """What was seen to grow a part of it has grown it, too."""
        if not self.shares:
            self.shares = part.shares

    def resume(self) -> None:
        """It grows again: by another statement, maybe."""
        self.resumed |= bool(self.shares)

    def forget_watches(self) -> None:
        """It is watched anew, by a name that may last."""
        self.watches = 0

    @property
    def grown_at(self) -> Site | None:
        """The statement that was seen to grow it most; None where none was."""
        chosen = self._chosen
        return None if chosen is None else site_at(*chosen[0])

    @property
    def grown_stack(self) -> tuple[Site, ...]:
        """The user's calls that led to it when it was seen first, the
        innermost first."""
        chosen = self._chosen
        return () if chosen is None else tuple(site_at(*c) for c in chosen[1])

    @property
    def _chosen(self) -> tuple[Key, Calls] | None:
        key = self._most
        if key is not None:
            return key, self.shares[key].calls
        if not self.so_far:
            return None
        most = max(self.so_far, key=lambda s: s.items)
        return (most.file, most.line, most.function), most.calls

    def renew(self, finding: Finding | None) -> bool:
        """Whether they make the value of the holder in its ``finding`` from
        the one before it."""
        seen = self.grown_at
        if finding is None:
            return False
        if self.read is None or self.read[0] != seen:
            self.read = seen, remakes(finding, seen)
        return self.read[1]

    @property
    def elsewhere(self) -> float:
        """The part of what it has that other statements were seen to bring."""
        if not self.shares:
            return 0.0
        each = [share.grown for share in self.shares.values()]
        return 1.0 - max(each) / sum(each)

    @property
    def other_growth(self) -> float:
        """How often that statement grew something else, for each time that it
        grew this holder."""
        key = self._most
        return 0.0 if key is None else self.shares[key].idle

    @property
    def _most(self) -> Key | None:
        if not self.shares:
            return None
        return max(self.shares, key=lambda key: self.shares[key].grown)

    @property
    def functions(self) -> set[str]:
        """Those that the statements are in, once a watch has ended."""
        return {function for _file, _line, function in self.shares}

    def places(self, finding: Finding | None) -> Collection[tuple[str, int]]:
        """File and line of all that were seen, or else of what the name of
        the holder in its ``finding`` lets guess."""
        seen = {key[:2] for key in self.shares} or {
            (one.file, one.line) for one in self.so_far
        }
        if seen or finding is None:
            return seen
        if self.guessed is None:
            guess = maybe_grown_at(finding)
            self.guessed = () if guess is None else ((guess.file, guess.line),)
        return self.guessed

    def files_of(self, finding: Finding) -> tuple[str, ...]:
        """The user's files that may have to do with it."""
        if self.files is None:
            self.files = tuple(user_files(finding))
        return self.files
