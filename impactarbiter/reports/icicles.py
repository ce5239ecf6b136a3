"""Where live bytes are, as boxes within boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..base.records import dataclass
from ..base.units import format_bytes
from ..model.report import Report
from ..model.site import Site
from .wording import subject


@dataclass(frozen=True)
class Cell:
    """A box of an icicle, with the boxes that it is made of."""

    text: str
    size: int
    look: str = ""
    cells: tuple[Cell, ...] = ()

    @property
    def bytes(self) -> str:
        return format_bytes(self.size)


def icicles_of(report: Report) -> tuple[tuple[str, Cell], ...]:
    """Each with its title."""
    found = [
        ("by the line that made it", _by_line(report)),
        ("by what it is for, and who holds it", _by_holder(report)),
    ]
    return tuple((title, cell) for title, cell in found if cell is not None)


def _by_line(report: Report) -> Cell | None:
    """Live bytes at the last boundary: file, then line."""
    history = report.history
    if not history.lines or not history.live_bytes[-1]:
        return None
    files: dict[str, list[Cell]] = {}
    for line in history.lines:
        size = line.live_bytes[-1] or 0
        if size:
            file = str(Site(line.site.file, 0, ""))
            text = f"{line.site.line} in {line.site.function}"
            files.setdefault(file, []).append(Cell(text, size))
    cells = [_sum(file, cells) for file, cells in files.items()]
    total = history.live_bytes[-1]
    rest = total - sum(cell.size for cell in cells)
    if rest > 0:
        cells.append(Cell("other lines", rest, "other"))
    return Cell(_whole(report), total, "", _sorted(cells))


def _by_holder(report: Report) -> Cell | None:
    """Purposes, as the fullest of the last walks saw them, and holders."""
    seen = [p.bytes for p in report.history.purposes[-2:]]
    seen.append(report.accounted)
    known = max(seen, key=lambda purposes: sum(purposes.values()))
    cells = [
        Cell(name.replace("_", " "), size, "other" if name == "other" else "")
        for name, size in known.items()
        if size and name != "findings"
    ]
    held = [
        Cell(subject(f), f.retained_bytes, f.severity)
        for f in report.findings
        if f.retained_bytes
    ]
    if held:
        cells.append(_sum("findings", held))
    elif known.get("findings"):
        cells.append(Cell("findings", known["findings"]))
    return _sum(_whole(report), cells) if cells else None


def _whole(report: Report) -> str:
    return f"live {report.noun}s"


def _sum(text: str, cells: Sequence[Cell]) -> Cell:
    return Cell(text, sum(c.size for c in cells), "", _sorted(cells))


def _sorted(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple(sorted(cells, key=lambda cell: -cell.size))
