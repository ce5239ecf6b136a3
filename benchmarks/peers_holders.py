"""Who holds this tensor? The same twelve questions to each tool.

Each kind of holder is built in a module of its own, so that a right answer
has a beginning.  Y: the answer goes through the holder and names it.  n: it
goes through the holder, nameless.  -: no answer, or another.  What a name is
stands with each case; ours must print the whole expression.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import io
import itertools
import statistics
import sys
import time
import types
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from memory import extra_memory

SCENE = types.ModuleType("scene")
sys.modules["scene"] = SCENE
#: What every scene is written with.
exec(
    """
import functools, sys, threading, torch
from functools import lru_cache, partial

class Trainer:
    pass

class Slotted:
    __slots__ = ("payload",)

def remember(store):
    def hook(*args):
        return store
    return hook

@lru_cache(maxsize=None)
def cached(size):
    return torch.ones(size)

def numbers():
    kept = torch.ones(3)
    yield 1
    yield kept

def fail():
    batch = torch.ones(3)
    raise ValueError("no")

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.stash = torch.ones(3)
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def work(ready, go):
    outputs = [torch.ones(3)]
    ready.set()
    go.wait()
""",
    vars(SCENE),
)


@dataclass(frozen=True)
class Case:
    """One kind of holder.

    ``build`` is run in the scene; ``target`` and ``holder`` are expressions
    of it.  ``named``: words of which a named answer has all.  ``ours``: what
    our path must read.
    """

    kind: str
    build: str
    target: str
    holder: str
    named: tuple[str, ...]
    ours: str


CASES = (
    Case(
        "list attr",
        "trainer = Trainer(); trainer.history = [0, 1, torch.ones(3)]",
        "trainer.history[2]",
        "trainer.history",
        ("history", "[2]"),
        "scene.trainer.history[2]",
    ),
    Case(
        "closure",
        "callback = remember(torch.ones(3))",
        "callback.__closure__[0].cell_contents",
        "callback.__closure__[0]",
        ("callback",),
        "scene.callback.<closure>.store",
    ),
    Case(
        "hook",
        "layer = torch.nn.Identity();"
        " handle = layer.register_forward_hook(remember(torch.ones(3)))",
        "layer._forward_hooks[handle.id].__closure__[0].cell_contents",
        "layer._forward_hooks[handle.id]",
        ("_forward_hooks",),
        "_forward_hooks[",
    ),
    Case(
        "lru_cache",
        "cached(3)",
        "cached(3)",
        "cached",
        ("cached",),
        "scene.cached.<cache>(3)",
    ),
    Case(
        "generator",
        "stream = numbers(); next(stream)",
        "stream.gi_frame.f_locals['kept']",
        "stream",
        ("kept",),
        "kept",
    ),
    Case(
        "partial",
        "later = partial(print, torch.ones(3))",
        "later.args[0]",
        "later",
        ("later",),
        "scene.later.args[0]",
    ),
    Case(
        "slots",
        "slotted = Slotted(); slotted.payload = torch.ones(3)",
        "slotted.payload",
        "slotted",
        ("payload",),
        "scene.slotted.payload",
    ),
    Case(
        "traceback",
        "try:\n    fail()\nexcept ValueError as error:\n    kept = error",
        "kept.__traceback__.tb_next.tb_frame.f_locals['batch']",
        "kept.__traceback__",
        ("kept", "batch"),
        "batch",
    ),
    Case(
        "cycle",
        "knot = Trainer(); knot.me = knot; knot.data = torch.ones(3)",
        "knot.data",
        "knot",
        ("me",),
        "<Trainer>.me",
    ),
    Case(
        "ctx attr",
        "out = Scale.apply(torch.ones(3, requires_grad=True))",
        "out.grad_fn.stash",
        "out",
        ("stash",),
        ".stash",
    ),
    Case(
        "autograd-saved",
        "middle = torch.ones(3, requires_grad=True).exp();"
        " end = middle * middle",
        "middle",
        "end",
        ("saved",),
        ".saved[",
    ),
    Case(
        "running frame",
        "ready, go = threading.Event(), threading.Event();"
        " thread = threading.Thread(target=work, args=(ready, go));"
        " thread.start(); ready.wait()",
        "sys._current_frames()[thread.ident].f_back.f_back.f_locals['outputs']"
        "[0]",
        "sys._current_frames()[thread.ident].f_back.f_back.f_locals['outputs']",
        ("outputs",),
        "work().outputs[0]",
    ),
)
#: Names of the scene that go before the question: nothing but the holder
#: may hold.
DROPPED = {"cycle": ("knot",), "autograd-saved": ("middle",)}


class Answer(str):
    """What a tool says; ``through``: the ids of the objects on its path."""

    through: frozenset[int]

    def __new__(cls, text: str, through: Any = ()) -> Answer:
        made = super().__new__(cls, text)
        made.through = frozenset(map(id, through))
        return made


# -- the tools ----------------------------------------------------------------


#: Gives the tensor, so that no variable of the asker's holds it besides.
Get = Callable[[], object]


def ask_ours(get: Get) -> Answer:
    import impactarbiter

    found = impactarbiter.explain(get())
    lines = [str(path) for path in found.paths]
    if found.cycle is not None:
        lines.append(str(found.cycle))
    return Answer("\n".join(lines))


def ask_objgraph(get: Get) -> Answer:
    import objgraph

    chain = objgraph.find_backref_chain(get(), objgraph.is_proper_module)
    if len(chain) < 2:
        return Answer("")
    drawn = io.StringIO()
    objgraph.show_chain(chain, output=drawn)
    return Answer(drawn.getvalue(), chain)


def ask_refcycle(get: Get) -> Answer:
    import refcycle

    graph = refcycle.snapshot()
    try:
        path = graph.shortest_path(vars(SCENE), get())
    except (ValueError, KeyError):
        return Answer("")
    return Answer(path.to_dot(), list(path)) if path else Answer("")


def ask_guppy(get: Get) -> Answer:
    import guppy

    heap = guppy.hpy()
    text = str(heap.iso(get()).shpaths)
    # Its paths have no objects to look at: the words decide.
    return Answer(text)


def ask_pympler(get: Get) -> Answer:
    from pympler.refbrowser import RefBrowser

    seen: list[object] = []

    def note(referrer: object) -> str:
        seen.append(referrer)
        return type(referrer).__name__

    drawn = io.StringIO()
    # Deeper than three the tree of all referrers is the whole heap.
    tree = RefBrowser(get(), maxdepth=3, str_func=note, repeat=False)
    pending: list[Any] = [tree.get_tree()]
    while pending:
        node = pending.pop()
        drawn.write(f"{node}\n")
        pending += getattr(node, "children", ())
    return Answer(drawn.getvalue(), seen)


def ask_by_hand(get: Get) -> Answer:
    """Breadth first from ``sys.modules``, as one writes it in a debugger."""
    target = get()
    came_from: dict[int, object] = {id(sys.modules): None}
    left_alone = {id(came_from), id(sys._getframe())}
    pending: deque[object] = deque([sys.modules])
    while pending:
        parent = pending.popleft()
        for child in gc.get_referents(parent):
            if id(child) in came_from or id(child) in left_alone:
                continue
            came_from[id(child)] = parent
            if child is target:
                return chain_to(target, came_from)
            pending.append(child)
    return Answer("")


def chain_to(target: object, came_from: dict[int, object]) -> Answer:
    chain = [target]
    while (parent := came_from[id(chain[-1])]) is not None:
        chain.append(parent)
    chain.reverse()
    words = [
        key_of(child, parent) for parent, child in itertools.pairwise(chain)
    ]
    return Answer(" ".join(words), chain)


def key_of(child: object, parent: object) -> str:
    if type(parent) is dict:
        return next((str(k) for k, v in parent.items() if v is child), "")
    if type(parent) is list:
        return f"[{next(i for i, v in enumerate(parent) if v is child)}]"
    return type(parent).__name__


TOOLS: dict[str, tuple[str | None, Callable[[Get], Answer]]] = {
    "impactarbiter": (None, ask_ours),
    "objgraph": ("objgraph", ask_objgraph),
    "refcycle": ("refcycle", ask_refcycle),
    "guppy3": ("guppy", ask_guppy),
    "pympler": ("pympler", ask_pympler),
    "BFS by hand": (None, ask_by_hand),
}


# -- the table ----------------------------------------------------------------


def mark(case: Case, tool: str, answer: Answer, holder: int) -> str:
    """Y, n or -."""
    if tool == "impactarbiter":
        return "Y" if case.ours in answer else "-"
    named = all(word in answer for word in case.named)
    if not answer.through:
        return "Y" if named else "-"  # words are all that it gives
    if holder not in answer.through:
        return "-"
    return "Y" if named else "n"


def getter(case: Case, names: dict[str, Any]) -> Get:
    """Gives the target by what stays, or by its id where nothing does."""
    dropped = DROPPED.get(case.kind, ())
    if not dropped:
        return lambda: eval(case.target, names)
    address = id(eval(case.target, names))
    for name in dropped:
        del names[name]
    return lambda: ctypes.cast(address, ctypes.py_object).value


@dataclass(frozen=True)
class Reply:
    """What one tool says to one question, and how long it took (s)."""

    kind: str
    mark: str
    seconds: float


def ask(case: Case, tool: str) -> Reply:
    """The scene is built anew for each question: a tool may hold on to it."""
    names = vars(SCENE)
    before = set(names)
    gc.collect()
    gc.disable()
    try:
        exec(case.build, names)
        holder = id(eval(case.holder, names))
        return timed(case, tool, getter(case, names), holder)
    finally:
        if "go" in names:
            names["go"].set()
        for name in set(names) - before:
            del names[name]
        SCENE.cached.cache_clear()
        gc.enable()


def timed(case: Case, tool: str, get: Get, holder: int) -> Reply:
    start = time.perf_counter()
    try:
        answer = TOOLS[tool][1](get)
    except Exception as error:
        print(f"{tool}, {case.kind}: {error!r}"[:150], file=sys.stderr)
        answer = Answer("")
    seconds = time.perf_counter() - start
    return Reply(case.kind, mark(case, tool, answer, holder), seconds)


def is_installed(tool: str) -> bool:
    needs = TOOLS[tool][0]
    return needs is None or importlib.util.find_spec(needs) is not None


@dataclass(frozen=True)
class Asked:
    """One tool's replies; ``collection`` is what one ``gc.collect()`` of this
    heap takes (s), ``extra`` the most memory that a question took (B)."""

    tool: str
    objects: int
    collection: float
    median: float
    extra: int
    replies: tuple[Reply, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def collection_time() -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        gc.collect()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ask_all(tool: str, objects: int) -> Asked:
    import heaps

    there = heaps.fill(objects)
    collection = collection_time()
    ask(CASES[0], tool)  # what is imported at the first question
    replies, extra = extra_memory(
        lambda: tuple(ask(case, tool) for case in CASES)
    )
    median = statistics.median(reply.seconds for reply in replies)
    return Asked(tool, there, collection, median, extra, replies)
