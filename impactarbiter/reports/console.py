"""Lines of styled text: the same words on a terminal and in a file.

Text from a report or a program may hold anything.  ``clean`` makes control
characters visible, and styles are applied to spans, so no markup in the
text is ever interpreted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..base.text import clean

#: One line: spans of (text, style); the style is a rich style or "".
Line = list[tuple[str, str]]


class TextStream(Protocol):
    """What output is written to."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def line(*parts: str | tuple[str, str]) -> Line:
    """Spans with their text cleaned; a bare string has no style."""
    spans = [(part, "") if isinstance(part, str) else part for part in parts]
    return [(clean(text), style) for text, style in spans]


def plain(lines: Iterable[Line]) -> str:
    """The words alone, without a newline at the end."""
    return "\n".join(
        "".join(text for text, _ in spans).rstrip() for spans in lines
    )


def emit(lines: list[Line], stream: TextStream) -> None:
    """Writes lines: coloured on a terminal that rich can serve."""
    if _is_terminal(stream) and _emit_rich(lines, stream):
        return
    text = plain(lines) + "\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _is_terminal(stream: TextStream) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except Exception:
        return False


def _emit_rich(lines: list[Line], stream: TextStream) -> bool:
    """False when rich is not there; then nothing has been written."""
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return False
    console = Console(
        file=stream,  # type: ignore[arg-type]
        markup=False,
        highlight=False,
        emoji=False,
    )
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for spans in lines:
        text = Text()
        for words, style in spans:
            safe = words.encode(encoding, "backslashreplace")
            text.append(safe.decode(encoding), style or None)
        # Soft wrap: a path can be copied in one piece.
        console.print(text, soft_wrap=True)
    stream.flush()
    return True
