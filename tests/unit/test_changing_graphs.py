"""Walks over graphs and tensors that change, or die, under them.

What may crash runs in a process of its own.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
import warm

BUSY = Path(__file__).with_name("busy_graphs.py")

needs_count = pytest.mark.skipif(
    sys.platform != "linux", reason="threads in torch are counted on Linux"
)


def ended_well(*command: str) -> str:
    done = warm.run([*command], timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_count
@pytest.mark.parametrize(
    ("operations", "question"),
    [
        ("md", "r"),  # graphs that detach_() drops
        ("mdsDrvgbcChf", "e"),  # storages and gradients, too
        ("mdsDrvgbcChf", "w"),
    ],
)
def test_threads_change_what_is_walked(operations: str, question: str) -> None:
    said = ended_well(str(BUSY), operations, question, "12")
    assert said.startswith("ok")
    assert " 0 of" not in said, "no walk saw the graph"


# -- destructors that walk ----------------------------------------------------

DYING = {
    "a gradient": """
        x = torch.ones(3, requires_grad=True)
        x.grad = torch.ones(3)
        ref = weakref.ref(x.grad, lambda r: ask(x))
        x.grad = None
    """,
    "the context of a Function": """
        class Keep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.ends = Ends()
                return x * 2
            @staticmethod
            def backward(ctx, g): return g
        x = Keep.apply(torch.ones(3, requires_grad=True))
        x.detach_()
    """,
    "the context of a Function behind others": """
        class Keep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                ctx.ends = Ends()
                return x * 2
            @staticmethod
            def backward(ctx, g): return g
        x = Keep.apply(torch.ones(3, requires_grad=True))
        for _ in range(8):
            x = Keep.apply(x.sin())
        x.detach_()
    """,
    "a hook": """
        x = torch.ones(3, requires_grad=True) * 2
        def hook(grad, ends=Ends()): pass
        x.register_hook(hook)
        del hook
        x.detach_()
        x._backward_hooks = None
    """,
    "what a hook packed": """
        def pack(x):
            return [x.clone(), Ends()]
        w = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda p: p[0]):
            x = w.sin().exp()
        y = x.sum()
        y.backward()
    """,
    "the base of a view": """
        class Loud(torch.Tensor): pass
        base = torch.ones(3).as_subclass(Loud)
        base.ends = Ends()
        x = base[1:]
        del base
        x.set_(torch.ones(2))
        del x
        x = torch.ones(3)
    """,
    "memory of NumPy": """
        import numpy
        class Array(numpy.ndarray): pass
        array = numpy.ones(3).view(Array)
        array.ends = Ends()
        x = torch.from_numpy(array)
        del array
        x.set_(torch.ones(3, dtype=x.dtype))
    """,
}

AROUND = """
import faulthandler, gc, sys, weakref
import torch, impactarbiter
faulthandler.enable()
asked = 0
x = None
def ask(x):
    global asked
    asked += 1
    impactarbiter.explain(x)
    impactarbiter.retained_bytes(sys.modules["__main__"])
    arbiter.step()
class Ends:
    def __del__(self): ask(x)
arbiter = impactarbiter.watch(step="manual")
"""


@pytest.mark.parametrize("dies", DYING)
def test_a_destructor_may_walk(dies: str) -> None:
    code = AROUND + inspect.cleandoc(DYING[dies])
    assert ended_well("-c", code + "\nprint(asked)\n").strip() != "0"


# -- the count of threads in torch --------------------------------------------

COUNTING = """
import sys, threading, time, torch, impactarbiter
from impactarbiter import _core, _torch
a = torch.ones(3)
"""


@needs_count
def test_a_thread_that_was_inside_before_we_came_is_seen() -> None:
    """Nothing counted it; that it runs is all that can be known."""
    code = """
    torch.set_num_threads(1)
    out = (torch.ones(1000, requires_grad=True) * 2).sin()
    big = torch.ones(3000, 3000)
    thread = threading.Thread(target=lambda: big @ big)
    thread.start()
    while thread.is_alive() and time.thread_time() < 100:
        during = impactarbiter.explain(out)
        if during.note is not None:
            break
    assert "busy in torch" in during.note, during
    thread.join()
    after = impactarbiter.explain(out)
    assert after.note is None, after
    print("ok")
    """
    assert ended_well("-c", COUNTING + inspect.cleandoc(code)) == "ok\n"


@needs_count
def test_a_thread_inside_an_operator_is_seen() -> None:
    """It does not come out in time: the graph is left out, and we say so."""
    code = """
    out = (torch.ones(1000, requires_grad=True) * 2).sin()
    future = torch.futures.Future()
    thread = threading.Thread(target=future.wait)
    before = impactarbiter.explain(out)
    assert before.note is None and before.retained_bytes > 8000, before
    with impactarbiter.watch(step="manual"):
        thread.start()
        during = before
        while during.note is None:
            during = impactarbiter.explain(out)
    assert "busy in torch" in during.note, during
    assert during.retained_bytes == 4000, during
    future.set_result(None)
    thread.join()
    after = impactarbiter.explain(out)
    assert after.note is None, after
    assert after.retained_bytes == before.retained_bytes, after
    print("ok")
    """
    said = ended_well("-c", COUNTING + inspect.cleandoc(code))
    assert said == "ok\n"


@needs_count
def test_a_script_that_goes_on_after_its_call_is_seen() -> None:
    """What it forked runs on a thread of torch's, which never has the GIL."""
    code = """
    fork = torch.jit.fork
    script = torch.jit.CompilationUnit('''
    def work(stop: Tensor, turns: Tensor) -> Tensor:
        while int(stop) == 0:
            turns.add_(1)
        return turns

    def begin(stop: Tensor, turns: Tensor) -> Future[Tensor]:
        return fork(work, stop, turns)
    ''')
    out = (torch.ones(1000, requires_grad=True) * 2).sin()
    stop = torch.ones(1)
    script.begin(stop, stop).wait()  # its threads are there from now on
    stop.fill_(0)
    before = impactarbiter.explain(out)
    assert before.note is None, before
    working = script.begin(stop, torch.zeros(1))
    during = impactarbiter.explain(out)
    stop.fill_(1)
    assert "busy in torch" in during.note, during
    working.wait()
    after = impactarbiter.explain(out)
    assert after.note is None, after
    print("ok")
    """
    said = ended_well("-c", COUNTING + inspect.cleandoc(code))
    assert said == "ok\n"


@needs_count
def test_a_question_leaves_no_hook_behind() -> None:
    code = """
    done = threading.Event()
    threads = [
        threading.Thread(target=lambda: [torch.ones(9).exp() for _ in iter(
            done.is_set, True)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        impactarbiter.explain(a)
        assert not _torch.installed()["threads"]
    with impactarbiter.watch():
        impactarbiter.explain(a)
        assert _torch.installed()["threads"]
    assert not _torch.installed()["threads"]
    done.set()
    for thread in threads:
        thread.join()
    print("ok")
    """
    said = ended_well("-c", COUNTING + inspect.cleandoc(code))
    assert said == "ok\n"


@needs_count
def test_the_threads_of_the_engine_do_not_count() -> None:
    """They let go of the GIL when they begin, for good."""
    code = """
    from pathlib import Path
    from torch.utils.backend_registration import (
        _setup_privateuseone_for_python_backend as add_device,
    )
    add_device("npy")
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    def threads(): return len(list(Path("/proc/self/task").iterdir()))
    with impactarbiter.watch(step="manual"):
        before, w = threads(), torch.ones(3, requires_grad=True)
        (w * 2).sum().backward()
        assert threads() > before, "the engine started no thread"
        said = impactarbiter.explain((w * 2).sin())
    assert said.note is None, said
    print("ok")
    """
    said = ended_well("-c", COUNTING + inspect.cleandoc(code))
    assert said == "ok\n"
