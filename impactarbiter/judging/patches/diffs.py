"""Patches as text: made of a file, and applied to one again."""

from __future__ import annotations

import difflib
import io
import os
import re
from dataclasses import field

from ...base.files import from_here, path_bytes
from ...base.records import dataclass
from ...base.source_text import source_text


def read_source(file: str) -> tuple[str, str]:
    """A file's text with its own line ends, and its encoding.

    Raises OSError, SyntaxError (of the encoding's name) or UnicodeError.
    """
    try:
        return source_text(file)
    except LookupError as error:
        raise SyntaxError(str(error)) from None


def lines_of(source: str) -> list[str]:
    """Lines with their ends, as Python counts them."""
    return list(io.StringIO(source, newline=""))


def has_bare_returns(source: str) -> bool:
    """Whether lines end in a carriage return alone: Python counts them, and
    ``patch`` does not."""
    return any(line.endswith("\r") for line in lines_of(source))


def diff(file: str, before: str, after: str) -> str:
    """A unified diff that ``patch -p1`` takes in the current folder."""
    name = from_here(file) or file.lstrip("/")
    made = difflib.unified_diff(
        lines_of(before),
        lines_of(after),
        _header(f"a/{name}"),
        _header(f"b/{name}"),
    )
    return "".join(
        line if line.endswith("\n") else line + _NO_END for line in made
    )


def diff_bytes(file: str, before: str, after: str, encoding: str) -> bytes:
    """The same in the file's own bytes, which ``patch`` compares, with the
    mark that the file may begin with."""
    plain = encoding.removesuffix("-sig")
    mark = "" if plain == encoding else "\ufeff"
    made = diff(file, mark + before, mark + after)
    if not made:
        return b""
    lines = made.split("\n", 2)
    header, rest = "\n".join([*lines[:2], ""]), lines[2]
    return path_bytes(header) + b"".join(
        _encoded(f"{line}\n", plain)
        for line in rest.removesuffix("\n").split("\n")
    )


def _encoded(line: str, encoding: str) -> bytes:
    """The diff's own marks are ASCII in any encoding, also in UTF-7."""
    own = len(line) if line.startswith(("@@", "\\")) else 1
    rest = line[own:].encode(encoding, "backslashreplace")
    return line[:own].encode("ascii") + rest


#: What ``patch`` would not read as it is.
_UNUSUAL = re.compile(r'[\x00-\x1f"\\\x7f\ud800-\udfff]')
#: What a backslash stands before in a quoted name, as in C.
_QUOTED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))


def _header(name: str) -> str:
    """A file's name, quoted as C quotes it where it is no plain text; a tab
    ends one that has a space."""
    if _UNUSUAL.search(name) is None:
        return name + "\t" * (" " in name)
    quoted = "".join(
        "".join(f"\\{byte:03o}" for byte in path_bytes(char))
        if _UNUSUAL.match(char)
        else char
        for char in name
    )
    return f'"{quoted}"'


def name_in_header(text: str) -> str:
    """The name that stands in a diff's ``--- `` or ``+++ `` line."""
    name = text.split("\t")[0].strip()
    if len(name) < 2 or not name[0] == name[-1] == '"':
        return name
    quoted = path_bytes(name[1:-1])
    return os.fsdecode(_QUOTED.sub(_unquoted, quoted))


def _unquoted(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:
        return bytes([int(code, 8) & 0xFF])
    return bytes([_ESCAPES.get(code[0], code[0])])


#: What stands after a file's last line that has no end.
_NO_END = "\n\\ No newline at end of file\n"


# -- what a report offers -----------------------------------------------------

#: All that a patch of ours adds to a line.
_GUARD = re.compile(
    r"([\w.]+)\.(?:item|detach)\(\) if isinstance\(\1, torch\.Tensor\)"
    r" else \1(?![\w.])"
)
_CALLS = re.compile(r"\.(?:item|detach|numpy)\(\)")


def patched(source: str, patch: str) -> str | None:
    """The source with a report's patch applied.

    None where a line is not there any more, stands elsewhere but not once
    among the same lines, or the patch does anything else than ours do: a
    report is no trusted file.
    """
    lines = lines_of(source)
    before = list(lines)
    for number, old, new, hunk in _replacements(patch):
        was, now = _without_calls(old), _without_calls(new)
        if was.count("()") != now.count("()") or _bare(was) != _bare(now):
            return None
        if not (0 < number <= len(lines) and lines[number - 1] == old):
            places = hunk.places_in(before)
            if len(places) != 1:
                return None
            number += places[0] - hunk.begin
        lines[number - 1] = new
    after = "".join(lines)
    return None if after == source else after


def _without_calls(line: str) -> str:
    return _CALLS.sub("", _GUARD.sub(r"\1", line))


def _bare(line: str) -> str:
    return line.replace("(", "").replace(")", "")


def _lines_of_patch(patch: str) -> list[str]:
    """Below the header, without an end where the file's line has none."""
    made: list[str] = []
    for line in lines_of(patch)[2:]:
        if line.startswith("\\") and made:
            made[-1] = made[-1].removesuffix("\n")
        else:
            made.append(line)
    return made


@dataclass
class _Hunk:
    """Lines that stand one after another, as they were before."""

    begin: int
    lines: list[str] = field(default_factory=list)

    def places_in(self, lines: list[str]) -> list[int]:
        """Numbers of the lines that they begin at."""
        ends = range(len(self.lines), len(lines) + 1)
        begins = (end - len(self.lines) for end in ends)
        return [
            begin + 1
            for begin in begins
            if lines[begin : begin + len(self.lines)] == self.lines
        ]


def _replacements(patch: str) -> list[tuple[int, str, str, _Hunk]]:
    """(line number, line before, line after, what it stands among) of each
    changed line."""
    found: list[tuple[int, str, str, _Hunk]] = []
    removed: list[tuple[int, str]] = []
    hunk = _Hunk(0)
    for line in _lines_of_patch(patch):
        number = hunk.begin + len(hunk.lines)
        if line.startswith("@@"):
            match = re.match(r"@@ -(\d+)", line)
            hunk, removed = _Hunk(int(match[1]) if match else 0), []
        elif line.startswith("-"):
            removed.append((number, line[1:]))
            hunk.lines.append(line[1:])
        elif line.startswith("+") and removed:
            at, old = removed.pop(0)
            found.append((at, old, line[1:], hunk))
        elif line.startswith("+"):
            found.append((0, "", line[1:], hunk))  # added: never one of ours
        else:
            hunk.lines.append(line[1:])
    return found
