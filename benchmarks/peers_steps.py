"""What each tool costs a training step that it watches."""

from __future__ import annotations

import importlib.util
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from memory import extra_memory
from pairs import compare
from steps import Step, timed, tiny_mlp, transformer
from torch.utils._python_dispatch import TorchDispatchMode
from tracker import nothing, their_profiler, watching

#: Opens something around a block of steps, gives the step to measure.
Around = Callable[[Step], AbstractContextManager[Step]]


@contextmanager
def by_tracemalloc(step: Step, frames: int = 1) -> Iterator[Step]:
    tracemalloc.start(frames)
    try:
        yield step
    finally:
        tracemalloc.stop()


def by_tracemalloc_deep(step: Step) -> AbstractContextManager[Step]:
    return by_tracemalloc(step, 25)


@contextmanager
def by_torch_profiler(step: Step, stacks: bool = False) -> Iterator[Step]:
    from torch.profiler import ProfilerActivity, profile

    with profile(
        activities=[ProfilerActivity.CPU],
        profile_memory=True,
        with_stack=stacks,
    ):
        yield step


def by_torch_profiler_stacks(step: Step) -> AbstractContextManager[Step]:
    return by_torch_profiler(step, True)


@contextmanager
def by_memray(step: Step) -> Iterator[Step]:
    import memray

    with (
        tempfile.TemporaryDirectory() as folder,
        memray.Tracker(Path(folder) / "memray.bin"),
    ):
        yield step


class Idle(TorchDispatchMode):
    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return operator(*args, **(kwargs or {}))


@contextmanager
def by_dispatch_mode(step: Step) -> Iterator[Step]:
    with Idle():
        yield step


#: The package that each needs, if any, and what it opens.
TOOLS: dict[str, tuple[str | None, Around]] = {
    "nothing (noise)": (None, nothing),
    "ImpactArbiter": (None, watching),
    "tracemalloc, 1 frame": (None, by_tracemalloc),
    "tracemalloc, 25 frames": (None, by_tracemalloc_deep),
    "torch.profiler, memory": (None, by_torch_profiler),
    "torch.profiler, memory and stacks": (None, by_torch_profiler_stacks),
    "memray": ("memray", by_memray),
    "Stormlog profile_function": ("stormlog", their_profiler),
    "idle dispatch mode": (None, by_dispatch_mode),
}


@dataclass(frozen=True)
class Kind:
    """A step, and how many of them make a measurement."""

    make: Callable[[], Step]
    count: int
    rounds: int


KINDS = {
    "MLP": Kind(tiny_mlp, 400, 20),
    "transformer": Kind(transformer, 8, 12),
}


@dataclass(frozen=True)
class Cost:
    """One tool around one step: the step's time in s, the ratio with its
    quartiles, and the bytes that so many steps took beside."""

    tool: str
    kind: str
    base: float
    low: float
    ratio: float
    high: float
    rounds: int
    extra: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def is_installed(tool: str) -> bool:
    needs = TOOLS[tool][0]
    return needs is None or importlib.util.find_spec(needs) is not None


def measure(tool: str, kind_name: str, effort: float) -> Cost:
    torch.set_num_threads(1)
    kind, around = KINDS[kind_name], TOOLS[tool][1]
    step = kind.make()

    def timed_in(opened: Around) -> float:
        with opened(step) as measured:
            return timed(measured, kind.count)

    timed_in(around)  # what is imported and made once
    row = compare(
        tool,
        lambda: timed_in(nothing),
        lambda: timed_in(around),
        max(int(kind.rounds * effort), 4),
    )
    _, extra = extra_memory(lambda: timed_in(around))
    return Cost(
        tool,
        kind_name,
        row.base,
        row.low,
        row.ratio,
        row.high,
        row.rounds,
        extra,
    )
