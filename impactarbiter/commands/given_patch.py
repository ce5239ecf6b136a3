"""A patch that somebody else wrote, applied in memory: ``fix --patch``.

Unified diffs of files that are there, below one folder.  A hunk fits where its
old lines stand, at the place that it names or at the only other one; where
they do not, nothing is applied at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from ..base.errors import UsageError
from ..base.records import dataclass
from ..judging.patches.diffs import lines_of, name_in_header, read_source
from ..model.finding import Finding
from .changes import Change

#: A byte that is no UTF-8, as it was decoded.
_SURROGATE = re.compile("[\ud800-\udfff]")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass
class _Hunk:
    """Old lines, from line ``at`` on, and what takes their place."""

    at: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def read_as(self, encoding: str) -> _Hunk:
        """The same of a file in that encoding."""
        plain = encoding.removesuffix("-sig")
        old, new = (
            [
                line.encode("utf-8", "surrogateescape")
                .decode(plain)
                .removeprefix("\ufeff")
                for line in lines
            ]
            for lines in (self.old, self.new)
        )
        return _Hunk(self.at, old, new)


def changes_of_patch(
    patch: bytes, folder: str, findings: Sequence[Finding]
) -> list[Change]:
    """Each file that the patch changes; UsageError where it does not fit."""
    made = []
    text = patch.decode("utf-8", "surrogateescape")
    for name, hunks in _files(text):
        file = _file(name, folder)
        try:
            before, encoding = read_source(file)
        except (OSError, SyntaxError, UnicodeError) as error:
            raise UsageError(f"the patch changes {name}: {error}") from None
        after = _patched(before, hunks, name, encoding)
        if after == before:
            continue
        made.append(Change(file, before, after, encoding, tuple(findings)))
    if not made:
        raise UsageError("the patch changes nothing: expected a unified diff")
    return made


def _files(text: str) -> Iterator[tuple[str, list[_Hunk]]]:
    """(name, hunks) of each file."""
    lines = [line.rstrip("\r\n") for line in lines_of(text)]
    name, hunks, at = "", list[_Hunk](), 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("--- ") and lines[at : at + 1] != []:
            if name:
                yield name, hunks
            name, hunks = _name(line, lines[at]), []
            at += 1
        elif match := _HUNK.match(line):
            if not name:
                raise UsageError("the patch names no file before its lines")
            hunk, at = _hunk(match, lines, at)
            hunks.append(hunk)
    if name:
        yield name, hunks


def _name(old: str, new: str) -> str:
    words = [name_in_header(line[4:]) for line in (old, new)]
    if "/dev/null" in words or not new.startswith("+++ "):
        raise UsageError(
            "the patch makes or removes a file: expected changes of files"
            " that are there"
        )
    return words[1]


def _hunk(
    match: re.Match[str], lines: list[str], at: int
) -> tuple[_Hunk, int]:
    """One hunk, and the line behind it."""
    old, new = int(match[2] or 1), int(match[3] or 1)
    hunk = _Hunk(int(match[1]))
    while (len(hunk.old) < old or len(hunk.new) < new) and at < len(lines):
        mark, text = lines[at][:1] or " ", lines[at][1:]
        if mark == "\\":
            pass  # "No newline at end of file"
        elif mark in " -+":
            if mark in " -":
                hunk.old.append(text)
            if mark in " +":
                hunk.new.append(text)
        else:
            break
        at += 1
    if len(hunk.old) != old or len(hunk.new) != new:
        raise UsageError(f"a hunk of the patch is cut short: {match[0]}")
    return hunk, at


def _file(name: str, folder: str) -> str:
    """Below the folder, with or without the first part of its name."""
    top = os.path.realpath(folder)
    rest = name.partition("/")[2]
    # Ours have an absolute name where the file was in no folder below.
    for tried in (rest, name, f"/{rest}"):
        file = os.path.realpath(os.path.join(top, tried))
        inside = file.startswith(top + os.sep)
        if (
            tried
            and ".." not in tried.split("/")
            and inside
            and os.path.isfile(file)
        ):
            return file
    raise UsageError(f"the patch changes {name}, which is not in {top}")


def _patched(
    before: str, hunks: Sequence[_Hunk], name: str, encoding: str
) -> str:
    """By lines in the file's own bytes, as ``diff`` makes them, or in UTF-8,
    as a terminal shows them: first by what they look like."""
    ways = [_by_bytes, _by_text]
    if any(map(_is_text, hunks)):
        ways.reverse()
    refused: list[UsageError] = []
    for way in ways:
        try:
            return way(before, hunks, name, encoding)
        except UnicodeError:
            refused.append(
                UsageError(
                    f"the patch has characters for {name} that are none of"
                    f" its encoding, {encoding}"
                )
            )
        except UsageError as error:
            refused.append(error)
    raise refused[0]


def _by_bytes(
    before: str, hunks: Sequence[_Hunk], name: str, encoding: str
) -> str:
    own = [hunk.read_as(encoding) for hunk in hunks]
    return _applied(before, own, name)


def _by_text(
    before: str, hunks: Sequence[_Hunk], name: str, encoding: str
) -> str:
    after = _applied(before, hunks, name)
    after.encode(encoding)  # UnicodeError: the file cannot have it
    return after


def _is_text(hunk: _Hunk) -> bool:
    """Whether its bytes are UTF-8, and more than ASCII."""
    text = "".join([*hunk.old, *hunk.new])
    return not text.isascii() and _SURROGATE.search(text) is None


def _applied(before: str, hunks: Iterable[_Hunk], name: str) -> str:
    lines = lines_of(before)
    plain = [line.rstrip("\r\n") for line in lines]
    end = lines[0][len(plain[0]) :] if lines else "\n"
    made: list[str] = []
    done = 0
    for hunk in hunks:
        start = _place(hunk, plain, done, name)
        made += lines[done:start]
        # Lines that stay keep their own ends.
        kept = dict(zip(hunk.old, lines[start:], strict=False))
        made += [kept.get(text, text + (end or "\n")) for text in hunk.new]
        done = start + len(hunk.old)
    return "".join([*made, *lines[done:]])


def _place(hunk: _Hunk, lines: list[str], done: int, name: str) -> int:
    size = len(hunk.old)
    # Nothing old: behind the line that is named.
    named = hunk.at - 1 if size else hunk.at
    if named >= done and lines[named : named + size] == hunk.old:
        return named
    places = [
        start
        for start in range(done, len(lines) - size + 1)
        if size and lines[start : start + size] == hunk.old
    ]
    if len(places) != 1:
        many = "several places" if places else "no place"
        raise UsageError(
            f"the patch fits {many} of {name}: its lines around {hunk.at} are"
            " not what the file has"
        )
    return places[0]
