"""Ranks of one job: which process this is, and whose report goes where.

A launcher such as torchrun says in the environment of each process which
one it is; outside such a job nothing here changes anything.
"""

from __future__ import annotations

import os


def rank() -> int | None:
    """This process's rank in a job of several, else None."""
    number, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (number.isdecimal() and size.isdecimal()) or int(size) < 2:
        return None
    return int(number)


def of_rank(path: str) -> str:
    """The file of this rank: ``r.json`` is ``r.rank1.json`` for rank 1.

    ``%r`` in a name stands for the rank (0 outside a job) instead.
    """
    folder, name = os.path.split(path)
    number = rank()
    if "%r" in name:
        return os.path.join(folder, name.replace("%r", str(number or 0)))
    if number is None or path.startswith("/dev/"):
        return path
    stem, suffix = os.path.splitext(name)
    return os.path.join(folder, f"{stem}.rank{number}{suffix}")
