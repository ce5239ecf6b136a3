"""Which file is written by which method of a report, and where it may go."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..base.errors import MissingExtraError, ReportError, UsageError
from ..base.files import (
    check_writable,
    from_working_folder,
    write_atomic,
)
from ..model.order import reaches
from ..model.report import Report
from .first_line import alarming

if TYPE_CHECKING:
    from ..model.bundle import Bundle  # with NumPy, which commands do without
    from ..model.retention import Instances, Retention

    Written = Report | Bundle | Retention | Instances

#: Option -> the method of Report that writes that file.
OUTPUTS = {
    "--json": "to_json",
    "--html": "to_html",
    "--timeline": "plot",
    "--sarif": "to_sarif",
    "--flame": "to_flame",
    "--perfetto": "to_perfetto",
    "--csv": "to_csv",
}
#: As a file: standard output, or input where a file is read.
STDOUT = "-"
#: Exit codes of ``--fail-on``: where something was found, and where nothing
#: was, but no last report could be made.
FOUND, UNJUDGED = 3, 4
#: File name's end -> the method of Report that writes such a file.
_WRITERS = {
    ".html": "to_html",
    ".sarif": "to_sarif",
    ".csv": "to_csv",
    ".png": "plot",
    ".svg": "plot",
    ".pdf": "plot",
}


def gate(report: Report, threshold: str) -> int:
    """3 where a leak is at least so severe, 4 where that could not be judged,
    else 0; bounds are no leaks."""
    if reaches(alarming(report), threshold):
        return FOUND
    return 0 if report.complete else UNJUDGED


def check_outputs(given: dict[str, Any]) -> dict[str, str]:
    """Absolute destinations by method name; checked before anything runs.

    Raises UsageError or ReportError where one cannot be written.
    """
    outputs: dict[str, str] = {}
    for option, method in OUTPUTS.items():
        if option not in given:
            continue
        # The program may change the working folder.
        path = given[option]
        if path != STDOUT:
            path = from_working_folder(path)
        if _goes_to_one_of(path, outputs.values()):
            raise UsageError(
                f"two outputs go to {given[option]!r}: expected a file each"
            )
        if path == STDOUT:
            _check_stream(option)
        else:
            if option == "--timeline":
                from .timeline import check_suffix

                check_suffix(path)
            check_writable(path)
        outputs[method] = path
    return outputs


def _goes_to_one_of(path: str, others: Iterable[str]) -> bool:
    """Whether it is one of them, or leads there; of devices one is enough."""
    if path == STDOUT or path.startswith("/dev/"):
        return path == STDOUT and path in others
    return any(_real(path) == _real(o) for o in others if o != STDOUT)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # it is told from a working folder that is gone
        return path


def check_spared(
    given: dict[str, Any], files: Iterable[str | None], done: str = "read"
) -> None:
    """Raises UsageError where what is written would take the place of a file
    that is to be read, or to be ``done`` something else with."""
    written = [given[option] for option in OUTPUTS if option in given]
    for file in files:
        if file not in (None, STDOUT) and _goes_to_one_of(file, written):
            raise UsageError(
                f"an output goes to {file!r}, which is to be {done}: expected"
                " another file"
            )


def _check_stream(option: str) -> None:
    if option == "--timeline":
        raise UsageError("--timeline - is not possible: expected a file")


def write_outputs(report: Written, outputs: dict[str, str]) -> None:
    """Writes what ``check_outputs`` gave; ReportError where it can't."""
    for method, path in outputs.items():
        if path == STDOUT:
            if sys.stdout is None:
                raise ReportError("standard output is closed: give a file")
            sys.stdout.buffer.write(_bytes_of(report, method))
            sys.stdout.flush()
        else:
            getattr(report, method)(path)


def _bytes_of(report: Written, method: str) -> bytes:
    """What such a method writes into a file."""
    with tempfile.TemporaryDirectory(prefix="impactarbiter-") as folder:
        name = os.path.join(folder, "report")
        getattr(report, method)(name)
        with io.open(name, "rb") as stream:
            return stream.read()


def writer_of(path: str) -> str:
    """The method of Report for this file name; JSON unless it says else."""
    return _WRITERS.get(os.path.splitext(path)[1].lower(), "to_json")


def write_report(report: Report, path: str) -> None:
    """Writes the report in the form that the file's name asks for."""
    getattr(report, writer_of(path))(path)


def write_files(report: Report, stem: str) -> list[str]:
    """``stem`` as .json, .txt and, with jinja2, .html; the files' names."""
    report.to_json(f"{stem}.json")
    words = f"{report}\n".encode("utf-8", "backslashreplace")
    write_atomic(f"{stem}.txt", words)
    try:
        report.to_html(f"{stem}.html")
    except MissingExtraError:
        return [f"{stem}.json", f"{stem}.txt"]
    return [f"{stem}.json", f"{stem}.txt", f"{stem}.html"]
