"""Ranks of one job: which process this is, and whose report goes where.

A launcher such as torchrun, srun or mpirun says in the environment of each
process which one it is; outside such a job nothing here changes anything.
"""

from __future__ import annotations

import os
import socket
from os import getpid
from typing import NamedTuple

from .files import stat_fields

#: The folder that all processes of a job write into.
JOB = "IMPACTARBITER_JOB"

#: Set where a launcher of ours has the last word for the whole job.
LED = "IMPACTARBITER_LED"

#: What stands for a host where none may be named.
MASKED_HOST = "host"

#: Launchers' names for a rank, how many there are, and the rank on its host;
#: torchrun's first, as each of srun's tasks may start a torchrun.
_NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
#: How often the job was begun again, where a launcher counts that.
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def runs_beside(pid: int) -> bool:
    """Whether that is a process, and another than this one; not one that has
    ended and waits to be asked how."""
    if pid == getpid():
        return False
    try:
        if stat_fields(pid)[:1] == ["Z"]:
            return False
    except OSError:  # it has gone, or there is no /proc
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def job_folder() -> str | None:
    """The job's folder, where there is one."""
    return os.environ.get(JOB) or None


class Place(NamedTuple):
    """Where in its job a process stands."""

    rank: int | None = None
    size: int | None = None
    local_rank: int | None = None
    restart: int = 0


def place() -> Place:
    """What the environment says of this process."""
    restart = next(filter(None, map(_number, _RESTARTS)), 0)
    for names in _NAMES:
        number, size, local = map(_number, names)
        if number is not None and size is not None and size > 1:
            return Place(number, size, local, restart)
    return Place(restart=restart)


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def host_name() -> str:
    """This host's name, fit for a part of a file's."""
    return socket.gethostname().replace("/", "_").replace("..", "_")


def rank() -> int | None:
    """This process's rank in a job of several, else None."""
    return place().rank


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
