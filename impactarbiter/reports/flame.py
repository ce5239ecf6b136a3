"""Live bytes by allocating stack, as one page that needs nothing else.

Each box is a call, as wide as what it and what it called have allocated and
is still alive.  The outermost call is on top.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..base.files import path_bytes
from ..base.records import dataclass
from ..base.units import format_bytes, plural
from ..model.finding import Site
from ..model.live import LiveTable
from ..model.report import Report
from .html import render, write_page

#: Boxes narrower than this share of the page cannot be seen.
_NARROWEST = 0.0005
#: Lines that are listed below the picture.
_MOST_LINES = 40
_HUES = 12


@dataclass
class _Call:
    """A call, and what it called."""

    bytes: int = 0
    storages: int = 0
    below: dict[Site, _Call] = field(default_factory=dict)


def write_flame(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes the page atomically; ReportError where it can't."""
    write_page(flame_page(report), path)


def flame_page(report: Report) -> str:
    """A whole page; MissingExtraError without jinja2."""
    table = report.live
    boxes = list(_boxes(_tree(table), table.live_bytes))
    view = {
        "total": format_bytes(table.live_bytes),
        "noun": report.noun,
        "storages": plural(table.storages, "storage"),
        "step": table.step,
        "is_end": table.live_bytes == report.live_bytes,
        "left_out": format_bytes(table.rest_bytes)
        if table.rest_storages
        else "",
        "boxes": boxes,
        "rows": max((box["depth"] for box in boxes), default=-1) + 1,
        "lines": _lines(table),
    }
    return render("flame.html.j2", **view)


def _tree(table: LiveTable) -> _Call:
    top = _Call(table.live_bytes, table.storages)
    for stack, sites in table.rows():
        call = top
        for site in reversed(sites or (Site("", 0, ""),)):
            call = call.below.setdefault(site, _Call())
            call.bytes += stack.bytes
            call.storages += stack.storages
    return top


def _boxes(top: _Call, total: int) -> Iterator[dict[str, Any]]:
    """Boxes below a call, each before what is below it; however many calls
    deep that is."""
    waiting = _below(top, 0, 0)
    while waiting:
        site, call, left, depth = waiting.pop()
        width = call.bytes / total if total else 0.0
        if width < _NARROWEST:
            continue
        yield {
            "left": f"{100 * left / total:.3f}",
            "width": f"{100 * width:.3f}",
            "depth": depth,
            "hue": zlib.crc32(path_bytes(site.file)) % _HUES * 360 // _HUES,
            "name": site.function or str(site),
            "where": str(site),
            "source": site.source,
            "says": f"{format_bytes(call.bytes)} in"
            f" {plural(call.storages, 'storage')},"
            f" {100 * width:.1f} %",
        }
        waiting += _below(call, left, depth + 1)


def _below(
    call: _Call, left: int, depth: int
) -> list[tuple[Site, _Call, int, int]]:
    """What it called, the largest last, with where each begins."""
    found = []
    for site, below in sorted(
        call.below.items(), key=lambda item: -item[1].bytes
    ):
        found.append((site, below, left, depth))
        left += below.bytes
    return found[::-1]


def _lines(table: LiveTable) -> list[dict[str, Any]]:
    """The user's lines, most bytes first."""
    found: dict[Site, list[int]] = {}
    for stack in table.stacks:
        sums = found.setdefault(table.line_of(stack), [0, 0])
        sums[0] += stack.bytes
        sums[1] += stack.storages
    order = sorted(found.items(), key=lambda item: -item[1][0])
    return [
        {
            "bytes": format_bytes(size),
            "storages": count,
            "where": str(site),
            "source": site.source,
        }
        for site, (size, count) in order[:_MOST_LINES]
    ]
