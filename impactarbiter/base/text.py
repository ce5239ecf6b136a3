"""Text that cannot steer a terminal."""

from __future__ import annotations


def clean(text: str) -> str:
    """One line that cannot steer a terminal.

    Escapes, newlines, direction overrides and lone surrogates are shown as
    backslash sequences, tabs as four blanks.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else "    "
        if char == "\t"
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
