"""A walk runs nothing of the user's, whatever lies on its way.

Each scene is a module that puts the tensor ``t`` among objects whose Python
code could be reached: by dispatch, by hooks, by special methods. A profile
function sees every Python function that is called inside of _core.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter

SCENES: dict[str, str] = {}
FILE = "/home/user/scene.py"
NOT_OURS = (FILE, str(Path(torch.__file__).parent))


def scene(name: str, source: str) -> None:
    """``around``, where the source defines it, is entered for the walk."""
    assert name not in SCENES
    SCENES[name] = inspect.cleandoc(source)


GRAPH = """
def graph(w):
    return w.exp().tanh().sigmoid().softmax(0).sqrt()
"""

scene(
    "an active TorchDispatchMode",
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    around = Mode
    t = graph(torch.ones(3, requires_grad=True))
    """,
)
scene(
    "an active TorchFunctionMode",
    """
    from torch.overrides import TorchFunctionMode
    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    around = Mode
    t = graph(torch.ones(3, requires_grad=True))
    """,
)
scene(
    "a subclass with __torch_dispatch__",
    """
    from torch.utils._pytree import tree_map
    class Wrap(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            self = torch.Tensor._make_wrapper_subclass(
                cls, inner.shape, dtype=inner.dtype,
                requires_grad=inner.requires_grad)
            self.inner = inner.detach()
            return self
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            bare = lambda x: x.inner if isinstance(x, Wrap) else x
            out = func(*tree_map(bare, args), **tree_map(bare, kwargs or {}))
            wrap = lambda x: Wrap(x) if isinstance(x, torch.Tensor) else x
            return tree_map(wrap, out)
    t = graph(Wrap(torch.ones(3)).requires_grad_())
    """,
)
scene(
    "a subclass with __torch_function__ and special methods",
    """
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})
        def __len__(self): return 3
        def __hash__(self): return id(self)
        def __eq__(self, other): return self is other
        def __repr__(self): return "Loud"
        def __bool__(self): return True
        def __getattribute__(self, name): return super().__getattribute__(name)
    t = graph(torch.ones(3).as_subclass(Loud).requires_grad_())
    """,
)
scene(
    "saved-tensor hooks",
    """
    pack, unpack = (lambda x: [x, x]), (lambda x: x[0])
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        t = graph(torch.ones(3, requires_grad=True))
    around = lambda: torch.autograd.graph.saved_tensors_hooks(pack, unpack)
    """,
)
scene(
    "hooks of tensors and nodes",
    """
    w = torch.ones(3, requires_grad=True)
    w.register_hook(lambda grad: grad)
    w.register_post_accumulate_grad_hook(lambda w: None)
    t = graph(w)
    t.register_hook(lambda grad: grad)
    t.grad_fn.register_hook(lambda *grads: None)
    t.grad_fn.register_prehook(lambda *grads: None)
    """,
)
scene(
    "a Function",
    """
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.loud = Loud()
            return x * 2
        @staticmethod
        def backward(ctx, g): return g
    t = graph(Keep.apply(torch.ones(3, requires_grad=True)))
    """,
)
scene(
    "sizes that are symbols",
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    mode = FakeTensorMode(shape_env=ShapeEnv())
    w = mode.from_tensor(torch.ones(3, 5), static_shapes=False)
    assert isinstance(w.shape[0], torch.SymInt)
    with mode:
        t = graph(w.detach().requires_grad_()).view(-1)[1:].sum()
    around = lambda: mode
    """,
)
scene(
    "special methods on the way",
    """
    t = graph(torch.ones(3, requires_grad=True))
    store = Store(t)
    loud = Loud()
    loud.t = [t]
    keyed = {Loud(): t, Key("a"): [t], (Loud(), 1): loud}
    members = {Loud(), loud}
    partial = __import__("functools").partial(Loud(), t, x=loud)
    instance = LoudMeta("Made", (), {"t": t})()
    """,
)
scene(
    "a module and an optimizer",
    """
    class Net(torch.nn.Linear):
        def __getattr__(self, name): return super().__getattr__(name)
        def __setattr__(self, name, value): super().__setattr__(name, value)
        def parameters(self, recurse=True): return super().parameters(recurse)
        def state_dict(self): return {}
        def __len__(self): return 1
        def extra_repr(self): return ""
    class Opt(torch.optim.SGD):
        def __getattr__(self, name): raise AttributeError(name)
        @property
        def loud(self): return 1
    net = Net(3, 3)
    opt = Opt(net.parameters(), 0.1, momentum=0.9)
    t = net(torch.ones(3)).sum()
    t.backward(retain_graph=True)
    opt.step()
    """,
)
scene(
    "finalizers and weak references",
    """
    import weakref
    t = graph(torch.ones(3, requires_grad=True))
    class Ends:
        def __del__(self): self.__class__
    ends = Ends()
    ends.me, ends.t = ends, t
    seen = [weakref.ref(x, lambda r: None) for x in (t, ends)]
    weakref.finalize(ends, print).atexit = False
    lost = Ends()
    lost.me, lost.t = lost, [t]
    del lost
    """,
)
scene(
    "arrays and generators",
    """
    import numpy
    t = graph(torch.ones(3, requires_grad=True))
    array = numpy.empty(3, dtype=object)
    array[0], array[1], array[2] = Loud(), t, Loud()
    class Array(numpy.ndarray):
        def __array_finalize__(self, other): pass
        def __getitem__(self, i): return super().__getitem__(i)
        def __len__(self): return 7
    mine = array.view(Array)
    def run(x, loud=Loud):
        try: yield x
        finally: loud()
    generator = run(t)
    next(generator)
    """,
)

LOUD = """
class LoudMeta(type):
    def __instancecheck__(cls, instance): return True
    def __subclasscheck__(cls, other): return True
    def __getattribute__(cls, name): return super().__getattribute__(name)
    def __hash__(cls): return 7
    def __eq__(cls, other): return cls is other
    def __len__(cls): return 1
    def __repr__(cls): return "LoudMeta"
class Loud(metaclass=LoudMeta):
    def __getattribute__(self, x): return object.__getattribute__(self, x)
    def __getattr__(self, name): raise AttributeError(name)
    def __hash__(self): return 7
    def __eq__(self, other): return self is other
    def __len__(self): return 1
    def __bool__(self): return True
    def __iter__(self): return iter(())
    def __repr__(self): return "Loud"
    def __call__(self, *args, **kwargs): return None
    def __contains__(self, x): return False
    def __getitem__(self, i): raise IndexError
    def __index__(self): return 1
    def __enter__(self): return self
    def __exit__(self, *args): return None
    @property
    def __class__(self): return int
    @property
    def __dict__(self): return {}
class Key(str):
    def __hash__(self): return 7
    def __eq__(self, other): return self is other
    def __repr__(self): return "Key"
class Store(list):
    maxlen = property(lambda self: 3)
    def __init__(self, *items): super().__init__(items)
    def __len__(self): return 9
    def __iter__(self): return iter(())
    def __getitem__(self, i): raise IndexError
"""


@contextmanager
def code_inside_core(calls: list[str]) -> Iterator[None]:
    """Notes what functions of the scene or of torch's Python half are called
    while _core runs; it calls some of ours itself, at the end of a step."""
    depth = 0

    def see(frame: types.FrameType, event: str, arg: Any) -> None:
        nonlocal depth
        ours = getattr(arg, "__module__", None) == "impactarbiter._core"
        if event == "c_call" and ours:
            depth += 1
        elif event in ("c_return", "c_exception") and ours:
            depth -= 1
        elif event == "call" and depth:
            code = frame.f_code
            if code.co_filename.startswith(NOT_OURS):
                calls.append(code.co_qualname)

    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.fixture(params=SCENES)
def module(
    request: pytest.FixtureRequest, no_watch_left: None
) -> Iterator[types.ModuleType]:
    made = types.ModuleType("scene")
    made.__file__ = FILE
    sys.modules["scene"] = made
    vars(made).update(torch=torch)
    for source in (LOUD, GRAPH, SCENES[request.param]):
        exec(compile(source, made.__file__, "exec"), vars(made))
    yield made
    vars(made).clear()
    sys.modules.pop("scene", None)


def around(module: types.ModuleType) -> AbstractContextManager[Any]:
    enter: Callable[[], Any] = vars(module).get("around", nullcontext)
    return enter()


def test_a_question_runs_no_code(module: types.ModuleType) -> None:
    calls: list[str] = []
    with around(module), code_inside_core(calls):
        impactarbiter.explain(module.t)
        impactarbiter.explain(module)
        impactarbiter.retained_bytes(module)
        impactarbiter.retained_bytes(module.t)
        impactarbiter.explain(type(module.t))
    assert calls == []


def test_a_look_runs_no_code(module: types.ModuleType) -> None:
    calls: list[str] = []
    arbiter = impactarbiter.watch(step="manual")
    module.kept = []
    with around(module):
        for _ in range(12):
            w = torch.ones(7, requires_grad=True)
            module.kept.append(module.graph(w))
            arbiter.step()
        with code_inside_core(calls):
            for _ in range(12):
                arbiter.step()
            report = arbiter.report()
    arbiter.stop()
    assert report.live_bytes > 0
    assert calls == []


class Odd(types.ModuleType):
    """As a module that loads its parts when they are asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


def test_a_report_asks_no_module_for_its_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "odd", Odd("odd"))
    monkeypatch.setitem(sys.modules, "number", 7)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "__main__", object())  # type: ignore[arg-type]
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(20):
            kept.append(torch.ones(7))
            arbiter.step()
        report = arbiter.report()
    assert [finding.verdict for finding in report.findings] == ["leak"]
