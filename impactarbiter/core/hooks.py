"""Watching on and off: the counting of steps, and the frameworks' hooks."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Protocol

from .. import _core
from ..base import imports
from ..base.signals import Tolerated, is_programs
from ..base.waiting import not_compiled, uncompiled, untraced
from . import frameworks
from .built import (
    loaded_torch_module,
    programs_optimizers,
    programs_torch,
)
from .code import prepare
from .cuda_events import cuda

if TYPE_CHECKING:
    from ..model.finding import Finding

#: What the names of our modules begin with.
_OURS = __name__.partition(".")[0] + "."


class Handle(Protocol):
    """What takes one hook of torch's out again."""

    def remove(self) -> None:
        """Out; a second call changes nothing."""


class Stepped:
    """What an optimizer's step calls in the end: the core, without a frame of
    Python.

    Dynamo, torch's compiler, traces hooks where a compiled function makes a
    step.  This one it leaves alone, and says nothing; of a builtin it warns.
    """

    _torchdynamo_disable = True
    __call__ = staticmethod(_core.optimizer_stepped)


class Hooks:
    """What is in place, and the module that takes it out again.

    The program may have thrown our modules out of ``sys.modules`` by then,
    and this one can be loaded only once.
    """

    def __init__(self, torch: ModuleType | None, numpy: bool) -> None:
        self.torch = torch  #: once the program has torch
        self.optimizer: Handle | None = None
        self.wants_arrays = numpy
        self.arrays = False  #: NumPy's are watched
        self.over = False
        #: Whom the collector calls, by the list that was in place.
        self.told: list[Callable[[str, dict[str, int]], object]] = []

    def install(self) -> None:
        """Now, or as soon as the program imports what is to be hooked."""
        frameworks.install()
        if self.torch is not None:
            self._install_torch()
        else:
            later = partial(frameworks.attempt, "torch", self._install_torch)
            imports.after("torch", later)
        self.told = _collector_tells()
        self.told.append(_core.collector_event)
        imports.after(
            "numpy", partial(frameworks.attempt, "numpy", self._install_numpy)
        )

    def uninstall(self) -> None:
        """Out again; imports nothing.  Another thread may be about to put some
        in, where an import ends: it takes them out again itself."""
        self.over = True
        for name in ("torch", "numpy"):
            imports.forget(name)
        if _core.collector_event in self.told:
            self.told.remove(_core.collector_event)
            # This may run inside a collection, whose end is not told any more.
            _core.collector_event("stop", {})
        frameworks.uninstall()
        self._uninstall_numpy()
        self._uninstall_torch()

    def _uninstall_numpy(self) -> None:
        if self.arrays:
            _core.arrays_uninstall()

    def _uninstall_torch(self) -> None:
        if self.optimizer is not None:
            self.optimizer.remove()
        if self.torch is not None:
            cuda.uninstall()
            self.torch.uninstall()

    def _install_numpy(self) -> None:
        try:
            _core.arrays_know()
            self.arrays = self.wants_arrays and _core.arrays_install()
        finally:
            if self.over:
                self._uninstall_numpy()

    def _install_torch(self) -> None:
        self.torch = torch = self.torch or prepare()
        if torch is None:  # and we were built without
            return
        try:
            # The ledger is read into arrays of NumPy's.
            _core.arrays_know()
            torch.install()
            not_compiled(torch.pause_compiler, torch.resume_compiler)
            frameworks.know_objects(torch)
            cuda.install()
            self.optimizer = _hook_of_optimizers()
            _import_ahead()
        finally:
            if self.over:
                self._uninstall_torch()


def _collector_tells() -> list[Callable[[str, dict[str, int]], object]]:
    """Whom the collector calls, where the program has left that in place."""
    told = vars(gc).get("callbacks")
    return told if type(told) is list else []


def _hook_of_optimizers() -> Handle:
    torch = programs_optimizers()
    handle: Handle = torch.register_optimizer_step_post_hook(Stepped())
    return handle


def _import_ahead() -> None:
    """What torch imports with the first step of an optimizer, from 2.13 on.

    Its profiler, where it sees that (``with_stack``), asks in the end for the
    name of that module's code, which is gone: what lies in its memory may be
    an object now, as more are made where we watch, and no text.
    """
    package = sys.modules.get("torch.profiler")
    if package is None or package is not getattr(
        programs_torch(), "profiler", None
    ):
        return  # the program has thrown it out: it would be run again
    with Tolerated():
        untraced(import_module, "torch.profiler._cupti_monitor")


def start(
    *,
    every: int,
    warmup: int,
    window: int,
    manual: bool,
    numpy: bool,
    callback: Callable[[int], object],
) -> Hooks:
    """Counting and hooks begin; what to give to ``stop`` at the end.

    ``callback(tick)`` is called at a tick where something is due.  What it
    raises ends the watch, unless a handler of signals raised that, or
    another thread did.
    Raises RuntimeError where torch refuses a hook; then nothing is left.
    """
    made = Hooks(prepare(), numpy)
    _core.start(
        every=every,
        warmup=warmup,
        window=window,
        manual=manual,
        callback=uncompiled(callback),
        is_programs=uncompiled(is_programs),
    )
    try:
        made.install()
    except BaseException:
        stop(made)
        raise
    return made


def stop(hooks: Hooks) -> None:
    """Counting and hooks end; what lives on stays valid.

    Imports nothing of ours.
    """
    _core.stop()
    hooks.uninstall()


def in_place() -> dict[str, bool]:
    """Which of the hooks are in, by name."""
    ours = loaded_torch_module()
    torch = {} if ours is None else ours.installed()
    others = frameworks.in_place()
    return {**torch, **others, "numpy": _core.arrays_installed()}


def step() -> None:
    """Ends the step by hand."""
    _core.step()


def look_at(tick: int, within: float = 0.0) -> None:
    """Calls back at that tick in any case, or at the first after so many
    seconds, whichever comes sooner; 0: not for that."""
    _core.look_at(tick, within)


def set_phase(number: int) -> None:
    """Storages born from now on carry this phase."""
    _core.set_phase(number)


def set_allowed(label: int) -> int:
    """Storages born on this thread from now on are kept on purpose.

    0: not.  Returns the label before.
    """
    return _core.set_allowed(label)


def note_same(obj: object) -> None:
    """Notes where an object stands that takes no weak reference."""
    _core.note_same(obj)


def call_theirs(
    function: Callable[[Finding], object], finding: Finding
) -> object:
    """``function(finding)``, traced as any code of the program's even where a
    look is being made; one of ours is not."""
    if _is_ours(function):
        return function(finding)
    return _core.call_theirs(function, finding)


@contextmanager
def no_turns() -> Iterator[None]:
    """What is made meanwhile is ours, and no turn of a loop."""
    _core.pause_turns(True)
    try:
        yield
    finally:
        _core.pause_turns(False)


@contextmanager
def ended_by(error: BaseException | None) -> Iterator[None]:
    """While one looks at a program that has ended so: the calls whose frames
    the exception keeps are taken for running ones."""
    _core.set_ended(error)
    try:
        yield
    finally:
        _core.set_ended(None)


def still_stands(address: int) -> bool:
    """Whether one was noted there, and no other seen in its place."""
    return _core.still_stands(address)


def _is_ours(function: object) -> bool:
    """Asks no object of the program's for an attribute."""
    if type(function) is MethodType:
        function = function.__func__
    return (
        type(function) is FunctionType
        and type(function.__module__) is str
        and function.__module__.startswith(_OURS)
    )
