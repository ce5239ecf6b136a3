"""What a tool answers: short ranked groups of findings, bounded in every way.

Only what stands in a report goes out, by name and number: no object, no graph
of objects, no content of a tensor.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...base.text import clean
from ...model.finding import Finding, Site
from ...model.order import by_urgency
from ...model.report import Report
from ...reports.first_line import summary
from ...reports.reasons import otherwise, why
from ...reports.wording import growth, headline, meaning

#: Characters of one text, of a patch or an output, and of a whole answer: an
#: assistant pays for every one.
MOST_TEXT = 400
MOST_BLOCK = 4_000
MOST_ANSWER = 20_000
#: Groups in one answer; the rest is counted.
MOST_GROUPS = 10
#: Frames of a stack.
MOST_FRAMES = 12


def cut(text: str, most: int = MOST_TEXT) -> str:
    """One line of at most so many characters."""
    text = clean(text)
    return text if len(text) <= most else text[: most - 3] + "..."


def block(text: str, most: int = MOST_BLOCK) -> str:
    """The end of a text of several lines: what was said last counts."""
    lines = [clean(line) for line in text.splitlines()]
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line) + 1
        if size > most:
            kept.append(f"[{len(lines) - len(kept)} lines before left out]")
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def groups_of(report: Report) -> list[list[Finding]]:
    """Findings that one statement makes are one group; the worst first."""
    groups: dict[object, list[Finding]] = {}
    for finding in by_urgency(report.findings):
        site = finding.site
        key = (site.file, site.line) if site.known else finding.signature
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def overview(report: Report, name: str) -> dict[str, Any]:
    """The verdict on a run, and its groups."""
    groups = groups_of(report)
    answer: dict[str, Any] = {
        "report": name,
        "summary": cut(summary(report)),
        "steps": report.steps,
        "step_kind": report.step_kind,
        "live_bytes": report.live_bytes,
        "peak_bytes": report.peak_bytes,
        "grown_bytes_per_step": _number(report.grown_bytes_per_step),
        "explained_bytes_per_step": _number(report.explained_bytes_per_step),
        "groups": [
            short(group, rank)
            for rank, group in enumerate(groups[:MOST_GROUPS], 1)
        ],
        "groups_left_out": max(0, len(groups) - MOST_GROUPS),
        "lines_that_grow_without_a_finding": [
            {"at": cut(str(line.site)), "bytes_per_step": line.bytes_per_step}
            for line in report.growing_lines[:MOST_GROUPS]
        ],
        "warnings": [cut(text) for text in report.warnings[:MOST_GROUPS]],
    }
    while len(json.dumps(answer)) > MOST_ANSWER and answer["groups"]:
        answer["groups"].pop()
        answer["groups_left_out"] += 1
    return answer


def short(group: Sequence[Finding], rank: int) -> dict[str, Any]:
    """One group: what, why it is believed, who, where, and what to do."""
    first = group[0]
    return {
        "rank": rank,
        "findings": len(group),
        "verdict": first.verdict,
        "severity": first.severity,
        "confirmed": first.confirmed,
        "says": cut(headline(first)),
        "rule": first.rule,
        "evidence": cut(" ".join([f"{growth(first)}.", *why(first)])),
        "holder": _holder(first),
        "statement": _statement(first),
        "allocated": cut(str(first.allocated_at)),
        "path": cut(str(first.path)) if first.path else None,
        "bytes_per_step": _number(sum(f.all_bytes_per_step for f in group)),
        "retained_bytes": sum(f.retained_bytes for f in group),
        "steps_to_out_of_memory": first.steps_to_oom,
        "what_would_change_it": cut(" ".join(otherwise(first))),
        "advice": cut(first.advice),
        "has_patch": any(f.patch and f.confirmed for f in group),
    }


def full(group: Sequence[Finding], rank: int) -> dict[str, Any]:
    """The same, with what is known besides."""
    first = group[0]
    answer = short(group, rank)
    answer["meaning"] = meaning(first)
    answer["stack_innermost_first"] = [
        cut(str(site)) for site in first.stack[:MOST_FRAMES]
    ]
    answer["tensors"] = [
        {
            "shape": None if t.shape is None else list(t.shape[:8]),
            "dtype": t.dtype,
            "device": t.device,
            "bytes": t.bytes,
        }
        for t in first.tensors[:3]
    ]
    if first.graph is not None:
        answer["graph"] = {
            "nodes": first.graph.nodes,
            "node_bytes": first.graph.node_bytes,
            "saved_tensors": first.graph.saved_tensors,
            "saved_bytes": first.graph.bytes,
        }
    if first.cycle is not None:
        answer["cycle"] = cut(str(first.cycle.path))
    answer["phase"] = cut(first.phase) if first.phase else None
    answer["note"] = cut(first.note) if first.note else None
    answer["others_in_group"] = [cut(headline(f)) for f in group[1:4]]
    patch = next((f.patch for f in group if f.patch and f.confirmed), None)
    answer["patch"] = None if patch is None else block(patch)
    why = next((f.patch_note for f in group if f.patch_note), None)
    answer["why_no_patch"] = cut(why) if why and patch is None else None
    return answer


def _holder(finding: Finding) -> dict[str, Any] | None:
    holder = finding.holder
    if holder is None:
        return None
    return {
        "expression": cut(holder.expression),
        "type": cut(holder.type),
        "length": holder.length,
        "items_per_step": holder.growth_per_step,
        "bound": holder.bound,
        "alike": holder.alike,
    }


def _statement(finding: Finding) -> dict[str, Any] | None:
    """Where it grows; ``seen`` says whether it was watched doing so."""
    site = finding.grown_at or finding.maybe_grown_at
    if site is None:
        return None
    return {
        **place(site),
        "seen": finding.grown_at is not None,
        "called_from": [place(one) for one in finding.grown_stack],
    }


def place(site: Site) -> dict[str, Any]:
    """A source position."""
    return {"at": cut(str(site)), "source": cut(site.source)}


def _number(value: float) -> float:
    return round(value, 1)
