"""Memory of a process, the machine or a GPU, read from outside.

Nothing is attached to, and no CUDA context is made: the kernel's files and
``nvidia-smi`` are read.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import Any

from ..base import cgroups
from ..base.convert import choice, decimal, filename
from ..base.errors import ImpactArbiterError, UsageError
from ..base.files import write_atomic
from ..base.records import dataclass
from ..base.units import format_bytes, parse_duration, plural
from .options import Option


class ReadingError(ImpactArbiterError):
    """Memory that cannot be read here."""


@dataclass(frozen=True)
class Reading:
    """One moment: seconds since the epoch, and bytes (None: unknown)."""

    timestamp: float
    used: int
    free: int | None
    total: int | None


#: The memory now; None where the process has ended.
Source = Callable[[], Reading | None]


def percent(text: str) -> float:
    """A converter to per cent."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise UsageError(
            f"{text!r} is not possible: expected per cent, above 0 and up to"
            " 100"
        )
    return value


def _device(text: str) -> int:
    number = decimal(text)
    if number is None:
        raise UsageError(f"{text!r} is no GPU: expected its number, such as 0")
    return number


#: What ``monitor`` and ``track`` both take.
OPTIONS = {
    "--device": Option(_device),
    "--duration": Option(parse_duration),
    "--interval": Option(parse_duration),
    "--output": Option(filename),
    "--format": Option(choice("csv", "json")),
}


def source_of(words: list[str], given: dict[str, Any]) -> tuple[str, Source]:
    """What is read, in words, and how; UsageError or ReadingError."""
    if len(words) > 1 or (words and "--device" in given):
        raise UsageError(
            f"got {' '.join(words)}: expected the number of one process, or"
            " --device for a GPU, or nothing for the machine"
        )
    if "--device" in given:
        number = given["--device"]
        _gpu(number)
        return f"GPU {number}", lambda: _gpu(number)
    if not words:
        return "the machine", lambda: machine()
    pid = decimal(words[0])
    if pid is None or _process(pid) is None:
        raise ReadingError(
            f"there is no process {words[0]} to read: expected the number of"
            " one that runs, as `pgrep -a python` lists them"
        )
    return f"process {pid}", lambda: _process(pid)


# -- the sources --------------------------------------------------------------


def _fields(path: str) -> dict[str, int]:
    """The fields in kB of one of the kernel's files, in bytes; {} for none."""
    found = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if rest.endswith(" kB\n"):
                    found[name] = 1024 * int(rest.split()[0])
    except OSError:
        pass
    return found


def machine() -> Reading:
    """What the machine has in use that it could not give to others."""
    now = _fields("/proc/meminfo")
    total, free = now.get("MemTotal"), now.get("MemAvailable")
    if total is None or free is None:
        raise ReadingError("/proc/meminfo does not say what memory there is")
    return Reading(time.time(), total - free, free, total)


def _process(pid: int) -> Reading | None:
    """Resident memory, and what the process may use in all."""
    resident = _fields(f"/proc/{pid}/status").get("VmRSS")
    if resident is None:
        return None
    whole = machine()
    total, free = whole.total, whole.free
    group = cgroups.narrowest(membership=f"/proc/{pid}/cgroup")
    if group is not None and total is not None and free is not None:
        total, free = min(total, group.limit), min(free, group.room)
    return Reading(time.time(), resident, free, total)


_ASKED = "memory.used,memory.free,memory.total,name"


def gpus(number: int | None = None) -> list[tuple[str, Reading | None]]:
    """Name and memory of each GPU, or of one, None where nvidia-smi does not
    say how much; [] without nvidia-smi."""
    command = ["nvidia-smi", f"--query-gpu={_ASKED}"]
    command += ["--format=csv,noheader,nounits"]
    if number is not None:
        command.append(f"--id={number}")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    # It warns, and says that it found none, in lines of their own.
    told = [line.split(",", 3) for line in done.stdout.splitlines()]
    return [_gpu_told(words) for words in told if len(words) == 4]


def _gpu_told(words: list[str]) -> tuple[str, Reading | None]:
    """One that shares the machine's memory has none of its own to tell, and
    of a part of one it may not be asked."""
    *told, name = (word.strip() for word in words)
    sizes = [size << 20 for one in told if (size := decimal(one)) is not None]
    return name, (
        Reading(time.time(), *sizes) if len(sizes) == len(told) else None
    )


def _gpu(number: int) -> Reading:
    found = gpus(number)
    if not found:
        raise ReadingError(
            f"nvidia-smi does not answer for GPU {number}: without --device"
            " the machine's memory is read"
        )
    name, reading = found[0]
    if reading is None:
        raise ReadingError(
            f"nvidia-smi does not say how much memory GPU {number} ({name})"
            " has in use: without --device the machine's is read"
        )
    return reading


# -- reading on ---------------------------------------------------------------


def readings(source: Source, given: dict[str, Any]) -> Iterator[Reading]:
    """One every ``--interval`` seconds until the time is over, the process
    has ended or the user has had enough (Ctrl-C)."""
    interval = given.get("--interval", 1.0)
    end = time.monotonic() + given.get("--duration", float("inf"))
    try:
        while (now := source()) is not None:
            yield now
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(interval, left))
    except KeyboardInterrupt:
        return


def reading_line(now: Reading) -> str:
    """One reading, as it is printed."""
    clock = time.strftime("%H:%M:%S", time.localtime(now.timestamp))
    said = f"{clock}  {format_bytes(now.used):>10} in use"
    if now.total:
        share = 100 * now.used / now.total
        said += f", {share:.1f} % of {format_bytes(now.total)}"
    return said


def summary_line(what: str, seen: list[Reading]) -> str:
    """What all of them say."""
    if not seen:
        return f"{what}: nothing was read"
    sizes = [reading.used for reading in seen]
    seconds = seen[-1].timestamp - seen[0].timestamp
    gained = sizes[-1] - sizes[0]
    return (
        f"{what}: {format_bytes(min(sizes))} to {format_bytes(max(sizes))} in"
        f" use, {format_bytes(gained)} more at the end than at the start,"
        f" {plural(len(seen), 'reading')} in {seconds:.1f} s"
    )


def export(seen: list[Any], given: dict[str, Any]) -> None:
    """Writes what was seen, dataclasses of one kind, to ``--output``."""
    path = given.get("--output")
    if path is None:
        return
    rows = [asdict(row) for row in seen]
    if given.get("--format", "csv") == "json":
        text = json.dumps(rows, indent=2) + "\n"
    else:
        text = _csv(rows)
    write_atomic(path, text.encode())


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO(newline="")
    names = list(rows[0]) if rows else [f.name for f in fields(Reading)]
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
