"""Text that cannot steer a terminal, and words that a shell reads."""

from __future__ import annotations

from collections.abc import Iterable

#: What a shell takes as it stands.
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_"
)


def as_command(words: Iterable[str]) -> str:
    """For a shell to read, as ``shlex.join`` has it: the program may have a
    module of that name, which ours must not be before."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


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


def shown_lines(text: str) -> list[str]:
    """As a file has them, without their ends; str.splitlines() also parts at
    what a source may have in the middle of a line, such as a form feed."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]
