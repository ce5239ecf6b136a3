"""The status line, at the bottom of a terminal while a program runs.

The last row is taken out of what scrolls, as package managers do: what the
program writes, progress bars too, goes on above it.
"""

from __future__ import annotations

import io
import os
import shutil
from typing import Any

from ..base.text import clean
from ..base.units import format_bytes, format_count, format_duration, plural
from ..model.moment import Moment
from .console import TextStream

_BETWEEN = " \u00b7 "
#: What is left out of a row that is too short, the least wanted first.
_LEFT_OUT = ("RSS", "peak", "steps to the end", "live")


def status_text(moment: Moment, room: int | None = None) -> str:
    """``step 1,204 · live 1.2 GiB (peak 1.4 GiB) · RSS 3.2 GiB · ...``.

    In so many columns, where they are given, what matters least is left out.
    """
    text = _said(moment, ())
    for count in range(1, len(_LEFT_OUT) + 1):
        if room is None or len(text) <= room:
            break
        text = _said(moment, _LEFT_OUT[:count])
    return text


def _said(moment: Moment, left_out: tuple[str, ...]) -> str:
    parts = [f"step {format_count(moment.steps)}"]
    if "live" not in left_out:
        live = f"live {format_bytes(moment.live_bytes)}"
        if "peak" not in left_out:
            live += f" (peak {format_bytes(moment.peak_bytes)})"
        parts.append(live)
    if moment.resident_bytes and "RSS" not in left_out:
        parts.append(f"RSS {format_bytes(moment.resident_bytes)}")
    if not moment.findings:
        parts.append("no leak so far" if moment.steps else "no step yet")
        return _BETWEEN.join(parts)
    parts.append(plural(moment.findings, "leak"))
    parts.append(f"{format_bytes(moment.bytes_per_step)} a step")
    if moment.steps_to_oom is not None:
        steps = plural(moment.steps_to_oom, "step")
        parts.append("out of memory in " + _end(moment, steps, left_out))
    return _BETWEEN.join(parts)


def _end(moment: Moment, steps: str, left_out: tuple[str, ...]) -> str:
    if moment.seconds_to_oom is None:
        return steps
    duration = f"~{format_duration(moment.seconds_to_oom)}"
    return (
        duration if "steps to the end" in left_out else f"{steps} ({duration})"
    )


class StatusLine:
    """One row of a terminal; nothing at all where there is none."""

    def __init__(self, stream: TextStream | None) -> None:
        self._descriptor = _terminal(stream)
        self._rows = 0

    @property
    def shown(self) -> bool:
        """Whether there is a terminal that it is shown on."""
        return self._descriptor is not None

    def show(self, moment: Moment) -> None:
        """Draws it anew."""
        if self._descriptor is None:
            return
        columns, rows = _size(self._descriptor)
        if rows < 3 or columns < 20:
            return
        text = clean(status_text(moment, columns - 1))[: columns - 1]
        drawn = _styled(text, bool(moment.findings), columns)
        # Save, to the last row, draw, erase the rest, back.
        line = f"\x1b7\x1b[{rows};1H{drawn}\x1b[K\x1b8"
        if rows != self._rows:
            # A new line first: the cursor may be in the row that is taken.
            line = f"\n\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A" + line
            self._rows = rows
        self._write(line)

    def end(self) -> None:
        """Gives the row back."""
        if self._descriptor is not None and self._rows:
            rows, self._rows = self._rows, 0
            self._write(f"\x1b7\x1b[r\x1b[{rows};1H\x1b[K\x1b8")

    def _write(self, text: str) -> None:
        assert self._descriptor is not None
        try:
            os.write(self._descriptor, text.encode())
        except OSError:
            self._descriptor = None


def _terminal(stream: TextStream | None) -> int | None:
    """The terminal's descriptor, where rich is there to draw on it."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        import rich  # noqa: F401

        number: int = stream.fileno()  # type: ignore[union-attr]
        return number if os.isatty(number) else None
    except Exception:
        return None


def _size(descriptor: int) -> tuple[int, int]:
    """Columns and rows of this terminal; standard output may be another."""
    try:
        columns, rows = os.get_terminal_size(descriptor)
    except OSError:
        columns = rows = 0
    return (columns, rows) if columns and rows else shutil.get_terminal_size()


def _styled(text: str, alarming: bool, columns: int) -> str:
    from rich.console import Console
    from rich.text import Text

    drawn = io.StringIO()
    options: dict[str, Any] = {"file": drawn, "force_terminal": True}
    console = Console(**options, width=columns, highlight=False, emoji=False)
    style = "bold yellow" if alarming else "dim"
    console.print(Text(text, style=style), end="", soft_wrap=True)
    return drawn.getvalue()
