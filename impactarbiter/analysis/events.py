"""A tracker's events: rows of a ring, objects only when asked for."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ..base.records import dataclass
from ..base.units import format_bytes
from .devices import Figures

#: Kinds of events; the index is the number in a row.
KINDS = (
    "sample",
    "allocation",
    "deallocation",
    "peak",
    "warning",
    "critical",
    "error",
    "phase_enter",
    "phase_exit",
)
#: Names of phases that are told apart; later ones are left out.
MOST_PHASES = 65_536
ALERTS = ("warning", "critical", "error")

#: One event; bytes, -1 where unknown.  ``phase`` is an index of phase
#: names, ``note`` that of messages (0: none).
EVENT = np.dtype(
    [
        ("timestamp", "f8"),
        ("kind", "u1"),
        ("phase", "u4"),
        ("note", "u4"),
        ("step", "u4"),
        ("change", "i8"),
        ("ledger", "i8"),
        ("allocated", "i8"),
        ("reserved", "i8"),
        ("inactive", "i8"),
        ("used", "i8"),
        ("free", "i8"),
        ("total", "i8"),
    ]
)


@dataclass
class TrackingEvent:
    """One event; bytes, None where unknown.

    ``event_type`` is one of ``KINDS``; ``phase`` the path of the phases it
    came in ("epoch 3/validation"), "" outside any; ``step`` the step.
    ``ledger_memory`` is what the ledger has, ``memory_allocated`` what
    torch's allocator says.  ``rule`` says which one an alert is by
    ("large_allocation"), "" for other events.
    """

    timestamp: float
    event_type: str
    memory_allocated: int | None
    memory_reserved: int | None
    memory_change: int | None
    device_id: int
    context: str
    phase: str
    step: int
    ledger_memory: int | None
    inactive_memory: int | None
    device_used: int | None
    device_free: int | None
    device_total: int | None
    backend: str
    rule: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name."""
        return asdict(self)


class _Note(NamedTuple):
    """A message, and the rule of an alert."""

    note: str
    rule: str


_NOTHING = _Note("", "")


class EventRing:
    """The last ``capacity`` events; any thread may add."""

    def __init__(self, capacity: int, backend: str, device_id: int) -> None:
        self._rows = np.zeros(capacity, EVENT)
        self._backend, self._device_id = backend, device_id
        self._lock = threading.Lock()
        self._names: dict[str, int] = {"": 0}
        self.clear()

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._all = 0
            self._notes: dict[int, _Note] = {}

    @property
    def dropped(self) -> int:
        """How many there was no room for."""
        return max(self._all - len(self._rows), 0)

    def add(
        self,
        timestamp: float,
        kind: str,
        figures: Figures,
        change: int = 0,
        phase: str = "",
        step: int = 0,
        note: str = "",
        rule: str = "",
    ) -> TrackingEvent:
        """Adds one, which it returns; the oldest makes room for it."""
        with self._lock:
            at = self._all
            if len(self._names) >= MOST_PHASES:
                phase = phase if phase in self._names else ""
            number = self._names.setdefault(phase, len(self._names))
            slot = at % len(self._rows)
            self._notes.pop(slot, None)
            said = _Note(note, rule)
            if note:
                self._notes[slot] = said
            self._rows[slot] = (
                timestamp,
                KINDS.index(kind),
                number,
                bool(note),
                step,
                change,
                figures.ledger,
                figures.allocated,
                figures.reserved,
                figures.inactive,
                _known(figures.used),
                _known(figures.free),
                _known(figures.total),
            )
            self._all += 1
            row, names = self._rows[slot].copy(), list(self._names)
        return self._event(row, said, names)

    def array(self) -> np.ndarray[Any, Any]:
        """A copy of the rows, oldest first."""
        with self._lock:
            rows: np.ndarray[Any, Any] = self._rows[self._slots()]
            return rows  # picked by numbers: a copy

    def events(self) -> list[TrackingEvent]:
        """All of them, oldest first."""
        with self._lock:
            slots = self._slots()
            rows = self._rows[slots]
            notes = [self._notes.get(int(slot), _NOTHING) for slot in slots]
            names = list(self._names)
        return [
            self._event(row, note, names)
            for row, note in zip(rows, notes, strict=True)
        ]

    def _slots(self) -> np.ndarray[Any, Any]:
        size = len(self._rows)
        if self._all <= size:
            return np.arange(self._all)
        return (self._all + np.arange(size)) % size

    def _event(
        self, row: np.void, said: _Note, names: list[str]
    ) -> TrackingEvent:
        kind = KINDS[row["kind"]]
        phase = names[row["phase"]]
        change = int(row["change"])
        return TrackingEvent(
            timestamp=float(row["timestamp"]),
            event_type=kind,
            memory_allocated=_number(row["allocated"]),
            memory_reserved=_number(row["reserved"]),
            memory_change=change,
            device_id=self._device_id,
            context=said.note or _context(kind, row, change, phase),
            phase=phase,
            step=int(row["step"]),
            ledger_memory=_number(row["ledger"]),
            inactive_memory=_number(row["inactive"]),
            device_used=_number(row["used"]),
            device_free=_number(row["free"]),
            device_total=_number(row["total"]),
            backend=self._backend,
            rule=said.rule,
        )


def _context(kind: str, row: np.void, change: int, phase: str) -> str:
    if kind == "allocation":
        return f"{format_bytes(change)} more allocated"
    if kind == "deallocation":
        return f"{format_bytes(-change)} less allocated"
    if kind == "peak":
        return f"new peak: {format_bytes(float(row['allocated']))}"
    if kind.startswith("phase"):
        return f"{kind.partition('_')[2]} {phase}"
    return kind


def _known(value: int | None) -> int:
    return -1 if value is None else value


def _number(value: Any) -> int | None:
    return None if value < 0 else int(value)
