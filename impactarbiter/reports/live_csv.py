"""The live table as CSV (RFC 4180): a row for each stack."""

from __future__ import annotations

import csv
import io
import os

from ..base.files import write_atomic
from ..base.text import clean
from ..model.finding import Site
from ..model.report import Report

COLUMNS = (
    "bytes",
    "storages",
    "device",
    "file",
    "line",
    "function",
    "source",
    "stack",
)


def write_csv(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes it atomically; ReportError where it can't."""
    write_atomic(path, live_csv(report).encode("utf-8", "backslashreplace"))


def live_csv(report: Report) -> str:
    """Most bytes first; what the table leaves out is the last row."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    table = report.live
    for stack, sites in table.rows():
        here = table.line_of(stack)
        outermost_first = " > ".join(_place(site) for site in reversed(sites))
        numbers = (stack.bytes, stack.storages, stack.device)
        words = map(clean, (here.function, here.source, outermost_first))
        writer.writerow((*numbers, clean(here.file), here.line or "", *words))
    if table.rest_storages:
        rest = [table.rest_bytes, table.rest_storages, "", "", "", "", "", ""]
        writer.writerow(rest)
    return text.getvalue()


def _place(site: Site) -> str:
    return f"{site.file}:{site.line} in {site.function}"
