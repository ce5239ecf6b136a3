"""``GPUMemoryProfiler``: what calls and blocks do to a device's memory."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

from ..base.errors import UsageError
from ..base.records import dataclass
from ..core import hooks, ledger
from ..model.report import Report
from ..watching.lease import Lease, stands_in
from .devices import device_of
from .evidence import Evidence
from .recorded import recorded
from .results import MemorySnapshot, ProfileResult, Results, Row, snapshot_of
from .sampler import Sampler
from .summaries import still_growing, summary_of

if TYPE_CHECKING:
    import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")

if TYPE_CHECKING:

    class CallOrResult(ProfileResult, Generic[_P, _R]):
        """For type checkers, which cannot tell the decorator
        ``@profile_function`` from the call ``profile_function(f)``."""

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...


#: Calls that are being measured now, by whatever profiler: what is called
#: inside of another's call is a part of that one's step.
_measuring = 0
#: Those that are there: none answers for what another alone has called.
_profilers: weakref.WeakSet[GPUMemoryProfiler] = weakref.WeakSet()


class GPUMemoryProfiler:
    """Profiles calls on a CUDA device, or on the CPU where there is none.

    Every storage that is born or dies during a call is counted, exactly and
    without a look at any tensor.  The hooks come with the profiler and go
    with ``close()``, the end of a ``with`` block, or the profiler itself;
    where a ``watch()`` is active it is used instead.

    ``track_cpu_memory``: read the process's resident memory too.
    ``collect_stack_traces``: ``result.memory_peak.stack_trace`` says which
    line allocated when memory was at its highest.  ``max_snapshots``: how
    many of ``start_monitoring`` are kept.  ``track_tensors`` is accepted and
    changes nothing: the counts are always there.

    Raises UsageError for a device that is not there.
    """

    def __init__(
        self,
        device: str | int | torch.device | None = None,
        track_tensors: bool = False,
        track_cpu_memory: bool = True,
        collect_stack_traces: bool = False,
        max_snapshots: int = 10_000,
    ) -> None:
        if max_snapshots < 1:
            raise UsageError(
                f"max_snapshots is {max_snapshots!r}: expected at least 1"
            )
        self._device = device_of(device, track_cpu_memory)
        self.track_tensors = track_tensors
        self.track_cpu_memory = track_cpu_memory
        self.collect_stack_traces = collect_stack_traces
        self.max_snapshots = max_snapshots
        self.results: Results = Results(
            self._device.index, collect_stack_traces
        )
        #: Name -> (file, qualified name) of the function profiled under it.
        self.functions: dict[str, tuple[str, str]] = {}
        self._rows: deque[Row] = deque(maxlen=max_snapshots)
        self._sampler: Sampler | None = None
        self._lease = Lease()
        self._finalizer = weakref.finalize(self, self._lease.close)
        self._baseline = self._device.snapshot()
        _profilers.add(self)

    @property
    def device(self) -> torch.device:
        """The device that is profiled."""
        import torch

        return torch.device(self._device.name)

    # -- profiling --------------------------------------------------------

    @overload
    def profile_function(self, name: str | None = None, /) -> Profiled: ...
    @overload
    def profile_function(
        self, func: Callable[_P, _R], /
    ) -> CallOrResult[_P, _R]: ...
    @overload
    def profile_function(
        self, func: Callable[..., object], /, *args: Any, **kwargs: Any
    ) -> ProfileResult: ...
    def profile_function(
        self,
        func: Callable[..., Any] | str | None = None,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Profiles one call, a function for good, or a block.

        ``profile_function(f, *args, **kwargs)`` calls f, whose own value is
        dropped, and returns the ``ProfileResult``.  ``@profile_function``,
        ``@profile_function()`` and ``@profile_function("name")`` profile each
        call of the function below them, which returns what it always did.
        ``with profile_function("name") as block:`` profiles a block, whose
        ``block.result`` is there afterwards.

        What the call raises goes through, after its result was kept.
        """
        if func is None or isinstance(func, str):
            if args or kwargs:
                raise UsageError(
                    "profile_function got arguments for no function: expected"
                    " profile_function(f, *args, **kwargs)"
                )
            return Profiled(self, func)
        if not callable(func):
            raise UsageError(
                f"profile_function got {type(func).__name__}: expected a"
                " function, or a name for a block"
            )
        bare = not args and not kwargs and isinstance(func, FunctionType)
        if bare and _decorates(sys._getframe(1)):
            return Profiled(self, None)(func)
        block = Profiled(self, self._name(func))
        with block:
            func(*args, **kwargs)
        return block.result

    @contextmanager
    def profile_context(
        self,
        name: str = "context",
        snapshot: str | os.PathLike[str] | None = None,
    ) -> Iterator[None]:
        """Profiles a block; its result is the last of ``results``.

        ``snapshot``: a file for torch's own recording of the CUDA allocator
        during the block, which ``impactarbiter report`` reads, as does
        https://pytorch.org/memory_viz.  Raises UsageError for it on another
        device, and ReportError where it cannot be written.
        """
        recording = (
            recorded(self._device.name, snapshot)
            if snapshot is not None
            else nullcontext()
        )
        with recording, Profiled(self, name):
            yield

    def _name(self, func: Callable[..., Any]) -> str:
        """What a function's results are called; remembers where it is."""
        name = getattr(func, "__name__", None) or str(func)
        code = _code_of(func)
        if code is not None:
            self.functions[name] = (code.co_filename, code.co_qualname)
        return name

    def _enter(self) -> _Opened:
        global _measuring
        self._device.synchronize()
        now = self._device.now()
        _measuring += 1
        return _Opened(
            now,
            ledger.open_interval(self._device.code),
            _looks_seconds(),
            time.perf_counter(),
        )

    def _exit(
        self, name: str, opened: _Opened, error: BaseException | None
    ) -> tuple[Any, ...] | None:
        """Ends a call; its row, None where it could not be measured.

        ``error``, what the call raises, goes before a failure of ours.
        """
        try:
            return self._row(name, opened)
        except Exception:
            if error is None:
                raise
            return None

    def _row(self, name: str, opened: _Opened) -> tuple[Any, ...]:
        global _measuring
        try:
            self._device.synchronize()
        finally:
            end = time.perf_counter()
            interval = ledger.close_interval(opened.interval)
            _measuring -= 1
        # Looks at suspects are ours, and no part of the call.
        took = end - opened.start - (_looks_seconds() - opened.looks)
        if self.collect_stack_traces:
            self.results.keep_stack(interval.peak_stack)
        row = (
            self.results.number_of(name),
            interval.peak_stack,
            max(took, 0.0),
            *self._device.measure(opened.then, interval),
            interval.births,
            interval.deaths,
            1,
        )
        self.results.add_row(row)
        if _measuring == 0 and interval.steps == 0 and stands_in():
            # Nothing in the call ended a step: the call is one.
            hooks.step()
        return row

    # -- what is known ----------------------------------------------------

    def report(self) -> Report | None:
        """The ledger's report now; after ``close()``, as it was then."""
        return self._lease.report()

    def evidence(self) -> Evidence | None:
        """What the ledger knows of the functions that were profiled."""
        report = self.report()
        if report is None:
            return None
        masked = self._lease.masked
        return Evidence(
            report,
            {} if masked else dict(self.functions),
            frozenset(still_growing(self.results, report.needed_steps)),
            frozenset() if masked else self._called_by_others(),
        )

    def _called_by_others(self) -> frozenset[tuple[str, str]]:
        """Where the functions are that other profilers alone have called."""
        others = {
            where
            for other in list(_profilers)
            if other is not self
            for where in other.functions.values()
        }
        return frozenset(others - set(self.functions.values()))

    @property
    def function_stats(self) -> dict[str, list[ProfileResult]]:
        """The results by function."""
        stats: dict[str, list[ProfileResult]] = {}
        for result in self.results:
            stats.setdefault(result.function_name, []).append(result)
        return stats

    @property
    def snapshots(self) -> list[MemorySnapshot]:
        """What ``start_monitoring`` has seen, oldest first."""
        index = self._device.index
        return [snapshot_of(row, index, "monitor") for row in list(self._rows)]

    def get_summary(self) -> dict[str, Any]:
        """Totals over all results and by function; bytes and seconds."""
        if not len(self.results):
            return {"message": "No profiling results available"}
        current, baseline = self._device.snapshot()[1], self._baseline[1]
        return {
            "device": self._device.name,
            **summary_of(self.results),
            "current_memory_usage": current,
            "baseline_memory_usage": baseline,
            "memory_change_from_baseline": current - baseline,
            "monitoring_active": self._sampler is not None,
            "snapshots_collected": len(self._rows),
        }

    def clear_results(self) -> None:
        """Forgets results and snapshots; the baseline is taken anew."""
        self.results.clear()
        self._rows.clear()
        self._baseline = self._device.snapshot()

    # -- monitoring, and the end ------------------------------------------

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Takes a snapshot every ``interval`` seconds, in a thread."""
        if self._sampler is None:
            rows, device = self._rows, self._device
            self._sampler = Sampler(
                interval, lambda: rows.append(device.snapshot())
            )
            weakref.finalize(self, self._sampler.end)

    def stop_monitoring(self) -> None:
        """Ends ``start_monitoring``."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None

    def close(self) -> None:
        """Takes a last report and lets the hooks go; results stay."""
        self.stop_monitoring()
        self._lease.close(with_report=True)

    def __enter__(self) -> GPUMemoryProfiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _Opened:
    """The state when a call began."""

    then: Any
    interval: int
    looks: float
    start: float


class Profiled:
    """A block or a function that a profiler measures each time.

    ``result`` is that of the last time, None before.
    """

    def __init__(self, profiler: GPUMemoryProfiler, name: str | None) -> None:
        self._profiler = profiler
        self._name = name
        self._opened: list[_Opened] = []
        self.result: ProfileResult | None = None

    def __enter__(self) -> Profiled:
        self._opened.append(self._profiler._enter())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        opened = self._opened.pop()
        row = self._profiler._exit(self._name or "context", opened, error)
        if row is not None:
            self.result = self._profiler.results.result_of(row)

    def __call__(self, func: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorates: each call is profiled, and returns its own value."""
        profiler = self._profiler
        own = profiler._name(func)
        name = self._name or own
        if own in profiler.functions:
            profiler.functions[name] = profiler.functions[own]

        @functools.wraps(func)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            opened = profiler._enter()
            try:
                value = func(*args, **kwargs)
            except BaseException as error:
                profiler._exit(name, opened, error)
                raise
            profiler._exit(name, opened, None)
            return value

        @functools.wraps(func)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            opened = profiler._enter()
            try:
                value = await cast(Any, func)(*args, **kwargs)
            except BaseException as error:
                profiler._exit(name, opened, error)
                raise
            profiler._exit(name, opened, None)
            return value

        if inspect.iscoroutinefunction(func):
            return cast("Callable[_P, _R]", call_async)
        return call


def _looks_seconds() -> float:
    return ledger.status().callback_seconds


def _code_of(func: Any) -> CodeType | None:
    """The code that a call of ``func`` runs, where it is Python's."""
    for _ in range(8):
        code = getattr(func, "__code__", None)
        if isinstance(code, CodeType):
            wrapped = getattr(func, "__wrapped__", None)
            if wrapped is None:
                return code
            func = wrapped
        elif isinstance(func, functools.partial):
            func = func.func
        elif inspect.ismethod(func):
            func = func.__func__
        else:
            # A module's own code is forward, any other object's __call__.
            methods = vars(type(func))
            func = methods.get("forward") or methods.get("__call__")
    return None


def _decorates(caller: FrameType) -> bool:
    """Whether the call that ``caller`` makes is ``@profile_function``.

    ``f`` is handed over either way.  A decorator is called without
    arguments of its own, by CPython's compiler: the function lies where a
    method's ``self`` does.  So the instruction is a CALL with the count 0,
    while ``profile_function(f)`` is one with the count 1.
    """
    import opcode

    code, at = caller.f_code.co_code, caller.f_lasti
    return (
        0 <= at < len(code) - 1
        and opcode.opname[code[at]] == "CALL"
        and code[at + 1] == 0
    )
