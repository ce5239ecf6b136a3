"""Reads what ``torch.cuda.memory._dump_snapshot`` wrote.

A pickle of dicts, lists, texts and numbers; one that holds anything else is
refused before anything of it is built.  docs/snapshots.md has the format.
"""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import ReportError
from ..core import traces
from ..model.finding import Site
from ..model.recording import Block, Recording
from ..model.words import StepKind

#: What no block's size exceeds, and all that were made together: sums of both
#: signs stay within 64 bits.
_MOST_BYTES = 1 << 48
_MOST_IN_ALL = 1 << 61
#: Frames of a stack that are kept.
_DEEPEST = 48
#: Folders of code that is no user's.
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.")
#: (end of the file's name, function) -> the event that it is a call of.
_EVENTS = {
    ("/torch/optim/optimizer.py", ""): "optimizer",
    ("/torch/autograd/graph.py", "_engine_run_backward"): "backward",
    ("/torch/autograd/__init__.py", "backward"): "backward",
    ("/torch/autograd/__init__.py", "grad"): "backward",
}
_KINDS: tuple[StepKind, ...] = ("optimizer", "backward")
_NO_FRAMES = Site("", 0, "")


def read_recordings(path: str | os.PathLike[str]) -> list[Recording]:
    """One for each device that something was recorded of.

    ReportError says in a line what is wrong; nothing is executed.
    """
    name = os.fspath(path)
    try:
        data = _plain(name)
        if isinstance(data, list):  # as torch 1.x wrote it
            data = {"segments": data}
        return list(_recordings(data))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _unreadable(name, reason) from None
    except MemoryError:
        raise _unreadable(name, "memory is too short for it") from None
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error)
        if isinstance(error, KeyError):
            reason = f"something of it has no {reason}"
        raise _unreadable(name, reason) from None


def _unreadable(name: str, why: str) -> ReportError:
    return ReportError(
        f"{name!r} is no memory snapshot: {why}; expected what"
        " torch.cuda.memory._dump_snapshot wrote; nothing in it was executed"
    )


def _plain(name: str) -> Any:
    with open(name, "rb") as stream:
        try:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return traces.read_plain(stream.read())  # empty, or a pipe
        with mapped:
            return traces.read_plain(mapped)


def _recordings(data: Any) -> Iterator[Recording]:
    segments = _list(_dict(data, "the file")["segments"], "segments")
    entries = _list(data.get("device_traces", []), "device_traces")
    _are_apart(segments, "a segment")
    _are_apart(entries, "a trace")
    by_device: dict[int, list[Any]] = {}
    for segment in segments:
        device = _count(_dict(segment, "a segment").get("device", 0))
        by_device.setdefault(device, []).append(segment)
    _are_apart([s["blocks"] for s in segments], "a list of blocks")
    names = _Names()
    for device in sorted({*by_device, *range(len(entries))}):
        trace = entries[device] if device < len(entries) else []
        trace = _list(trace, "a trace")
        if trace or device in by_device:
            own = by_device.get(device, [])
            yield _Device(names, trace).recording(device, own)


# -- what is in it ------------------------------------------------------------


def _dict(value: Any, what: str) -> dict[Any, Any]:
    if type(value) is not dict:
        raise TypeError(f"{what} is no dict")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"{what} is no list")
    return value


def _are_apart(values: list[Any], what: str) -> None:
    """A pickle may have one thing in many places, which would be read as
    often; torch makes each of these anew."""
    filled = [one for one in values if one and type(one) in (dict, list)]
    if len(set(map(id, filled))) < len(filled):
        raise ValueError(f"{what} of it stands in two places")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a name in it is no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("a figure in it is no count")
    return value


def _size(value: Any) -> int:
    if _count(value) > _MOST_BYTES:
        raise ValueError(f"a block of {value} bytes is too large to be one")
    return int(value)


class _Stack(NamedTuple):
    """What a list of frames says: the line that counts (an index), the
    events it is inside of, whether any of it is Python's."""

    site: int
    inside: frozenset[str]
    python: bool


_NO_STACK = _Stack(0, frozenset(), False)


class _Names:
    """Frames and stacks as they are shared in the file, each read once: a
    list that a million entries share costs what one costs."""

    def __init__(self) -> None:
        self.sites: list[Site] = [_NO_FRAMES]
        #: Of each site the last list of frames.
        self.frames: list[list[Any]] = [[]]
        self._ids: dict[Site, int] = {_NO_FRAMES: 0}
        self._known: dict[int, tuple[int, str, bool]] = {}
        self._stacks: dict[int, _Stack] = {}

    def stack(self, raw: Any) -> _Stack:
        """The user's line of a stack, the innermost of Python's else."""
        found = self._stacks.get(id(raw))
        if found is not None:
            return found
        inside, user, innermost = set(), 0, 0
        for frame in _list(raw, "frames"):
            site, event, is_user = self._frame(frame)
            innermost = innermost or site
            if is_user:
                user = user or site
            if event:
                inside.add(event)
        site = user or innermost
        if site:
            self.frames[site] = raw
        found = _Stack(site, frozenset(inside), innermost > 0)
        self._stacks[id(raw)] = found
        return found

    def _frame(self, raw: Any) -> tuple[int, str, bool]:
        """Its line, the event that it is, whether it is a user's."""
        found = self._known.get(id(raw))
        if found is None:
            site, event, is_user = _read_frame(raw)
            number = self._ids.setdefault(site, len(self._ids))
            if number == len(self.sites):
                self.sites.append(site)
                self.frames.append([])
            found = self._known[id(raw)] = number, event, is_user
        return found

    def positions(self, site: int) -> tuple[Site, ...]:
        """Python's frames of the site's last stack, innermost first."""
        known = (self._frame(raw)[0] for raw in self.frames[site])
        numbers = itertools.islice((n for n in known if n), _DEEPEST)
        return tuple(self.sites[number] for number in numbers)


def _read_frame(raw: Any) -> tuple[Site, str, bool]:
    raw = _dict(raw, "a frame")
    file, function = _text(raw["filename"]), _text(raw["name"])
    line = raw["line"]
    if type(line) is not int or not 0 <= line < 1 << 31:
        line = 0
    if not file.endswith(".py") and not file.startswith("<ipython"):
        # C++, or code that was made while the program ran.
        return _NO_FRAMES, "", False
    event = ""
    for (end, name), kind in _EVENTS.items():
        if file.endswith(end) and name in ("", function):
            event = kind
    user = not any(part in file for part in _LIBRARIES)
    return Site(file, line, function), event, user


class _Device:
    """One device's trace, entry by entry."""

    def __init__(self, names: _Names, trace: list[Any]) -> None:
        self._names = names
        self._trace = trace

    def recording(self, device: int, segments: list[Any]) -> Recording:
        """All of it; the trace's own clock is chosen first."""
        names = self._names
        kind, positions, end = self._clock()
        events, alive = self._events(positions)
        blocks = tuple(self._blocks(segments, alive))
        sizes = [abs(event[3]) for event in events]
        if sum(sizes) + sum(block.bytes for block in blocks) > _MOST_IN_ALL:
            raise ValueError("its blocks are too large to have been there")
        times = [
            _count(entry["time_us"])
            for entry in (*self._trace[:1], *self._trace[-1:])
            if "time_us" in entry
        ]
        span = (times[-1] - times[0]) / 1e6 if len(times) == 2 else 0.0
        return Recording(
            device=device,
            kind=kind,
            end=end,
            events=np.array(events, np.int64).reshape(-1, 4),
            sites=tuple(names.sites),
            stacks=tuple(map(names.positions, range(len(names.sites)))),
            blocks=blocks,
            seconds=span if span > 0 else None,
            ooms=sum(e["action"] == "oom" for e in self._trace),
            reserved_bytes=sum(
                _size(s.get("total_size", 0)) for s in segments
            ),
        )

    def _clock(self) -> tuple[StepKind, list[int], int]:
        """The kind of event that counts, each entry's position, the last.

        A call is a run of entries that were made inside of it: what comes
        without frames of Python, from the engine's threads, ends none.
        """
        counts = dict.fromkeys(_KINDS, 0)
        inside = dict.fromkeys(_KINDS, False)
        positions: dict[str, list[int]] = {kind: [] for kind in _KINDS}
        births, allocations = 0, []
        for entry in self._trace:
            stack = self._stack(_dict(entry, "an entry"))
            for kind in _KINDS:
                if stack.python:
                    now = kind in stack.inside
                    counts[kind] += inside[kind] and not now
                    inside[kind] = now
                positions[kind].append(counts[kind])
            births += _text(entry["action"]) == "alloc"
            allocations.append(births)
        for kind in _KINDS:
            end = counts[kind] + inside[kind]
            if end > 1:
                return kind, positions[kind], end
        return "allocation", allocations, births

    def _events(
        self, positions: list[int]
    ) -> tuple[list[tuple[int, int, int, int]], dict[int, Block]]:
        """Rows for the criterion, and what is alive by address.

        A block is let go when the program asks for that, though other
        streams may still need it.
        """
        alive: dict[int, Block] = {}
        events = []
        asked = any(e["action"] == "free_requested" for e in self._trace)
        frees = ("free_requested",) if asked else ("free_completed",)
        for entry, now in zip(self._trace, positions, strict=True):
            action = entry["action"]
            if action == "alloc":
                site = self._stack(entry).site
                block = Block(site, _size(entry["size"]), now)
                alive[_count(entry["addr"])] = block
                events.append((site, now, now, block.bytes))
            elif action in frees:
                gone = alive.pop(_count(entry["addr"]), None)
                if gone is None:
                    gone = Block(0, _size(entry["size"]), -1)
                events.append((gone.site, now, gone.born, -gone.bytes))
        return events, alive

    def _stack(self, thing: dict[Any, Any]) -> _Stack:
        frames = thing.get("frames")
        return _NO_STACK if frames is None else self._names.stack(frames)

    def _blocks(
        self, segments: list[Any], alive: dict[int, Block]
    ) -> Iterator[Block]:
        """What was alive when the snapshot was taken.

        Where there are segments they decide; the trace says when.
        """
        if not segments:
            yield from alive.values()
            return
        for segment in segments:
            at = _count(segment.get("address", 0))
            for raw in _list(segment["blocks"], "blocks"):
                size = _size(_dict(raw, "a block")["size"])
                if _text(raw["state"]) == "active_allocated":
                    yield self._block(raw, alive.get(raw.get("address", at)))
                at += size

    def _block(self, raw: dict[Any, Any], known: Block | None) -> Block:
        if known is not None:
            return known
        size = raw.get("requested_size", raw["size"])
        history = raw.get("history")
        if history:  # as torch 2.0 wrote it
            raw = _dict(_list(history, "history")[0], "history")
            size = raw.get("real_size", size)
        return Block(self._stack(raw).site, _size(size), -1)
