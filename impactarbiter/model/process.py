"""Which process of a job a report is of, and how it ended."""

from __future__ import annotations

from ..base.records import dataclass

#: What a process does in its job: the program itself, a worker that fetches
#: batches, another child, one that answers requests.
ROLES = ("train", "dataloader", "spawned", "server")
#: How a process ended that came to its own end.
FINISHED = "finished"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process; times are seconds since 1970.

    ``rank`` is its own where ``owns_rank``, else that of the process it works
    for; None: it belongs to no rank.  ``parent`` is the process that watches
    its children, this one among them.  ``worker`` is a DataLoader worker's
    number.  ``restart`` counts how often the job was begun again before.
    ``seen`` is when this was written, ``end`` when it ended and ``ended`` how:
    "finished", "exit 3", "ValueError", "SIGTERM"; None: not yet, or it had no
    time to say so.
    """

    role: str = "train"
    rank: int | None = None
    owns_rank: bool = True
    local_rank: int | None = None
    world_size: int | None = None
    host: str = ""
    pid: int = 0
    parent: int = 0
    worker: int | None = None
    restart: int = 0
    begin: float = 0.0
    seen: float = 0.0
    end: float | None = None
    ended: str | None = None

    @property
    def file_name(self) -> str:
        """Of its file in the job's folder; no two processes share one."""
        rank = "x" if self.rank is None else self.rank
        return f"{self.role}-{rank}.{self.host}-{self.pid}.{self.restart}.json"
