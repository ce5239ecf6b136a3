"""When memory runs out at the measured rate."""

from __future__ import annotations

import io

from ...base import cgroups
from ...base.records import replace
from ...core import devices, ledger
from ...model.devices import is_accelerator, is_on_host
from ...model.finding import Finding


def _meminfo(field: str) -> int | None:
    try:
        with io.open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name == field:
                    return int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


#: What holds more than this part of the room that is left cannot wait: for a
#: look that would be cheaper later, or for a call that may let go of it.
URGENT_PART = 1 / 64


def is_much(size: int, room: int | None) -> bool:
    """Whether bytes are a good part of the room that is left, if known."""
    return room is not None and size > URGENT_PART * room


class Forecast:
    """Room left, in bytes, and the steps it lasts.

    ``limit`` is what the process may use in all on the CPU: the user's
    figure, else the smallest of the machine's memory and its control group's
    limit; ``room`` is what is left of it.  Devices have their own.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._given = limit
        self._rooms: dict[str, int | None] = {}
        self.limit = limit
        self.room: int | None = None
        if limit is not None:
            self.room = limit - ledger.resident_bytes()
        else:
            self._from_machine()
        if self.room is not None and self.room < 0:
            self.room = 0

    def _from_machine(self) -> None:
        self.limit = _meminfo("MemTotal")
        self.room = _meminfo("MemAvailable")
        group = cgroups.narrowest()
        if group is None:
            return
        if self.limit is None or group.limit < self.limit:
            self.limit = group.limit
        if self.room is None or group.room < self.room:
            self.room = group.room

    def room_of(self, finding: Finding) -> int | None:
        """Bytes left where most of the finding's tensors lie."""
        return self._room_on(finding.device)

    def _room_on(self, device: str) -> int | None:
        if is_on_host(device):
            return self.room
        if device not in self._rooms:
            self._rooms[device] = devices.room(device, self._given)
        return self._rooms[device]

    def _steps(self, finding: Finding) -> int | None:
        """Until the first of its devices has no room; None where that of one
        is not known."""
        on = {n: r for n, r in finding.rates.items() if is_accelerator(n)}
        # A limit that the user gives may be meant for the device.
        if len(on) < len(finding.rates) or self._given is None:
            on["cpu"] = finding.host_bytes_per_step
        rooms = [
            (self._room_on(n), rate) for n, rate in on.items() if rate > 0
        ]
        left = [room / rate for room, rate in rooms if room is not None]
        return int(min(left)) if rooms and len(left) == len(rooms) else None

    def apply(self, finding: Finding, seconds: float) -> Finding:
        """The finding with its forecast; unchanged where none can be made.

        ``seconds`` is how long a step takes.
        """
        steps = self._steps(finding)
        if steps is None or finding.goes_in_time:
            return finding
        return replace(
            finding,
            steps_to_oom=steps,
            seconds_to_oom=steps * seconds if seconds > 0 else None,
        )
