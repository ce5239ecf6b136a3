"""A position in the source."""

from __future__ import annotations

import os

from ..base.files import from_here
from ..base.records import dataclass
from ..base.shell import cell_name


@dataclass(frozen=True)
class Site:
    """A source position: ``line`` counts from 1, ``source`` is that line.

    ``file`` is empty where no Python frame was running.
    """

    file: str
    line: int
    function: str
    source: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a position at all."""
        return bool(self.file)

    @property
    def place(self) -> str:
        """File and line, without the function."""
        if not self.known:
            return "outside Python"
        file = cell_name(self.file) or self.file
        if os.path.isabs(file):
            file = from_here(file) or file
        return f"{file}:{self.line}" if self.line > 0 else file

    def __str__(self) -> str:
        if not self.known or not self.function:
            return self.place
        return f"{self.place} in {self.function}"
