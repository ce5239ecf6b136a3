"""What is alive at one moment, by the stack that allocated it."""

from __future__ import annotations

from collections.abc import Iterator

from ..base.errors import UsageError
from ..base.records import dataclass
from .finding import Site


@dataclass(frozen=True)
class LiveStack:
    """Storages of one device that one stack allocated.

    ``frames`` are numbers in the table's ``frames``, innermost first;
    ``user`` of them is the user's line.
    """

    bytes: int
    storages: int
    device: str
    frames: tuple[int, ...] = ()
    user: int = 0


@dataclass(frozen=True)
class LiveTable:
    """Live storages as of ``step``, those that hold the most bytes first.

    Stacks that hold less are left out; the sums are of all.
    """

    step: int = 0
    live_bytes: int = 0
    storages: int = 0
    frames: tuple[Site, ...] = ()
    stacks: tuple[LiveStack, ...] = ()

    def __post_init__(self) -> None:
        for stack in self.stacks:
            if not all(0 <= n < len(self.frames) for n in stack.frames):
                raise UsageError("a stack has a frame that is not there")
            if stack.frames and not 0 <= stack.user < len(stack.frames):
                raise UsageError("a stack's line is none of its frames")

    def sites_of(self, stack: LiveStack) -> tuple[Site, ...]:
        """The stack's positions, innermost first."""
        return tuple(self.frames[number] for number in stack.frames)

    def rows(self) -> Iterator[tuple[LiveStack, tuple[Site, ...]]]:
        """Each stack with its positions."""
        for stack in self.stacks:
            yield stack, self.sites_of(stack)

    def line_of(self, stack: LiveStack) -> Site:
        """The user's line; unknown where no Python was running."""
        sites = self.sites_of(stack)
        return sites[stack.user] if sites else Site("", 0, "")

    @property
    def rest_bytes(self) -> int:
        """Bytes of the stacks that are left out."""
        return self.live_bytes - sum(stack.bytes for stack in self.stacks)

    @property
    def rest_storages(self) -> int:
        """Storages of the stacks that are left out."""
        return self.storages - sum(stack.storages for stack in self.stacks)
