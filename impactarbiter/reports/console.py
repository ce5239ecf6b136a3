"""Lines of styled text: the same words on a terminal and in a file.

Text from a report or a program may hold anything.  ``clean`` makes control
characters visible, and styles are applied to spans, so no markup in the
text is ever interpreted.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ..base.text import clean

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

#: One line: spans of (text, style); the style is a rich style or "".
Line = list[tuple[str, str]]


class TextStream(Protocol):
    """What output is written to."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Standing:
    """A stream, as long as its descriptor is the one that it had at first.

    A program may close that and open a file in its place, where words of ours
    have no business; what ``dup2()`` puts there is meant for them.
    """

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._file = _file_of(stream)

    def write(self, text: str, /) -> None:
        """To the stream, or nowhere."""
        if self._stands():
            self._stream.write(text)

    def flush(self) -> None:
        """So that it is where it goes."""
        if self._stands():
            self._stream.flush()

    def is_captured(self) -> bool:
        """Whether the program has put another file there for a while: it has
        kept what was there, to put it back, or has that under another number
        for some other reason."""
        file = self._file
        if file is None or _file_of(self._stream) == file:
            return False
        try:
            numbers = [int(name) for name in os.listdir("/proc/self/fd")]
        except OSError:
            return False
        return any(n > _STANDARD and _file_at(n) == file for n in numbers)

    def __getattr__(self, name: str) -> Any:
        if name == "_stream":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _stands(self) -> bool:
        if _file_of(self._stream) == self._file:
            return True
        try:  # children inherit what stands for it, and nothing else
            return os.get_inheritable(self.fileno())
        except (OSError, ValueError):
            return False  # it is closed


def _file_of(stream: TextStream) -> tuple[int, int] | None:
    """Which file its descriptor leads to; None where it has none."""
    try:
        return _file_at(stream.fileno())  # type: ignore[attr-defined]
    except Exception:
        return None


#: The last of the standard streams, which may be one file.
_STANDARD = 2


def _file_at(number: int) -> tuple[int, int] | None:
    """Which file a descriptor leads to; None where it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def line(*parts: str | tuple[str, str]) -> Line:
    """Spans with their text cleaned; a bare string has no style."""
    spans = [(part, "") if isinstance(part, str) else part for part in parts]
    return [(clean(text), style) for text, style in spans]


def plain(lines: Iterable[Line]) -> str:
    """The words alone, without a newline at the end."""
    return "\n".join(
        "".join(text for text, _ in spans).rstrip() for spans in lines
    )


def printable(text: str, stream: TextStream) -> str:
    """Text whose characters the stream has, others as backslash sequences."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def say(text: str, stream: TextStream | None, *, breaks: bool = False) -> None:
    """A line of ours to a user, or rows where it ``breaks``; never an
    exception."""
    said = f"impactarbiter: {text}"
    try:
        if stream is not None:
            stream.write(f"{broken(said, stream) if breaks else said}\n")
            stream.flush()
    except Exception:
        return


def emit(lines: list[Line], stream: TextStream) -> None:
    """Writes lines: coloured on a terminal that rich can serve."""
    if _is_terminal(stream) and _emit_rich(lines, stream):
        return
    text = plain(lines) + "\n"
    stream.write(printable(text, stream))
    stream.flush()


def draw(things: Iterable[RenderableType], stream: TextStream) -> None:
    """Writes what rich is to draw."""
    console = _console(stream)
    with console.capture() as drawn:
        for thing in things:
            console.print(thing)
    stream.write(printable(drawn.get(), stream))
    stream.flush()


def broken(text: str, stream: TextStream) -> str:
    """A sentence as rows of a terminal, between words; one line elsewhere."""
    room = terminal_width(stream)
    if room is None:
        return text
    return textwrap.fill(
        text,
        max(room, _LEAST),
        subsequent_indent=" " * _HANGING,
        break_long_words=False,
        break_on_hyphens=False,
    )


def terminal_width(stream: TextStream) -> int | None:
    """Columns; None where it is no terminal."""
    if not _is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns  # type: ignore[attr-defined]
    except Exception:
        return shutil.get_terminal_size().columns


def _is_terminal(stream: TextStream) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except Exception:
        return False


def _emit_rich(lines: list[Line], stream: TextStream) -> bool:
    """False when rich is not there; then nothing has been written."""
    try:
        from rich.text import Text

        console = _console(stream)
    except ImportError:
        return False
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for spans in lines:
        parts = [
            Text(safe.encode(encoding, "backslashreplace").decode(encoding), s)
            for safe, s in spans
        ]
        for row in _rows(parts, console, Text):
            # Soft wrap: a path can be copied in one piece.
            console.print(row, soft_wrap=True)
    stream.flush()
    return True


def _console(stream: TextStream) -> Console:
    from rich.console import Console

    console = Console(
        file=stream,  # type: ignore[arg-type]
        markup=False,
        highlight=False,
        emoji=False,
    )
    if console.width < 1:  # what COLUMNS says
        console.width = shutil.get_terminal_size().columns
    return console


#: Indents of a line that goes on: below its label, else by this.
_HANGING = 2


def _rows(parts: list[Text], console: Console, text: type[Text]) -> list[Text]:
    """A line as rows of the terminal, broken between words.

    What is indented without a label is code, and stays as it is.
    """
    first = parts[0].plain if parts else ""
    whole = text.assemble(*parts)
    if whole.cell_len <= console.width or not first.strip():
        return [whole]
    label = len(first) if first.startswith(" ") else 0
    indent = label or _HANGING
    if console.width - indent < _LEAST:
        return [whole]
    head = text() if not label else parts[0]
    body = text.assemble(*parts[1:]) if label else whole
    rows = _broken(body, console.width - label, console.width - indent)
    return [
        # Not by +: the row would take the label's style.
        text.assemble(text(" " * indent) if number else head, row)
        for number, row in enumerate(rows)
    ]


#: Columns below which breaking helps nobody.
_LEAST = 20
_WORD = re.compile(r"\S+\s*")


def _broken(body: Text, first: int, room: int) -> list[Text]:
    """Rows of at most so many columns; a word that is longer stays whole."""
    from rich.cells import cell_len

    at: list[int] = []
    used, limit = 0, first
    for word in _WORD.finditer(body.plain):
        if used and used + cell_len(word[0].rstrip()) > limit:
            at.append(word.start())
            used, limit = 0, room
        used += cell_len(word[0])
    rows = list(body.divide(at))
    for row in rows:
        row.rstrip()
    return rows
