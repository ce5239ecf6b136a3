"""One case for each kind of reference: the path as it is printed, and that
what claims to be Python gives the very object.

Each case is the source of a module ``scene`` that puts the tensor ``t``
somewhere.  Where it defines ``run(ask)``, that is called, and the question is
asked inside; else it is asked once the module has run.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter.model.path import Path

FILE = "/home/user/scene.py"

CASES: dict[str, tuple[str, str, bool]] = {}


def case(
    name: str, expected: str, source: str, python: bool | None = None
) -> None:
    """``python`` where the text alone does not tell whether it is Python."""
    assert name not in CASES
    if python is None:
        python = not set("<\u2192") & set(expected) and "()" not in expected
    CASES[name] = (expected, inspect.cleandoc(source), python)


# -- instances ---------------------------------------------------------------

case(
    "inline values",
    "scene.box.x",
    """
    class Box: pass
    box = Box()
    box.x = t
    """,
)
case(
    "materialised dict",
    "scene.box.x",
    """
    class Box: pass
    box = Box()
    box.x = t
    box.__dict__
    """,
)
case(
    "materialised dict, key that is no name",
    "scene.box.__dict__['a b']",
    """
    class Box: pass
    box = Box()
    box.__dict__['a b'] = t
    """,
)
case(
    "attribute named by a keyword",
    "scene.box.__dict__['class']",
    """
    class Box: pass
    box = Box()
    setattr(box, 'class', t)
    """,
)
case(
    "slots",
    "scene.box.x",
    """
    class Box: __slots__ = ('w', 'x')
    box = Box()
    box.w, box.x = 1, t
    """,
)
case(
    "inherited slots",
    "scene.box.x",
    """
    class Base: __slots__ = ('x',)
    class Box(Base): __slots__ = ('y',)
    box = Box()
    box.x = t
    """,
)
case(
    "dataclass",
    "scene.box.x",
    """
    from dataclasses import dataclass
    @dataclass
    class Box: x: object
    box = Box(t)
    """,
)
case(
    "dataclass slots",
    "scene.box.x",
    """
    from dataclasses import dataclass
    @dataclass(slots=True, frozen=True)
    class Box: x: object
    box = Box(t)
    """,
)
case(
    "private name",
    "scene.box._Box__x",
    """
    class Box:
        def __init__(self, x): self.__x = x
    box = Box(t)
    """,
)
case(
    "namespace",
    "scene.box.x",
    """
    import types
    box = types.SimpleNamespace(x=t)
    """,
)
case(
    "cached_property",
    "scene.box.x",
    """
    from functools import cached_property
    class Box:
        @cached_property
        def x(self): return globals()['t']
    box = Box()
    box.x
    """,
)
case(
    "attribute of a function",
    "scene.f.cache['a']",
    """
    def f(): pass
    f.cache = {'a': t}
    """,
)
case(
    "list subclass",
    "scene.box.x",
    """
    class Box(list): pass
    box = Box()
    box.x = t
    """,
)
case(
    "property in the way of an attribute",
    "scene.box.x",
    """
    class Box:
        x = property(lambda self: None)
    box = Box()
    box.__dict__['x'] = t
    """,
    python=False,
)

# -- containers --------------------------------------------------------------

for number, (key, shown) in enumerate(
    [
        ("'a'", "'a'"),
        ('"it\'s"', '"it\'s"'),
        ("7", "7"),
        ("-1.5", "-1.5"),
        ("None", "None"),
        ("True", "True"),
        ("b'x'", "b'x'"),
        ("('a', (1, None))", "('a', (1, None))"),
        ("10 ** 100", "<key of type int>"),
        ("float('inf')", "<key of type float>"),
        ("'x' * 100", "<key of type str>"),
        ("object()", "<key of type object>"),
        ("Key()", "<key of type Key>"),
        ("(Key(),)", "<key of type tuple>"),
        ("Word('a')", "<key of type Word>"),
        ("Color.RED", "<Color.RED>"),
        ("frozenset({1})", "<key of type frozenset>"),
    ]
):
    case(
        f"dict key {number}: {key}",
        f"scene.d[{shown}]",
        f"""
        import enum
        class Key:
            def __repr__(self): raise AssertionError
        class Word(str):
            def __repr__(self): raise AssertionError
        class Color(enum.Enum):
            RED = 1
        d = {{{key}: t}}
        """,
    )
case("tensor as a key", "scene.d.<key: Tensor>", "d = {t: 1}")
case("list", "scene.l[1]", "l = [None, t]")
case("tuple", "scene.l[1][0]", "l = (None, [t])")
case("set", "scene.s.<member>", "s = {t}")
case("frozenset", "scene.s.<member>", "s = frozenset({t})")
case(
    "deque",
    "scene.q[2]",
    """
    from collections import deque
    q = deque([1, 2, t, 3], maxlen=100)
    """,
)
case(
    "OrderedDict",
    "scene.d['a']",
    """
    from collections import OrderedDict
    d = OrderedDict(b=1, a=t)
    """,
)
case(
    "defaultdict",
    "scene.d['a'][0]",
    """
    from collections import defaultdict
    d = defaultdict(list)
    d['a'].append(t)
    """,
)
case(
    "default_factory",
    "scene.d.default_factory.<closure>.t",
    """
    from collections import defaultdict
    def make(t): return lambda: t
    d = defaultdict(make(t))
    """,
)
case(
    "mappingproxy",
    "scene.p['a']",
    """
    import types
    p = types.MappingProxyType({'a': t})
    """,
)
case(
    "dict that overrides [] is no Python",
    "scene.d['a']",
    """
    class D(dict):
        def __getitem__(self, key): raise AssertionError
    d = D(a=t)
    """,
    python=False,
)
case(
    "namedtuple",
    "scene.batch.loss",
    """
    from collections import namedtuple
    batch = namedtuple('Batch', 'x loss')(1, t)
    """,
)
case(
    "UserDict",
    "scene.d.data['a']",
    """
    from collections import UserDict
    d = UserDict(a=t)
    """,
)
case(
    "WeakKeyDictionary",
    "scene.d.data[<weak key of type Box>]",
    """
    import weakref
    class Box: pass
    box = Box()
    d = weakref.WeakKeyDictionary({box: t})
    """,
)
case(
    "Queue",
    "scene.q.queue[0]",
    """
    import queue
    q = queue.Queue()
    q.put(t)
    """,
)
case(
    "SimpleQueue",
    "scene.q.<queue>[0]",
    """
    import queue
    q = queue.SimpleQueue()
    q.put(t)
    """,
)
case(
    "PriorityQueue",
    "scene.q.queue[0][1]",
    """
    import queue
    q = queue.PriorityQueue()
    q.put((1, t))
    """,
)

# -- classes, modules, functions ---------------------------------------------

case("module", "scene.kept", "kept = t")
case(
    "module that is in no table",
    "scene.lost.kept",
    """
    import types
    lost = types.ModuleType('lost')
    lost.kept = t
    """,
)
case("class attribute", "scene.Box.x", "class Box: x = t")
case(
    "class attribute behind a metaclass",
    "scene.Box.registry['a']",
    """
    class Meta(type): pass
    class Box(metaclass=Meta): registry = {'a': t}
    """,
)
case(
    "staticmethod",
    "scene.Box.f.__defaults__[0]",
    """
    class Box:
        @staticmethod
        def f(x=t): pass
    """,
)
case(
    "classmethod",
    "scene.Box.f.__func__.__defaults__[0]",
    """
    class Box:
        @classmethod
        def f(cls, x=t): pass
    """,
)
case(
    "property",
    "scene.Box.p.fget.__defaults__[0]",
    """
    class Box:
        @property
        def p(self, x=t): pass
    """,
)
case("default", "scene.f.__defaults__[1]", "def f(a=1, b=t): pass")
case("keyword default", "scene.f.__kwdefaults__['b']", "def f(*, b=t): pass")
# From 3.14 on they are made when they are asked for.
case(
    "annotation",
    "scene.f.__annotations__['b']",
    """
    def f(a: 1, b: t): pass
    f.__annotations__
    """,
)
case(
    "class annotation",
    "scene.Box.__annotations__['b']",
    """
    class Box: b: t
    Box.__annotations__
    """,
)
case(
    "closure",
    "scene.f.<closure>.store['a']",
    """
    def make(store):
        unused = 1
        def f(): return store, unused
        return f
    f = make({'a': t})
    """,
)
case(
    "closure of a class",
    "scene.Box.m.<closure>.store[0]",
    """
    def make(store):
        class Box:
            def m(self): return store
        return Box
    Box = make([t])
    """,
)
case(
    "cell",
    "scene.c.cell_contents",
    """
    import types
    c = types.CellType(t)
    """,
)
case(
    "bound method",
    "scene.m.__self__.x",
    """
    class Box:
        def m(self): pass
    box = Box()
    box.x = t
    m = box.m
    del box
    """,
)
case("method of a built-in", "scene.add.__self__[0]", "add = [t].append")
case(
    "what has a name besides that of a bound method",
    "scene.job.tuner.model.x",
    """
    class Box:
        def m(self): pass
    job, job.tuner, job.tuner.model = Box(), Box(), Box()
    job.tuner.model.x = t
    m, job.m = (job.tuner.model.m,) * 2
    """,
)
case(
    "what has a name besides that of a list's method",
    "scene.job.tuner.kept[0]",
    """
    class Box: pass
    job, job.tuner = Box(), Box()
    job.tuner.kept = [t]
    add = job.tuner.kept.append
    """,
)
case("method wrapper", "scene.add.__self__[0]", "add = [t].__add__")
case(
    "partial, position",
    "scene.p.args[1]",
    """
    from functools import partial
    p = partial(print, 1, t)
    """,
)
case(
    "partial, keyword",
    "scene.p.keywords['x']",
    """
    from functools import partial
    p = partial(print, x=t)
    """,
)
case(
    "wrapped function",
    "scene.f.__wrapped__.__defaults__[0]",
    """
    import functools
    def g(x=t): pass
    @functools.wraps(g)
    def f(): pass
    del g
    """,
)
for number, (how, call, shown) in enumerate(
    [
        ("lru_cache", "3", "3"),
        ("lru_cache()", "'a', 2", "'a', 2"),
        ("lru_cache(maxsize=8)", "'a', mode='fast'", "'a', mode='fast'"),
        ("lru_cache(None)", "'a', n=2", "'a', n=2"),
        ("lru_cache(typed=True)", "3, mode='fast'", "3, mode='fast'"),
        ("lru_cache", "Key()", "<Key>"),
        ("lru_cache", "", ""),
        ("cache", "3", "3"),
    ]
):
    case(
        f"lru_cache {number}",
        f"scene.f.<cache>({shown})",
        f"""
        from functools import cache, lru_cache
        class Key: pass
        @{how}
        def f(*args, **kwargs): return globals()['t']
        f({call})
        """,
    )
case(
    "lru_cache, argument",
    "scene.f.<cache>.<argument 1>",
    """
    from functools import lru_cache
    @lru_cache
    def f(*args): return None
    f('a', t)
    """,
)
case(
    "lru_cache, keyword argument",
    "scene.f.<cache>.<argument x>",
    """
    from functools import lru_cache
    @lru_cache(None)
    def f(*args, **kwargs): return None
    f('a', x=t)
    """,
)
case(
    "lru_cache, the function",
    "scene.f.__wrapped__.__defaults__[0]",
    """
    from functools import lru_cache
    @lru_cache
    def f(x=t): return None
    f(1)
    """,
)
case(
    "weakref callback",
    "scene.r.__callback__.<closure>.t",
    """
    import weakref
    class Box: pass
    box = Box()
    def make(t): return lambda ref: t
    r = weakref.ref(box, make(t))
    """,
)
case(
    "finalizer",
    "weakref.finalize._registry[<key of type finalize>].args[0]",
    """
    import weakref
    class Box: pass
    box = Box()
    weakref.finalize(box, print, t).atexit = False
    """,
)

# -- generators, coroutines, frames ------------------------------------------

case(
    "generator",
    "scene.g.<locals>.x",
    """
    def make(x):
        yield 1
    g = make(t)
    next(g)
    """,
)
case(
    "generator that has not begun",
    "scene.g.<locals>.x",
    """
    def make(x):
        yield 1
    g = make(t)
    """,
)
case(
    "generator's cell",
    "scene.g.<locals>.x",
    """
    def make(x):
        yield lambda: x
    g = make(t)
    next(g)
    """,
)
case(
    "generator's loop",
    "scene.g.<loop>[1]",
    """
    def make():
        for i in [1, globals()['t']]: yield
    g = make()
    next(g)
    """,
)
case(
    "generator that delegates",
    "scene.g.gi_yieldfrom.<locals>.x",
    """
    def inner(x):
        yield 1
    def outer():
        yield from inner(globals()['t'])
    g = outer()
    next(g)
    """,
)
case(
    "coroutine",
    "scene.c.<locals>.x",
    """
    import types
    @types.coroutine
    def pause(): yield
    async def make(x):
        await pause()
    c = make(t)
    c.send(None)
    """,
)
case(
    "coroutine that awaits",
    "scene.c.cr_await.<locals>.x",
    """
    import types
    @types.coroutine
    def pause(): yield
    async def inner(x):
        await pause()
    async def outer():
        await inner(globals()['t'])
    c = outer()
    c.send(None)
    """,
)
case(
    "async generator",
    "scene.g.<locals>.x",
    """
    async def make(x):
        yield 1
    g = make(t)
    try: g.asend(None).send(None)
    except StopIteration: pass
    """,
)
case(
    "generator expression",
    "scene.g.<loop>[1]",
    """
    g = (x for x in [1, t])
    next(g)
    """,
)
case(
    "running function",
    "run().x[0]",
    """
    def run(ask):
        x = [globals().pop('t')]
        ask()
    """,
)
case(
    "running function, cell",
    "run().x[0]",
    """
    def run(ask):
        x = [globals().pop('t')]
        f = lambda: x
        ask()
    """,
)
case(
    "running function, free variable",
    "run().x[0]",
    """
    def run(ask):
        x = [globals().pop('t')]
        def inner():
            ask()
            return x
        del_x = [inner]
        inner()
    """,
)
case(
    "the variable of a loop, and what lasts",
    "run().trainer.callbacks[0].acts[0]",
    """
    class Box: pass
    def run(ask):
        trainer = Box()
        trainer.callbacks = [Box()]
        trainer.callbacks[0].acts = [globals().pop('t')]
        for number, callback in enumerate(trainer.callbacks):
            ask()
    """,
)
case(
    "the variable of a loop alone",
    "run().kept[0]",
    """
    def run(ask):
        for kept in [[globals().pop('t')]]:
            ask()
    """,
)
case(
    "running method",
    "Trainer.fit().self.history[0]",
    """
    class Trainer:
        def fit(self, ask):
            self.history = [globals().pop('t')]
            ask()
    def run(ask):
        Trainer().fit(ask)
    """,
)
case(
    "running generator",
    "make().x[0]",
    """
    def make(ask):
        x = [globals().pop('t')]
        ask()
        yield
    def run(ask):
        next(make(ask))
    """,
)
case(
    "running coroutine",
    "make().x[0]",
    """
    async def make(ask):
        x = [globals().pop('t')]
        ask()
    def run(ask):
        try: make(ask).send(None)
        except StopIteration: pass
    """,
)
case(
    "running async generator",
    "make().x[0]",
    """
    async def make(ask):
        x = [globals().pop('t')]
        ask()
        yield
    def run(ask):
        try: make(ask).asend(None).send(None)
        except StopIteration: pass
    """,
)
case(
    "function running in another thread",
    "worker().x[0]",
    """
    import threading
    def worker(ready, done):
        x = [globals().pop('t')]
        ready.set()
        done.wait()
    def run(ask):
        ready, done = threading.Event(), threading.Event()
        thread = threading.Thread(target=worker, args=(ready, done))
        thread.start()
        ready.wait()
        ask()
        done.set()
        thread.join()
    """,
)
case(
    "class body that runs",
    "run.<locals>.Box().x[0]",
    """
    def run(ask):
        class Box:
            x = [globals().pop('t')]
            ask()
    """,
)
case(
    "frame object",
    "scene.frame.f_locals['x'][0]",
    """
    import sys
    def f(x):
        return sys._getframe()
    frame = f([t])
    """,
)

# -- exceptions --------------------------------------------------------------

case(
    "traceback",
    "scene.error.__traceback__.tb_next.tb_frame.f_locals['x'][0]",
    """
    def f(x): raise ValueError
    try: f([t])
    except ValueError as e: error = e
    """,
)
case(
    "exception's context",
    "scene.error.__context__.args[0]",
    """
    try:
        try: raise ValueError(t)
        except ValueError: raise KeyError
    except KeyError as e: error = e.with_traceback(None)
    error.__context__.__traceback__ = None
    """,
)
case(
    "exception's attribute",
    "scene.error.x",
    """
    error = ValueError()
    error.x = t
    """,
)
case(
    "exception's note of another type",
    "scene.error.value",
    "error = StopIteration(t); error.args = ()",
)
case(
    "last_value",
    "sys.last_value.__cause__.args[0]",
    """
    import sys
    sys.last_value = ValueError()
    sys.last_value.__cause__ = ValueError(t)
    """,
)
case(
    "exception being handled",
    "<exception being handled>.args[0]",
    """
    def run(ask):
        try: raise ValueError(globals().pop('t'))
        except ValueError: ask()
    """,
)
case(
    "exception group",
    "scene.error.exceptions[1].args[0]",
    "error = ExceptionGroup('x', [ValueError(), ValueError(t)])",
)

# -- iterators ---------------------------------------------------------------

for name, made, shown in [
    ("list", "iter([1, t])", "[1]"),
    ("tuple", "iter((1, t))", "[1]"),
    ("dict items", "iter({'a': t}.items())", "['a']"),
    ("dict values", "iter({'a': t}.values())", "['a']"),
    ("dict keys", "iter({t: 1})", ".<key: Tensor>"),
    ("set", "iter({t})", ".<member>"),
    ("deque", "iter(deque([t]))", "[0]"),
    ("reversed", "reversed([1, t])", "[1]"),
    ("enumerate", "enumerate([1, t])", "[1]"),
    ("filter", "filter(None, [1, t])", "[1]"),
    ("islice", "itertools.islice([1, t], 1)", "[1]"),
    ("takewhile", "itertools.takewhile(bool, [1, t])", "[1]"),
]:
    case(
        f"iterator: {name}",
        "scene.i.<iterable>" + shown,
        f"""
        import itertools
        from collections import deque
        i = {made}
        """,
    )
case("iterator: zip", "scene.i.<iterable 1>[0]", "i = zip([1], [t])")
case("iterator: map", "scene.i.<iterable 0>[1]", "i = map(id, [1, t])")
case(
    "iterator: map's function",
    "scene.i.<function>.__defaults__[0]",
    "i = map(lambda x, y=t: y, [1])",
)
case(
    "iterator: cycle",
    "scene.i.<iterable>[0]",
    """
    import itertools
    i = itertools.cycle([t])
    """,
)
case(
    "iterator: what a cycle has saved",
    "scene.i.<saved>[0]",
    """
    import itertools
    i = itertools.cycle(map(lambda x: x[0], [[t]]))
    next(i)
    """,
)
case(
    "iterator: chain",
    "scene.i.<iterable>[0]",
    """
    import itertools
    i = itertools.chain([t])
    next(i)
    """,
)
case("dict view", "scene.v.mapping['a']", "v = {'a': t}.values()")

# -- contexts, threads, logging, asyncio -------------------------------------

case(
    "context",
    "scene.c[<ContextVar 'state'>][0]",
    """
    import contextvars
    var = contextvars.ContextVar('state')
    c = contextvars.copy_context()
    c.run(var.set, [t])
    del var
    """,
)
case(
    "context with many variables",
    "scene.c[<ContextVar 'state 77'>][0]",
    """
    import contextvars
    c = contextvars.copy_context()
    for n in range(300):
        var = contextvars.ContextVar(f'state {n}')
        c.run(var.set, [t] if n == 77 else n)
    del var
    """,
)
case(
    "current context",
    # From 3.14 on what a running call has on its stack is seen.
    ("run().<temporary>" if sys.version_info >= (3, 14) else "<context>")
    + "[<ContextVar 'state'>][0]",
    """
    import contextvars
    def body(ask):
        contextvars.ContextVar('state').set([globals().pop('t')])
        ask()
    def run(ask):
        contextvars.copy_context().run(body, ask)
    """,
)
case(
    "context variable's default",
    "scene.var.<default>[0]",
    """
    import contextvars
    var = contextvars.ContextVar('state', default=[t])
    """,
)
case(
    "context token",
    "scene.token.old_value",
    """
    import contextvars
    var = contextvars.ContextVar('state')
    var.set(t)
    token = var.set(None)
    """,
)
case(
    "threading.local",
    "scene.local.x[0]",
    """
    import threading
    local = threading.local()
    local.x = [t]
    """,
)
case(
    "threading.local of another thread",
    "scene.local.<thread 'loader'>.x[0]",
    """
    import threading
    local = threading.local()
    def worker(ready, done):
        local.x = [globals().pop('t')]
        ready.set()
        done.wait()
    def run(ask):
        ready, done = threading.Event(), threading.Event()
        thread = threading.Thread(
            target=worker, args=(ready, done), name='loader')
        thread.start()
        ready.wait()
        ask()
        done.set()
        thread.join()
    """,
)
#: Another thread than the main one asks.
ASKS = """
    def run(ask):
        thread = threading.Thread(target=worker, args=(ask,), name='asks')
        thread.start()
        thread.join()
    """
case(
    "threading.local of the asking thread",
    "scene.local.<thread 'asks'>.x[0]",
    """
    import threading
    local = threading.local()
    def worker(ask):
        local.x = [globals().pop('t')]
        ask()
    """
    + ASKS,
)
case(
    "threading.local of the main thread, asked by another",
    "scene.local.x[0]",
    """
    import threading
    local = threading.local()
    local.x = [t]
    def worker(ask):
        ask()
    """
    + ASKS,
)
case(
    "threading.local with arguments",
    "scene.local.x",
    """
    import threading
    class Local(threading.local):
        def __init__(self): self.x = globals()['t']
    local = Local()
    """,
)
case(
    "thread's arguments",
    "scene.thread._args[0]",
    """
    import threading
    thread = threading.Thread(target=print, args=(t,))
    """,
)
case(
    "logging handler",
    "scene.handler.buffer[0].args[0]",
    """
    import logging, logging.handlers
    handler = logging.handlers.MemoryHandler(10)
    handler.emit(logging.LogRecord('n', 10, 'p', 1, 'm %s', (t,), None))
    """,
)
case(
    "future",
    "scene.future._result[0]",
    """
    import concurrent.futures
    future = concurrent.futures.Future()
    future.set_result([t])
    """,
)
case(
    "asyncio task, coroutine",
    "scene.task._coro.<locals>.x[0]",
    """
    import asyncio
    async def work(x):
        await asyncio.sleep(100)
    async def main():
        global task
        task = asyncio.ensure_future(work([globals()['t']]))
        await asyncio.sleep(0)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    def run(ask):
        ask()
        task.cancel()
        try: loop.run_until_complete(task)
        except asyncio.CancelledError: pass
        loop.close()
    """,
)
case(
    "asyncio task, result",
    "scene.task._result[0]",
    """
    import asyncio
    async def work():
        return [globals()['t']]
    async def main():
        global task
        task = asyncio.ensure_future(work())
        await task
    asyncio.run(main())
    """,
)
case(
    "asyncio task, context",
    "scene.task.<context>[<ContextVar 'state'>][0]",
    """
    import asyncio, contextvars
    async def work():
        contextvars.ContextVar('state').set([globals()['t']])
    async def main():
        global task
        task = asyncio.ensure_future(work())
        await task
    asyncio.run(main())
    """,
)
case(
    "asyncio queue",
    "scene.q._queue[0]",
    """
    import asyncio
    q = asyncio.Queue()
    q.put_nowait(t)
    """,
)
case(
    "itemgetter's like",
    "scene.a.__args__[0]",
    "a = list[t]",
)
case("slice", "scene.s.stop", "s = slice(1, t)")

# -- NumPy and buffers -------------------------------------------------------

case("array over a tensor", "scene.a.base", "a = t.numpy(); t = a.base")
case(
    "slice of such an array",
    "scene.a.base.base",
    "a = t.numpy(); t = a.base; a = a[1:]",
)
case(
    "object array",
    "scene.a[1]",
    """
    import numpy
    a = numpy.empty(2, object)
    a[1] = t
    """,
)
case(
    "object array, first item",
    "scene.a[0]",
    """
    import numpy
    a = numpy.empty(2, object)
    a[0] = t
    """,
)
case(
    "object array of two dimensions",
    "scene.a.flat[4]",
    """
    import numpy
    a = numpy.empty((2, 3), object)
    a[1, 1] = t
    """,
)
case(
    "object array in Fortran order",
    "scene.a.flat[4]",
    """
    import numpy
    a = numpy.empty((2, 3), object, order='F')
    a[1, 1] = t
    """,
)
case(
    "memoryview",
    "scene.m.obj.base",
    "a = t.numpy(); t = a.base; m = memoryview(a); del a",
)

# -- torch.nn ----------------------------------------------------------------

case(
    "parameter",
    "scene.model.w",
    """
    import torch
    model = torch.nn.Module()
    t = model.w = torch.nn.Parameter(t)
    """,
)
case(
    "buffer",
    "scene.model.w",
    """
    import torch
    model = torch.nn.Module()
    model.register_buffer('w', t)
    """,
)
case(
    "sub-module",
    "scene.model.inner.weight",
    """
    import torch
    model = torch.nn.Module()
    model.inner = torch.nn.Linear(2, 2)
    t = model.inner.weight
    """,
)
case(
    "Sequential",
    "scene.model[1].weight",
    """
    import torch
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 2))
    t = model[1].weight
    """,
)
case(
    "Sequential with names",
    "scene.model.head.weight",
    """
    import torch
    model = torch.nn.Sequential()
    model.add_module('head', torch.nn.Linear(2, 2))
    t = model.head.weight
    """,
)
case(
    "ModuleList",
    "scene.model.layers[2].bias",
    """
    import torch
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList(
        torch.nn.Linear(2, 2) for _ in range(3))
    t = model.layers[2].bias
    """,
)
case(
    "ModuleDict",
    "scene.model['head'].bias",
    """
    import torch
    model = torch.nn.ModuleDict({'head': torch.nn.Linear(2, 2)})
    t = model['head'].bias
    """,
)
case(
    "ParameterList",
    "scene.model.all[1]",
    """
    import torch
    model = torch.nn.Module()
    model.all = torch.nn.ParameterList([torch.ones(1), torch.ones(2)])
    t = model.all[1]
    """,
)
case(
    "ParameterDict",
    "scene.model['a b']",
    """
    import torch
    model = torch.nn.ParameterDict({'a b': torch.ones(1)})
    t = model['a b']
    """,
)
case(
    "child with another name",
    "scene.model._modules['0'].bias",
    """
    import torch
    model = torch.nn.Module()
    model.add_module('0', torch.nn.Linear(2, 2))
    t = model.get_submodule('0').bias
    """,
)
case(
    "activation on a module",
    "scene.model.last",
    """
    import torch
    model = torch.nn.Linear(2, 2)
    t = model.last = model(torch.ones(2))
    """,
)
for name, register, shown in [
    ("forward", "model.register_forward_hook", "_forward_hooks"),
    ("forward-pre", "model.register_forward_pre_hook", "_forward_pre_hooks"),
    ("backward", "model.register_full_backward_hook", "_backward_hooks"),
    ("state-dict", "model._register_state_dict_hook", "_state_dict_hooks"),
]:
    case(
        f"module's {name} hook",
        f"scene.model.{shown}[{{id}}]\u2192<lambda>.<closure>.t",
        f"""
        import torch
        model = torch.nn.Linear(2, 2)
        def make(t): return lambda *args: t
        id = {register}(make(t)).id
        """,
    )
case(
    "global module hook",
    "torch.nn.modules.module._global_forward_hooks[{id}]\u2192<lambda>.<closure>.t",
    """
    import torch
    def make(t): return lambda *args: None and t
    handle = torch.nn.modules.module.register_module_forward_hook(make(t))
    id = handle.id
    def run(ask):
        ask()
        handle.remove()
    """,
)
case(
    "tensor hook",
    "scene.x._backward_hooks[{id}]\u2192<lambda>.<closure>.t",
    """
    import torch
    x = torch.ones(2, requires_grad=True)
    def make(t): return lambda grad: None and t
    id = x.register_hook(make(t)).id
    """,
)
case(
    "post-accumulate hook",
    "scene.x._post_accumulate_grad_hooks[{id}]\u2192<lambda>.<closure>.t",
    """
    import torch
    x = torch.ones(2, requires_grad=True)
    def make(t): return lambda x: None and t
    id = x.register_post_accumulate_grad_hook(make(t)).id
    """,
)
case(
    "hook of a node",
    "scene.x.grad_fn\u2192MulBackward0.<hook>[{id}]\u2192<lambda>.<closure>.t",
    """
    import torch
    x = torch.ones(2, requires_grad=True) * 2
    def make(t): return lambda *grads: None and t
    id = x.grad_fn.register_hook(make(t)).id
    """,
)
case(
    "pre-hook of a node",
    "scene.x.grad_fn\u2192MulBackward0.<hook>[{id}]\u2192<lambda>.<closure>.t",
    """
    import torch
    x = torch.ones(2, requires_grad=True) * 2
    def make(t): return lambda grads: None and t
    id = x.grad_fn.register_prehook(make(t)).id
    """,
)
case(
    "gradient",
    "scene.x.grad",
    """
    import torch
    x = torch.ones(2, requires_grad=True)
    t = x.grad = torch.ones(2)
    """,
)
case("view", "scene.x._base", "x = t[1:]")
case(
    "attribute of a tensor",
    "scene.x.note[0]",
    """
    import torch
    x = torch.ones(2)
    x.note = [t]
    """,
)
case(
    "optimizer state",
    "scene.opt.state[<key of type Parameter>]['momentum_buffer']",
    """
    import torch
    opt = torch.optim.SGD([torch.nn.Parameter(t)], 0.1, momentum=0.9)
    [p] = opt.param_groups[0]['params']
    p.grad = torch.ones(3)
    opt.step()
    t = opt.state[p]['momentum_buffer']
    del p
    """,
)
case(
    "parameter group",
    "scene.opt.param_groups[0]['params'][0]",
    """
    import torch
    t = torch.nn.Parameter(t)
    opt = torch.optim.SGD([t], 0.1)
    """,
)
case(
    "a parameter that has a state, by its group",
    "scene.opt.param_groups[0]['params'][0]",
    """
    import torch
    t = torch.nn.Parameter(t)
    opt = torch.optim.SGD([t], 0.1, momentum=0.9)
    t.grad = torch.ones(3)
    opt.step()
    """,
)
case(
    "a key that nothing else has",
    "scene.counts.<key: Tensor>",
    """
    counts = {t: 1}
    """,
)
case(
    "learning-rate schedule",
    "scene.sched.lr_lambdas[0]\u2192<lambda>.<closure>.t",
    """
    import torch
    p = torch.nn.Parameter(torch.ones(1))
    opt = torch.optim.SGD([p], 0.1)
    def make(t): return lambda epoch: 1.0 if t is None else 0.5
    sched = torch.optim.lr_scheduler.LambdaLR(opt, make(t))
    """,
)

# -- the autograd graph ------------------------------------------------------

case(
    "saved tensor with a name",
    "scene.y.grad_fn\u2192MmBackward0.saved[self]",
    """
    import torch
    t = torch.ones(2, 2)
    y = t @ torch.ones(2, 2, requires_grad=True)
    """,
)
case(
    "saved tensor of a layer",
    "scene.y.grad_fn\u2192AddmmBackward0.saved[mat1]",
    """
    import torch
    layer = torch.nn.Linear(2, 2)
    t = torch.ones(3, 2)
    y = layer(t)
    """,
)
case(
    "chain of nodes",
    "scene.y.grad_fn\u2192SumBackward0\u2192ExpBackward0\u2192MulBackward0"
    ".saved[other]",
    """
    import torch
    t = torch.ones(2)
    y = (torch.ones(2, requires_grad=True) * t).exp().sum()
    """,
)
case(
    "base of a saved view",
    "scene.y.grad_fn\u2192ExpBackward0\u2192MulBackward0.saved[other]._base",
    """
    import torch
    t = torch.ones(4)
    y = (torch.ones(2, requires_grad=True) * t[:2]).exp()
    """,
)
case(
    "leaf behind its accumulator",
    "scene.y.grad_fn\u2192NegBackward0\u2192AccumulateGrad.variable",
    """
    import torch
    t = torch.ones(2, requires_grad=True)
    y = -t
    """,
)
case(
    "attribute on ctx",
    "scene.y.grad_fn\u2192KeepBackward.<ctx>.kept[0]",
    """
    import torch
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, extra):
            ctx.kept = [extra]
            return x * 2
        @staticmethod
        def backward(ctx, g): return g, None
    y = Keep.apply(torch.ones(2, requires_grad=True), t)
    """,
)
case(
    "tensor that a Function saved",
    "scene.y.grad_fn\u2192KeepBackward.<ctx>.saved[1]",
    """
    import torch
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, extra):
            ctx.save_for_backward(x, extra)
            return x * 2
        @staticmethod
        def backward(ctx, g): return g, None
    y = Keep.apply(torch.ones(2, requires_grad=True), t)
    """,
)
case(
    "packed by a hook",
    "scene.y.grad_fn\u2192MmBackward0.packed[self]['kept']",
    """
    import torch
    pack = lambda x: {'kept': globals()['t']}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda p: p['kept']):
        y = torch.ones(2, 2) @ torch.ones(2, 2, requires_grad=True)
    """,
)


def scene_of(source: str) -> types.ModuleType:
    """A module of the user's that has run ``source``."""
    module = types.ModuleType("scene")
    module.__file__ = FILE
    sys.modules["scene"] = module
    module.t = torch.ones(3)  # type: ignore[attr-defined]
    code = compile(source, FILE, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


@pytest.fixture(autouse=True)
def no_scene_after() -> Any:
    yield
    sys.modules.pop("scene", None)
    for name in ("last_value", "last_traceback", "last_type"):
        if hasattr(sys, name):
            delattr(sys, name)


def asked(module: types.ModuleType) -> tuple[Any, Any]:
    """(weak reference to the target, its Retention)."""
    ref = weakref.ref(module.t)
    found: list[Any] = []
    run = module.__dict__.pop("run", None)
    if run is None:
        del module.t
        return ref, impactarbiter.explain(ref())
    run(lambda: found.append(explained(module, ref)))
    return ref, found[0]


def explained(module: types.ModuleType, ref: Any) -> Any:
    module.__dict__.pop("t", None)
    return impactarbiter.explain(ref())


def value_of(path: Path) -> object:
    names = {name.partition(".")[0] for name in sys.modules}
    return eval(
        path.expression, {name: sys.modules.get(name) for name in names}
    )


@pytest.mark.parametrize("name", CASES)
def test_the_path_of(name: str) -> None:
    expected, source, python = CASES[name]
    module = scene_of(source)
    ref, found = asked(module)
    if "{id}" in expected:
        expected = expected.replace("{id}", str(module.id))
    path = found.paths[0]
    assert str(path) == expected
    assert path.python == python
    if path.python:
        with contextlib.suppress(AttributeError):
            del module.t
        assert value_of(path) is ref()


def test_an_operand_that_waits_is_no_loop_s() -> None:
    """It lies on the stack as what a loop goes through does, above that."""
    rows: list[weakref.ref[torch.Tensor]] = []

    def started() -> Iterator[torch.Tensor]:
        def made() -> Iterator[torch.Tensor]:
            row = torch.ones(9)
            rows.append(weakref.ref(row))
            yield row

        iterator = made()
        next(iterator)
        return iterator

    def name() -> str:
        row = rows[-1]()
        found = str(impactarbiter.explain(row).paths[0])
        return found.partition("().")[2]

    def second(_first: object, text: str) -> str:
        return text

    for _ in range(1):
        waits = second(started(), name())
    assert waits == "<temporary>.<locals>.row"
