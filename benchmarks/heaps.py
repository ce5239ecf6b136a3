"""Heaps to walk: ordinary objects, some tensors, one meta model, leaks."""

from __future__ import annotations

import collections
import functools
import gc
import random
from collections.abc import Callable

import torch
from torch import nn

#: What keeps the heap of this process alive; walked like any module.
kept: list[object] = []


class Record:
    """An instance as programs have them: attributes, a list, a dict."""

    def __init__(self, number: int, tensor: torch.Tensor | None) -> None:
        self.name = f"record {number}"
        self.tags = [number, self.name]
        self.fields = {"number": number, "text": self.name, "pair": self.tags}
        self.tensor = tensor
        self.other: Record | None = None


class Slotted:
    __slots__ = ("inner", "key")

    def __init__(self, key: int) -> None:
        self.key = key
        self.inner = (key, [key])


def meta_model(layers: int = 48) -> nn.Module:
    """Some 960 modules without memory behind their parameters."""
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def fill(objects: int, shuffled: bool = False) -> int:
    """Grows the heap to about that many gc objects; how many there are.

    ``shuffled``: records are listed in another order than they were made in,
    so that a walk jumps about in memory where the collector goes straight.
    """
    rng = random.Random(7)
    kept.append(meta_model())
    records: list[Record] = []
    rest: list[object] = []
    gc.disable()
    while len(gc.get_objects()) < objects:
        for _ in range(max(objects // 100, 100)):
            n = len(records)
            tensor = torch.ones(4) if n % 40 == 0 else None
            record = Record(n, tensor)
            record.other = rng.choice(records) if records else None
            records.append(record)
            if n % 4 == 0:
                rest.append(Slotted(n))
                rest.append({"key": (n, [n]), "set": {n, n + 1}})
    if shuffled:
        rng.shuffle(records)
    kept.append(records)
    kept.append(rest)
    gc.collect()
    gc.enable()
    return len(gc.get_objects())


# -- leaks -------------------------------------------------------------------


class Holder:
    """Has one of everything that a leak is found in."""

    def __init__(self) -> None:
        self.losses: list[object] = []
        self.by_step: dict[int, object] = {}
        self.recent: collections.deque[object] = collections.deque()


def _list_attribute() -> Callable[[object], object]:
    holder = Holder()
    kept.append(holder)
    return holder.losses.append


def _dict_value() -> Callable[[object], object]:
    holder = Holder()
    kept.append(holder)
    return lambda x: holder.by_step.__setitem__(len(holder.by_step), x)


def _deque() -> Callable[[object], object]:
    holder = Holder()
    kept.append(holder)
    return holder.recent.append


def _closure() -> Callable[[object], object]:
    seen: list[object] = []

    def remember(x: object) -> None:
        seen.append(x)

    kept.append(remember)
    return remember


def _partial() -> Callable[[object], object]:
    seen: list[object] = []
    bound = functools.partial(seen.append)
    kept.append(bound)
    return bound


KINDS = (_list_attribute, _dict_value, _deque, _closure, _partial)


def leaks(lines_of_source: int, holders: int) -> Callable[[], None]:
    """A step that leaks one tensor on each line, in so many holders.

    Every fifth one is a product that keeps its graph.
    """
    keep = [KINDS[i % len(KINDS)]() for i in range(holders)]
    lines = [
        f"    keep[{i % holders}](torch.ones(64)"
        f"{' * weight' if i % 5 == 0 else ''})"
        for i in range(lines_of_source)
    ]
    # Another name, other sites: both kinds of leak may run in one process.
    name = f"step_into_{holders}"
    source = "\n".join([f"def {name}():", *lines])
    namespace = {
        "keep": keep,
        "torch": torch,
        "weight": torch.ones(64, requires_grad=True),
    }
    exec(compile(source, "<string>", "exec"), namespace)
    step: Callable[[], None] = namespace[name]  # type: ignore[assignment]
    return step
