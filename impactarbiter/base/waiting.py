"""Handlers of signals wait while what they may ask for is half imported.

Python runs them between any two bytecodes of the main thread, so also in the
middle of an import of ours; who asks us for a report there would get an
AttributeError, or an ImportError, out of a module that has half its names.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_signals: ModuleType | None
try:
    from .. import _signals
except ImportError:  # a folder of sources: what is imported says so
    _signals = None


@contextmanager
def handlers_wait() -> Iterator[None]:
    """Signals that have a handler of Python's are handled afterwards.

    On another thread nothing has to wait: the main thread, which runs the
    handlers, would wait there for what is being imported.
    """
    if (
        _signals is None
        or threading.get_ident() != threading.main_thread().ident
    ):
        yield
        return
    handled = (
        number
        for number in signal.valid_signals()
        if callable(signal.getsignal(number))
    )
    outermost = _signals.hold(tuple(handled))
    try:
        yield
    finally:
        if outermost:
            _signals.let_go()
