"""What the text of a file of the user's tells before it is parsed.

In most files of a large program nothing that is asked about stands, and to
parse them all would take most of a report's time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Set

from ...base.source_text import source_lines

_DEFINED = re.compile(r"\b(?:def|class)\s+(\w+)")
# A source may have words and lines of 100,000 letters: nothing is tried twice.
_ASKED = re.compile(r"\b(\w++)\s*+\.\s*+(?=(\w+))")
_WORD = re.compile(r"\w+")
_IMPORTED = re.compile(
    r"\bfrom\s++\.*+(?:\w++\.)*+(\w*+)\s++import\s*+(\([^)]*+|(?:\\\n|[^\n])*+)"
)
_RENAMED = re.compile(r"\b(\w++)\s++as\s++(\w++)")
_MADE = re.compile(
    r"\b(\w++)\s*+(?::[^=\n]{0,80})?=\s*+"
    r"(?:\w++\s*+\.\s*+)*+(\w++)\s*+\("
)

#: Characters of a file that is parsed: of usual source so many take some 100
#: ms, of data that was written as source three times as long.
MOST_PARSED = 1 << 18


def mentions(file: str, words: Collection[str]) -> bool:
    """Whether one of the names stands in a file at all."""
    return _mentions(text_in(file) or "", words)


def is_unread(file: str, words: Collection[str]) -> bool:
    """Whether one of them stands in a file that is too large to be parsed."""
    lines = source_lines(file)
    return _is_too_much(lines) and _mentions("".join(lines), words)


def _mentions(text: str, words: Collection[str]) -> bool:
    if not text.isascii():  # as Python reads names
        text = unicodedata.normalize("NFKC", text)
    return any(word in text for word in words)


def defines(file: str, functions: Collection[str]) -> bool:
    """Whether one of the functions or classes seems to be defined there."""
    text = text_in(file) or ""
    return any(name in functions for name in _DEFINED.findall(text))


def asks(
    file: str, names: Collection[str], shared: Set[str], owners: Set[str]
) -> bool:
    """Whether a file that knows an owner seems to ask for one of the names;
    ``shared``: what others have, too, is asked of an owner."""
    text = text_in(file) or ""
    implied = any(name.startswith("__") for name in names)
    if not implied and not _mentions(text, names):
        return False
    words = set(_WORD.findall(text))
    if words.isdisjoint(owners):
        return False
    if implied or not words.isdisjoint(set(names) - shared):
        return True
    return any(
        attribute in names and owner in owners
        for owner, attribute in _ASKED.findall(text)
    )


def reads_of(
    file: str, names: Collection[str], modules: Collection[str]
) -> bool:
    """Whether a file seems to read one of the global names of the modules."""
    text = text_in(file) or ""
    if not (_mentions(text, names) and _mentions(text, modules)):
        return False
    if any(
        module in modules
        and ("*" in what or not set(_WORD.findall(what)).isdisjoint(names))
        for module, what in _IMPORTED.findall(text)
    ):
        return True
    called = {name for of, name in _RENAMED.findall(text) if of in modules}
    return any(
        attribute in names and (owner in modules or owner in called)
        for owner, attribute in _ASKED.findall(text)
    )


def made_of(file: str, classes: Collection[str]) -> set[str]:
    """What objects of these classes seem to be called where they are made."""
    text = text_in(file) or ""
    if not _mentions(text, classes):
        return set()
    made = _MADE.findall(text)
    return {name for name, called in made if called in classes}


def text_in(file: str) -> str | None:
    """All of it; None where there is too much."""
    lines = source_lines(file)
    return None if _is_too_much(lines) else "".join(lines)


def _is_too_much(lines: list[str]) -> bool:
    return sum(map(len, lines)) > MOST_PARSED
