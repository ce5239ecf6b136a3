"""Handlers of signals wait while what they may ask for is half imported.

Python runs them between any two bytecodes of the main thread, so also in the
middle of an import of ours; who asks us for a report there would get an
AttributeError, or an ImportError, out of a module that has half its names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")

_signals: ModuleType | None
try:
    from .. import _signals
except ImportError:  # a folder of sources: what is imported says so
    _signals = None


@contextmanager
def handlers_wait(but: int = 0) -> Iterator[None]:
    """Signals that have a handler of Python's are handled afterwards, ``but``
    that one.

    On another thread nothing has to wait: the main thread, which runs the
    handlers, would wait there for what is being imported.
    """
    outermost = _signals is not None and _signals.hold(but)
    try:
        yield
    finally:
        if _signals is not None and outermost:
            _signals.let_go()


def called_aside(work: Callable[..., object]) -> Callable[..., object]:
    """``work``, for the interpreter to call in the middle of what the program
    does.  Handlers wait, and what they raise, or another thread does in this
    one, is raised in the program."""
    return work if _signals is None else partial(_signals.aside, work)


def handling(work: Callable[..., object]) -> Callable[..., object]:
    """The same of a handler of signals, which raises itself: a call that it
    interrupts would go on."""
    return work if _signals is None else partial(_signals.handling, work)


def not_compiled(
    pause: Callable[[], object], resume: Callable[[object], object]
) -> None:
    """Has what is called aside, or uncompiled, bracketed by these: a compiler
    that would take it for the program's waits."""
    if _signals is not None:
        _signals.compiler(pause, resume)


def uncompiled(work: Callable[..., T]) -> Callable[..., T]:
    """``work``, for C code to call in the middle of what the program does:
    no compiler takes it for the program's."""
    return work if _signals is None else partial(_signals.uncompiled, work)


def untraced(work: Callable[..., T], *args: object) -> T:
    """What ``work(*args)`` gives, which imports: no tracer of the program's
    sees it.  PyTorch's profiler asks for the names of the functions that it
    saw once it ends, and that of a module's own code is gone by then."""
    if _signals is None:
        return work(*args)
    done: T = _signals.untraced(work, *args)
    return done


def threads_end() -> None:
    """Waits for the threads that the interpreter is about to wait for; what
    ends that is told as it would tell it."""
    if _signals is not None:
        _signals.threads_end(threading)


def called_soon(work: Callable[[], object]) -> bool:
    """Has the main thread call ``work`` aside, between two of its bytecodes;
    False where too much waits there, or nothing can be asked for."""
    return _signals is not None and _signals.soon(work)


def written(work: Callable[[], T]) -> T:
    """What ``work`` gives, which writes: a limit of files' sizes that it
    meets is an OSError, and no signal, which could end the program."""
    if _signals is None:
        return work()
    done: T = _signals.beyond_size(work)
    return done
