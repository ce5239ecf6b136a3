"""A caching allocator in plain Python: what it does, and what it reports.

It follows torch's CUDACachingAllocator in pools, rounding, best fit, cutting
and merging, on addresses that are made up.  Each call appends the events that
torch would send; the truth is summed over the blocks each time it is asked.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from impactarbiter import _core

MIN_BLOCK = 512
SMALL = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_LARGE = 10 << 20
PAGE = 2 << 20

(
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    OOM,
    KNOWN_ALLOCATED,
    KNOWN_PENDING,
    KNOWN_FREE,
) = range(len(_core.DEVICE_ACTIONS))

EVENT = np.dtype(_core.DEVICE_COLUMNS)
CUDA = 1 << 8

Event = tuple[int, int, int, int, int, int, int]


def as_array(events: Iterable[Event]) -> np.ndarray:
    return np.array(list(events), dtype=EVENT)


class OutOfMemory(Exception):
    pass


@dataclass
class Block:
    start: int
    size: int
    segment: Segment
    requested: int = 0
    state: str = "free"  # "free", "pending", "allocated", "unmapped"


@dataclass
class Segment:
    stream: int
    pool: int
    small: bool
    expandable: bool
    blocks: list[Block] = field(default_factory=list)  # by address


@dataclass
class Allocator:
    device: int = CUDA
    total: int = 1 << 30
    expandable: bool = False
    max_split: int = 1 << 62
    base: int = 0x7F0000000000
    segments: list[Segment] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ooms: int = 0

    # -- what it does -----------------------------------------------------

    def malloc(self, asked: int, stream: int = 0, pool: int = 0) -> Block:
        size = max(-(-asked // MIN_BLOCK) * MIN_BLOCK, MIN_BLOCK)
        small = size <= SMALL
        block = self._best_fit(size, stream, pool, small)
        if block is None and self.expandable:
            block = self._extend(size, stream, pool, small)
        elif block is None:
            block = self._new_segment(size, stream, pool, small)
        if block is None:
            self.ooms += 1
            left = self.total - self.reserved()
            self._tell(OOM, left, size, stream, pool)
            raise OutOfMemory
        rest = block.size - size
        fine = small or block.segment.expandable
        if (
            rest >= MIN_BLOCK
            if fine
            else size < self.max_split and (rest > SMALL)
        ):
            self._cut(block, size)
        block.state, block.requested = "allocated", asked
        self._tell(ALLOC, block.start, asked, stream, pool)
        return block

    def free(self, block: Block, still_used: bool = False) -> None:
        assert block.state == "allocated"
        block.state = "pending"
        self._tell_of(FREE_REQUESTED, block)
        if not still_used:
            self.complete(block)

    def complete(self, block: Block) -> None:
        """No stream uses it any more."""
        assert block.state == "pending"
        self._tell_of(FREE_COMPLETED, block)
        block.state, block.requested = "free", 0
        self._merge(block)

    def empty_cache(self) -> None:
        for segment in list(self.segments):
            if segment.expandable:
                self._unmap_free(segment)
            elif [b.state for b in segment.blocks] == ["free"]:
                (block,) = segment.blocks
                self.segments.remove(segment)
                self._tell(
                    SEGMENT_FREE,
                    block.start,
                    block.size,
                    segment.stream,
                    segment.pool,
                )

    # -- how --------------------------------------------------------------

    def _best_fit(
        self, size: int, stream: int, pool: int, small: bool
    ) -> Block | None:
        fitting = [
            block
            for segment in self.segments
            if (segment.stream, segment.pool, segment.small)
            == (stream, pool, small)
            for block in segment.blocks
            if block.state == "free" and block.size >= size
        ]
        best = min(fitting, key=lambda b: (b.size, b.start), default=None)
        if best and not small and not best.segment.expandable:
            if size < self.max_split <= best.size:
                return None
            if size >= self.max_split and best.size >= size + LARGE_SEGMENT:
                return None
        return best

    def _take_addresses(self, size: int) -> int:
        start = self.base
        self.base += -(-size // PAGE) * PAGE + PAGE
        return start

    def _new_segment(
        self, size: int, stream: int, pool: int, small: bool
    ) -> Block | None:
        if small:
            bytes_ = SMALL_SEGMENT
        elif size < MIN_LARGE:
            bytes_ = LARGE_SEGMENT
        else:
            bytes_ = -(-size // PAGE) * PAGE
        if self.reserved() + bytes_ > self.total:
            self.empty_cache()
            if self.reserved() + bytes_ > self.total:
                return None
        segment = Segment(stream, pool, small, expandable=False)
        block = Block(self._take_addresses(bytes_), bytes_, segment)
        segment.blocks.append(block)
        self.segments.append(segment)
        self._tell(SEGMENT_ALLOC, block.start, bytes_, stream, pool)
        return block

    def _extend(
        self, size: int, stream: int, pool: int, small: bool
    ) -> Block | None:
        """Maps pages at a free end, or at the front of what is unmapped."""
        segment = self._expandable_segment(stream, pool, small)
        page = SMALL_SEGMENT if small else LARGE_SEGMENT
        blocks = segment.blocks
        for i, unmapped in enumerate(blocks):
            if unmapped.state != "unmapped":
                continue
            before = blocks[i - 1] if i else None
            have = before.size if before and before.state == "free" else 0
            wanted = -(-(size - have) // page) * page
            if unmapped.size < wanted:
                continue
            if self.reserved() + wanted > self.total:
                return None
            if unmapped.size > wanted:
                self._cut(unmapped, wanted, "unmapped")
            unmapped.state = "free"
            self._tell(SEGMENT_MAP, unmapped.start, wanted, stream, pool)
            return self._merge(unmapped)
        return None

    def _expandable_segment(
        self, stream: int, pool: int, small: bool
    ) -> Segment:
        for segment in self.segments:
            if (segment.stream, segment.pool, segment.small) == (
                stream,
                pool,
                small,
            ):
                return segment
        segment = Segment(stream, pool, small, expandable=True)
        space = 2 * self.total
        start = self._take_addresses(space)
        segment.blocks.append(Block(start, space, segment, state="unmapped"))
        self.segments.append(segment)
        return segment

    def _unmap_free(self, segment: Segment) -> None:
        page = SMALL_SEGMENT if segment.small else LARGE_SEGMENT
        origin = segment.blocks[0].start
        for block in [b for b in segment.blocks if b.state == "free"]:
            first = origin + -(-(block.start - origin) // page) * page
            end = block.start + block.size
            last = origin + (end - origin) // page * page
            if first >= last:
                continue
            if first > block.start:
                block = self._cut(block, first - block.start)
            if last < end:
                self._cut(block, last - first)
            block.state = "unmapped"
            self._tell(
                SEGMENT_UNMAP,
                first,
                last - first,
                segment.stream,
                segment.pool,
            )
            self._merge(block)

    def _cut(self, block: Block, size: int, state: str = "free") -> Block:
        rest = Block(
            block.start + size, block.size - size, block.segment, state=state
        )
        block.size = size
        insort(block.segment.blocks, rest, key=lambda b: b.start)
        return rest

    def _merge(self, block: Block) -> Block:
        blocks = block.segment.blocks
        i = blocks.index(block)
        if i + 1 < len(blocks) and blocks[i + 1].state == block.state:
            block.size += blocks.pop(i + 1).size
        if i > 0 and blocks[i - 1].state == block.state:
            blocks.pop(i)
            blocks[i - 1].size += block.size
            block = blocks[i - 1]
        return block

    # -- what it reports --------------------------------------------------

    def _tell(
        self, action: int, address: int, size: int, stream: int, pool: int
    ) -> None:
        self.events.append(
            (address, size, 0, stream, pool, self.device, action)
        )

    def _tell_of(self, action: int, block: Block) -> None:
        segment = block.segment
        self._tell(
            action,
            block.start,
            block.requested,
            segment.stream,
            segment.pool,
        )

    def take_events(self) -> np.ndarray:
        events, self.events = as_array(self.events), []
        return events

    def snapshot(self) -> np.ndarray:
        """As ``torch.cuda.memory_snapshot()`` shows it: no unmapped part."""
        lines: list[Event] = []
        actions = {
            "allocated": KNOWN_ALLOCATED,
            "pending": KNOWN_PENDING,
            "free": KNOWN_FREE,
        }
        for segment in self.segments:
            place = (segment.stream, segment.pool, self.device)
            for run in _mapped_runs(segment):
                size = sum(b.size for b in run)
                kind = SEGMENT_MAP if segment.expandable else SEGMENT_ALLOC
                lines.append((run[0].start, size, 0, *place, kind))
                lines += [
                    (b.start, b.requested, b.size, *place, actions[b.state])
                    for b in run
                ]
        return as_array(lines)

    # -- the truth --------------------------------------------------------

    def blocks(self, *states: str) -> list[Block]:
        return [
            b
            for segment in self.segments
            for b in segment.blocks
            if b.state in states
        ]

    def reserved(self) -> int:
        return sum(b.size for b in self.blocks("free", "pending", "allocated"))

    def truth(self) -> dict[str, int]:
        allocated, pending = self.blocks("allocated"), self.blocks("pending")
        free = self.blocks("free")
        split = [
            b
            for b in free
            if not b.segment.expandable and len(b.segment.blocks) > 1
        ]
        mapped = [
            b for b in free + pending + allocated if b.segment.expandable
        ]
        private = [b for b in free + pending + allocated if b.segment.pool]
        return {
            "allocated_bytes": sum(b.size for b in allocated),
            "requested_bytes": sum(b.requested for b in allocated + pending),
            "pending_bytes": sum(b.size for b in pending),
            "reserved_bytes": self.reserved(),
            "mapped_bytes": sum(b.size for b in mapped),
            "private_bytes": sum(b.size for b in private),
            "inactive_split_bytes": sum(b.size for b in split),
            "largest_free_bytes": max((b.size for b in free), default=0),
            "allocated_count": len(allocated),
            "pending_count": len(pending),
            "segments": sum(not s.expandable for s in self.segments),
            "ooms": self.ooms,
            "drift": 0,
        }

    def streams(self) -> dict[int, tuple[int, int, int]]:
        """(allocated, pending, reserved) bytes of each, zeros left out."""
        sums: dict[int, list[int]] = {}
        for block in self.blocks("free", "pending", "allocated"):
            of = sums.setdefault(block.segment.stream, [0, 0, 0])
            of[0] += block.size * (block.state == "allocated")
            of[1] += block.size * (block.state == "pending")
            of[2] += block.size
        return {stream: (a, p, r) for stream, (a, p, r) in sums.items() if r}


def _mapped_runs(segment: Segment) -> list[list[Block]]:
    runs: list[list[Block]] = [[]]
    for block in segment.blocks:
        if block.state == "unmapped":
            runs.append([])
        else:
            runs[-1].append(block)
    return [run for run in runs if run]
