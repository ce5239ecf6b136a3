"""Memory limits of the control groups that this process is in.

A limit may stand at any level between the process's own group and the root;
the narrowest decides.  https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator

from .records import dataclass

ROOT = "/sys/fs/cgroup"
MEMBERSHIP = "/proc/self/cgroup"
#: Limits above this are "no limit" written as a number (version 1).
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class MemoryGroup:
    """One control group with a memory limit; bytes."""

    path: str
    limit: int
    used: int

    @property
    def room(self) -> int:
        """Bytes that may still be used; never negative."""
        return max(self.limit - self.used, 0)

    @property
    def percent(self) -> float:
        """Use in per cent of the limit."""
        return 100.0 * self.used / self.limit if self.limit else 100.0


def narrowest(
    root: str = ROOT, membership: str = MEMBERSHIP, throttled: bool = False
) -> MemoryGroup | None:
    """The group with the least room, None where there is no limit."""
    return min(
        memory_groups(root, membership, throttled),
        key=lambda group: group.room,
        default=None,
    )


def memory_groups(
    root: str = ROOT, membership: str = MEMBERSHIP, throttled: bool = False
) -> Iterator[MemoryGroup]:
    """All groups with a limit, the process's own first.

    With ``throttled`` the mark from which a group is slowed down is a limit
    too (``memory.high``).
    """
    for folder, names in _hierarchies(root, membership):
        for path in _upwards(folder):
            limit = read_number(posixpath.join(path, names[0]))
            used = read_number(posixpath.join(path, names[1]))
            high = read_number(posixpath.join(path, "memory.high"))
            if throttled and high is not None:
                limit = high if limit is None else min(limit, high)
            if limit is not None and used is not None and limit < _NO_LIMIT:
                yield MemoryGroup(path, limit, used)
            if path == root:
                break


def read_number(path: str) -> int | None:
    """The number that a file holds; None for "max" or no such file."""
    try:
        with io.open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _hierarchies(
    root: str, membership: str
) -> Iterator[tuple[str, tuple[str, str]]]:
    """The process's folder in each hierarchy, and its files there."""
    for controllers, path in _memberships(membership):
        if controllers == "":
            names = "memory.max", "memory.current"
            yield root + path.rstrip("/"), names
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            yield f"{root}/memory" + path.rstrip("/"), names


def _memberships(membership: str) -> Iterator[tuple[str, str]]:
    try:
        with io.open(membership, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        _number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and ".." not in path:
            yield controllers, path


def _upwards(path: str) -> Iterator[str]:
    """``path`` and the folders above it."""
    while path not in ("", "/"):
        yield path
        path = posixpath.dirname(path)
