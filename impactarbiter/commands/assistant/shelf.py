"""The reports that one assistant has had made or read, by short names."""

from __future__ import annotations

import os
from dataclasses import field

from ...base.errors import UsageError
from ...base.records import dataclass
from ...judging.masks import obfuscated
from ...model.finding import Finding
from ...model.report import Report
from .words import groups_of

#: Reports that are kept; the oldest goes.
MOST_REPORTS = 50


@dataclass
class Shelf:
    """Reports as ``r1``, ``r2``, ...; ``folder`` is ours alone.

    ``masked``: names are masked before anything is told of a report.
    """

    folder: str
    masked: bool = False
    _reports: dict[str, tuple[Report, str]] = field(default_factory=dict)
    _promised: set[str] = field(default_factory=set)
    _count: int = 0

    def file(self) -> str:
        """A name for a report that is still to be written."""
        self._count += 1
        file = os.path.join(self.folder, f"r{self._count}.json")
        self._promised.add(file)
        return file

    def take(self, path: str) -> str:
        """Reads a report; ReportError for what is none.  Its name."""
        report = Report.load(path)
        file = path if path in self._promised else self.file()
        self._promised.discard(file)
        name = os.path.basename(file).removesuffix(".json")
        if self.masked:
            report = obfuscated(report)
        self._reports[name] = report, path
        while len(self._reports) > MOST_REPORTS:
            del self._reports[next(iter(self._reports))]
        return name

    def __getitem__(self, name: str) -> Report:
        return self._found(name)[0]

    def path(self, name: str) -> str:
        """The file that it was read from."""
        return self._found(name)[1]

    def group(self, name: str, rank: int) -> list[Finding]:
        """One group of a report's findings, by its rank."""
        groups = groups_of(self[name])
        if not 1 <= rank <= len(groups):
            raise UsageError(
                f"report {name} has {len(groups)} groups of findings:"
                f" expected a rank from 1 to {len(groups)}"
                if groups
                else f"report {name} has no findings"
            )
        return groups[rank - 1]

    def _found(self, name: str) -> tuple[Report, str]:
        try:
            return self._reports[name]
        except KeyError:
            known = ", ".join(self._reports) or "none yet"
            raise UsageError(
                f"there is no report {name!r}: known are {known}; run_script,"
                " attach and load_report make one"
            ) from None
