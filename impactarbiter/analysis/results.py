"""Results of profiled calls: a table of numbers, objects only when asked.

``Results`` reads like the list of ``ProfileResult`` that gpumemprof has, but
keeps one row of a NumPy structured array per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, overload

import numpy as np

from ..base.errors import UsageError
from ..base.records import dataclass
from .given import rows_of

#: One snapshot; ``timestamp`` in seconds since the epoch, the rest bytes.
SNAPSHOT = np.dtype(
    [
        ("timestamp", "f8"),
        ("allocated", "i8"),
        ("reserved", "i8"),
        ("max_allocated", "i8"),
        ("max_reserved", "i8"),
        ("active", "i8"),
        ("inactive", "i8"),
        ("cpu", "i8"),
    ]
)
#: One call; ``function`` is an index of names, ``stack`` that of the
#: allocation that made the peak, as the ledger numbers it (0: unknown).
RESULT = np.dtype(
    [
        ("function", "u4"),
        ("stack", "u8"),
        ("time", "f8"),
        ("before", SNAPSHOT),
        ("after", SNAPSHOT),
        ("peak", SNAPSHOT),
        ("allocated", "i8"),
        ("freed", "i8"),
        ("created", "i8"),
        ("deleted", "i8"),
        ("calls", "i8"),
    ]
)


@dataclass
class MemorySnapshot:
    """Memory of a device at one moment, in bytes.

    ``cpu_memory`` is the process's resident memory.  ``operation`` says what
    it was taken for.  ``stack_trace`` of a peak says which line allocated
    when memory was at its highest; None where it was not asked for.
    """

    timestamp: float
    allocated_memory: int
    reserved_memory: int
    max_memory_allocated: int
    max_memory_reserved: int
    active_memory: int
    inactive_memory: int
    cpu_memory: int
    device_id: int = 0
    operation: str | None = None
    stack_trace: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name."""
        return asdict(self)


@dataclass
class ProfileResult:
    """What one profiled call did to the memory of its device, in bytes.

    ``memory_allocated`` and ``memory_freed`` count every storage that was
    born or died during the call, also those that lived for a moment only;
    ``tensors_created`` and ``tensors_deleted`` are their numbers.
    ``execution_time`` is in seconds.
    """

    function_name: str
    execution_time: float
    memory_before: MemorySnapshot
    memory_after: MemorySnapshot
    memory_peak: MemorySnapshot
    memory_allocated: int
    memory_freed: int
    tensors_created: int
    tensors_deleted: int
    call_count: int = 1

    def memory_diff(self) -> int:
        """Bytes alive after the call and not before it."""
        return (
            self.memory_after.allocated_memory
            - self.memory_before.allocated_memory
        )

    def peak_memory_usage(self) -> int:
        """The most bytes that were alive during the call."""
        return self.memory_peak.allocated_memory

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name, with ``memory_diff``, ``peak_memory_usage``."""
        known = asdict(self)
        known["memory_diff"] = self.memory_diff()
        known["peak_memory_usage"] = self.peak_memory_usage()
        return known


class Results(Sequence[ProfileResult]):
    """Profiled calls in their order; ``array`` has a row per call.

    ``names[array["function"][i]]`` is the name of the i-th one.
    """

    def __init__(
        self, device_id: int = 0, collect_stack_traces: bool = False
    ) -> None:
        self.device_id = device_id
        self.collect_stack_traces = collect_stack_traces
        self.clear()

    def clear(self) -> None:
        """Forgets all of them."""
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self._stacks: dict[int, str] = {}
        self._rows = np.zeros(64, RESULT)
        self._count = 0

    @classmethod
    def of(cls, results: Iterable[Any]) -> Results:
        """Itself, or a table of anything that has a result's attributes."""
        if isinstance(results, Results):
            return results
        made = cls()
        made.extend(results)
        return made

    @classmethod
    def from_array(
        cls, names: Sequence[str], array: np.ndarray[Any, Any]
    ) -> Results:
        """From rows of dtype ``RESULT``, which are not copied."""
        if array.dtype != RESULT or array.ndim != 1:
            raise UsageError(
                f"rows are {array.dtype} in {array.ndim} dimensions: expected"
                " one dimension of impactarbiter.analysis.results.RESULT"
            )
        if len(array) and int(array["function"].max()) >= len(names):
            raise UsageError(
                f"rows name function {int(array['function'].max())}: expected"
                f" numbers below {len(names)}, one for each name"
            )
        made = cls()
        made.names = list(names)
        made._index = {name: i for i, name in enumerate(names)}
        made._rows, made._count = array, len(array)
        return made

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The rows, of dtype ``RESULT``: a view, no copy."""
        return self._rows[: self._count]

    def number_of(self, name: str) -> int:
        """The index of a function's name, a new one where it is new."""
        if name not in self._index:
            self._index[name] = len(self.names)
            self.names.append(name)
        return self._index[name]

    def keep_stack(self, number: int) -> None:
        """Reads a stack now: the ledger drops what is not in use."""
        from ..core.sources import stack_text

        if number not in self._stacks:
            self._stacks[number] = stack_text(number)

    def append(self, result: Any) -> None:
        """Adds anything that has the attributes of a ``ProfileResult``."""
        self.add_row(self._row_of(result))

    def extend(self, results: Iterable[Any]) -> None:
        """Adds many at once; WrongTypeError where one is none."""
        made = rows_of(results, "ProfileResult objects", self._row_of)
        rows = np.array(list(made), RESULT)
        self._rows = np.concatenate([self.array, rows])
        self._count = len(self._rows)

    def add_row(self, row: tuple[Any, ...]) -> None:
        """Adds one row, its fields in the order of ``RESULT``."""
        if self._count == len(self._rows):
            wider = np.zeros(max(64, 2 * self._count), RESULT)
            wider[: self._count] = self._rows
            self._rows = wider
        self._rows[self._count] = row
        self._count += 1

    def _row_of(self, result: Any) -> tuple[Any, ...]:
        return (
            self.number_of(str(result.function_name)),
            0,
            result.execution_time,
            _snapshot_row(result.memory_before),
            _snapshot_row(result.memory_after),
            _snapshot_row(result.memory_peak),
            result.memory_allocated,
            result.memory_freed,
            result.tensors_created,
            result.tensors_deleted,
            getattr(result, "call_count", 1),
        )

    def result_of(self, row: tuple[Any, ...]) -> ProfileResult:
        """The object of a row, given as (nested) tuples."""
        function, stack, seconds, before, after, peak, *counts = row
        name, device = self.names[function], self.device_id
        result = ProfileResult(
            name,
            seconds,
            snapshot_of(before, device, f"before_{name}"),
            snapshot_of(after, device, f"after_{name}"),
            snapshot_of(peak, device, f"peak_{name}"),
            *counts,
        )
        if self.collect_stack_traces:
            result.memory_peak.stack_trace = self._stacks.get(stack, "")
        return result

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> ProfileResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[ProfileResult]: ...
    def __getitem__(
        self, index: int | slice
    ) -> ProfileResult | list[ProfileResult]:
        if isinstance(index, slice):
            return [self.result_of(row) for row in self.array[index].tolist()]
        return self.result_of(self.array[index].tolist())

    def __iter__(self) -> Iterator[ProfileResult]:
        return (self.result_of(row.tolist()) for row in self.array)


#: A row of ``SNAPSHOT``.
Row = tuple[float, int, int, int, int, int, int, int]


def snapshot_of(row: Row, device_id: int, operation: str) -> MemorySnapshot:
    """The object of a row of ``SNAPSHOT``."""
    return MemorySnapshot(*row, device_id, operation)


def _snapshot_row(snapshot: Any) -> tuple[Any, ...]:
    return (
        snapshot.timestamp,
        snapshot.allocated_memory,
        snapshot.reserved_memory,
        snapshot.max_memory_allocated,
        snapshot.max_memory_reserved,
        snapshot.active_memory,
        snapshot.inactive_memory,
        snapshot.cpu_memory,
    )
