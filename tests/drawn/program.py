"""Programs that are drawn by lot, with what is true of each.

A trainer keeps something at each step: in a container of one sort, behind a
chain of other things, in one object or in several that are alike; and lets go
of it in one way or in none.  What is kept, how often, and whether the objects
are changed, made anew or moved about at each step is drawn, too.
"""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass

#: What is kept, and as how many times the bytes of its own elements.
VALUES = {
    "tensor": ("torch.ones({n})", 1),
    "array": ("np.ones({n}, dtype=np.float32)", 1),
    "list": ("[0.5, torch.ones({n})]", 1),
    "tuple": ("(0.5, torch.ones({n}))", 1),
    "view": ("torch.ones(8, {n})[number]", 8),
    "graph": ("self.model(x).sum() * torch.ones({n})", 1),
}
#: What it is kept in: as it begins, how it grows, how it is emptied, cut to
#: so many, and halved.
HOLDERS = {
    "list": (
        "[]",
        "self.items.append(value)",
        "self.items.clear()",
        "del self.items[:-{bound}]",
        "del self.items[:len(self.items) // 2]",
    ),
    "dict": (
        "{{}}",
        "self.items[self.count] = value",
        "self.items.clear()",
        "self.items.pop(self.count - {bound}, None)",
        "self.items = dict(list(self.items.items())[len(self.items) // 2:])",
    ),
    "deque": (
        "collections.deque()",
        "self.items.append(value)",
        "self.items.clear()",
        "if len(self.items) > {bound}: self.items.popleft()",
        "for _ in range(len(self.items) // 2): self.items.popleft()",
    ),
    "set": (
        "set()",
        "self.items.add(value)",
        "self.items.clear()",
        "if len(self.items) > {bound}: self.items.pop()",
        "for _ in range(len(self.items) // 2): self.items.pop()",
    ),
    "lists in a dict": (
        "collections.defaultdict(list)",
        "self.items[self.count % 3].append(value)",
        "self.items.clear()",
        "del self.items[self.count % 3][:-{bound}]",
        "for kept in self.items.values(): del kept[:len(kept) // 2]",
    ),
    "pairs": (
        "None",
        "self.items = (value, self.items)",
        "self.items = None",
        "if self.count % {bound} == 0: self.items = None",
        "self.items = None",
    ),
    "attributes": (
        "None",
        'setattr(self, f"item_{{self.count}}", value)',
        "self.__dict__ = {{'items': None, 'count': self.count}}",
        'self.__dict__.pop(f"item_{{self.count - {bound}}}", None)',
        "self.__dict__ = {{'items': None, 'count': self.count}}",
    ),
    "one tensor": (
        "torch.zeros(0)",
        "self.items = torch.cat([self.items, value])",
        "self.items = torch.zeros(0)",
        "self.items = self.items[-{bound} * {n}:].clone()",
        "self.items = self.items[len(self.items) // 2:].clone()",
    ),
    "one array": (
        "np.zeros(0, dtype=np.float32)",
        "self.items = np.concatenate([self.items, value])",
        "self.items = np.zeros(0, dtype=np.float32)",
        "self.items = self.items[-{bound} * {n}:].copy()",
        "self.items = self.items[len(self.items) // 2:].copy()",
    ),
}
#: What leads to it: how it is wrapped, and how it is got at again.
LINKS = {
    "attribute": ("Plain({})", "{}.inner"),
    "dataclass": ("Box({})", "{}.inner"),
    "slots": ("Slotted({})", "{}.inner"),
    "list": ("[{}]", "{}[0]"),
    "dict": ('{{"a": {}}}', '{}["a"]'),
    "tuple": ("({},)", "{}[0]"),
    "closure": ("closure_of({})", "{}()"),
}
#: How it lets go: at the end of `add`, or now and then.
ENDS = ("keeps", "keeps", "is bounded", "is cleared", "is halved")
WORK = ("train", "train", "serve", "compute")
MOVES = ("stay", "stay", "are made anew", "change places")

PROGRAM = '''\
import collections
import dataclasses

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


class Store:
    def __init__(self):
        self.items = {begins}
        self.count = 0

    def add(self, value):
        self.count += 1
        {grows}
        {bounds}

    def let_go(self):
        {lets_go}

    def copy(self):
        other = Store()
        other.__dict__.update(self.__dict__)
        return other


class Plain:
    def __init__(self, inner):
        self.inner = inner


@dataclasses.dataclass
class Box:
    inner: object
    tag: str = "box"


class Slotted:
    __slots__ = ("inner", "tag")

    def __init__(self, inner):
        self.inner, self.tag = inner, "slotted"


def closure_of(inner):
    def get():
        return inner

    return get


class Trainer:
    def __init__(self):
        self.model = nn.Linear(16, 16)
        {optimizer}
        self.recent = collections.deque(maxlen=10)
        self.epoch = []
        self.root = self.wrapped([Store() for _ in range({fellows})])

    def wrapped(self, stores):
        return {wrapped}

    def stores(self):
        return {got}

    def train(self, x):
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    @torch.no_grad()
    def serve(self, x):
        return self.model(torch.randn(4000, 16)).mean()

    def compute(self, x):
        large = torch.randn(160, 160)
        return (large @ large.T).sum()

    def step(self, step):
        x = torch.randn(8, 16)
        self.recent.append(self.{work}(x))
        self.epoch.append(x.square())
        if step % 40 == 39:
            self.epoch.clear()
        if step >= {begin} and step % {every} == 0:
            self.keep(x)
        if step % {pause} == 0:
            for store in self.stores():
                store.let_go()
        {moves}

    def keep(self, x):
        for number, store in enumerate(self.stores()):
            store.add({value})


{run}
'''
#: Where the trainer is.
RUNS = {
    "a variable": """\
def main():
    trainer = Trainer()
    for step in range({steps}):
        trainer.step(step)


main()""",
    "a global": """\
trainer = Trainer()
for step in range({steps}):
    trainer.step(step)""",
    "a class's": """\
class Session:
    trainer = None

    @classmethod
    def run(cls):
        cls.trainer = Trainer()
        for step in range({steps}):
            cls.trainer.step(step)


Session.run()""",
    "a thread's": """\
def work():
    trainer = Trainer()
    for step in range({steps}):
        trainer.step(step)


import threading

worker = threading.Thread(target=work)
worker.start()
worker.join()""",
}


@dataclass(frozen=True)
class Drawn:
    """A program's text, and what is true of it: ``rate`` in bytes a step, 0
    where nothing is a leak, None where that is not known in advance;
    ``line`` is that of the statement by which it grows."""

    text: str
    says: str
    leaks: bool
    rate: float | None
    line: int


def draw(seed: int) -> Drawn:
    lot = random.Random(seed)
    holder = lot.choice(tuple(HOLDERS))
    value = lot.choice(tuple(VALUES))
    if holder.startswith("one "):
        value = holder.removeprefix("one ")
    if holder == "set" and value in ("array", "list"):
        value = "tensor"
    links = [lot.choice(tuple(LINKS)) for _ in range(lot.randrange(4))]
    moves = lot.choice(MOVES)
    fellows = lot.choice((1, 1, 2, 4))
    if moves == "change places":
        fellows = max(fellows, 3)
    end, every = lot.choice(ENDS), lot.choice((1, 1, 1, 2, 5))
    bound = lot.choice((8, 20, 40))
    work = lot.choice(WORK)
    # Enough for what is bounded to be full before the end of the run.
    steps = max(lot.choice((240, 300, 400)), 3 * 2 * bound * every)
    # A service is told from what comes before a training by its calls, and the
    # turns of any loop from a preparation by their time.
    steps *= {"train": 1, "serve": 10, "compute": 4}[work]
    begin = lot.choice((0, 0, steps // 4))
    place = lot.choice(tuple(RUNS))
    # What is smaller than this is no array that is seen.
    n = lot.choice((256, 1024, 3000))
    wrapped, got = "stores", "self.root"
    for link in links:
        got = LINKS[link][1].format(got)
    for link in reversed(links):
        wrapped = LINKS[link][0].format(wrapped)
    begins, grows, clears, bounds, halves = (
        text.format(n=n, bound=bound) for text in HOLDERS[holder]
    )
    lets_go = {"is cleared": clears, "is halved": halves}.get(end, "pass")
    made, times = VALUES[value]
    text = PROGRAM.format(
        begins=begins,
        grows=grows,
        bounds=bounds if end == "is bounded" else "",
        lets_go=lets_go,
        fellows=fellows,
        wrapped=wrapped,
        got=got,
        every=every,
        pause=lot.choice((10, 25, 40)),
        moves=textwrap.dedent(
            {
                "are made anew": "self.root = self.wrapped("
                "[store.copy() for store in self.stores()])",
                "change places": "self.stores().append(self.stores().pop(0))",
            }.get(moves, "")
        ),
        value=made.format(n=n),
        work=work,
        optimizer="self.optimizer = torch.optim.SGD("
        "self.model.parameters(), lr=0.01)"
        if work == "train"
        else "",
        begin=begin,
        run=RUNS[place].format(steps=steps),
    )
    leaks = end == "keeps"
    rate = 4.0 * n * times * fellows / every if leaks else 0.0
    lines = [line.strip() for line in text.splitlines()]
    return Drawn(
        text,
        f"{value} in {holder} behind {' '.join(links) or 'nothing'}; "
        f"{fellows} that {moves}; {end}, every {every} of {steps} from "
        f"{begin}; to {work}; in {place}",
        leaks,
        None if value == "graph" else rate,
        lines.index(grows) + 1,
    )
