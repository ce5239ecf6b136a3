"""The answer for a whole job, for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .job import Job, JobFinding
from .job_words import sentence
from .jsonio import finding_to_dict

SCHEMA = "impactarbiter-job/1"


def job_to_dict(job: Job) -> dict[str, Any]:
    """Plain data; ``schema`` first, then the answer."""
    old = job.earlier()
    return {
        "schema": SCHEMA,
        "answer": sentence(job),
        "world_size": job.world_size,
        "restarts": job.restart,
        "missing_ranks": job.missing(),
        "findings": [_group_dict(job, g) for g in job.findings()],
        "findings_before_restart": [
            _group_dict(job, g) for g in job.findings(earlier=True)
        ],
        "processes": [
            {
                **_process_dict(job, n),
                "state": job.state(n),
                "earlier": n in old,
            }
            for n in sorted(range(len(job.members)), key=_order(job))
        ],
        "skipped": [
            {"file": name, "reason": reason} for name, reason in job.skipped
        ],
    }


def _order(job: Job) -> Callable[[int], tuple[Any, ...]]:
    """Ranks in numeric order, whoever works for one behind it."""

    def key(number: int) -> tuple[Any, ...]:
        process = job.members[number].process
        rank = -1 if process.rank is None else process.rank
        worker = -1 if process.worker is None else process.worker
        return (
            process.restart,
            rank,
            not process.owns_rank,
            process.role,
            worker,
            process.begin,
        )

    return key


def _process_dict(job: Job, number: int) -> dict[str, Any]:
    member = job.members[number]
    process = member.process
    return {
        "file": member.file,
        "role": process.role,
        "rank": process.rank,
        "worker": process.worker,
        "host": process.host,
        "pid": process.pid,
        "restart": process.restart,
        "steps": member.steps,
        "live_bytes": member.live_bytes,
        "peak_bytes": member.peak_bytes,
    }


def _group_dict(job: Job, group: JobFinding) -> dict[str, Any]:
    def rank_of(number: int) -> int | None:
        return job.members[number].process.rank

    ranks = sorted({r for r in map(rank_of, group.rates) if r is not None})
    first = min(group.since, key=lambda n: (group.since[n], n))
    return {
        "role": group.role,
        "ranks": ranks,
        "processes": len(group.rates),
        "bytes_per_step": group.rate,
        "most_bytes_per_step": group.rates[group.leader],
        "most_on_rank": rank_of(group.leader),
        "first_step": group.since[first],
        "first_on_rank": rank_of(first),
        "retained_bytes": sum(group.held.values()),
        "retained_node_bytes": sum(group.nodes.values()),
        "worst": finding_to_dict(group.worst),
    }
