"""Patches that somebody else wrote, applied in memory."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impactarbiter.base.errors import UsageError
from impactarbiter.commands.changes import Change
from impactarbiter.commands.given_patch import (
    _applied,
    _files,
    changes_of_patch,
)
from impactarbiter.judging.patches.diffs import diff as file_diff
from impactarbiter.judging.patches.diffs import diff_bytes

FILE = "a\nb\nc\nd\ne\nf\ng\nh\n"


def diff(before: str, after: str, name: str = "x.py", context: int = 3) -> str:
    return "".join(
        difflib.unified_diff(
            before.splitlines(True),
            after.splitlines(True),
            f"a/{name}",
            f"b/{name}",
            n=context,
        )
    )


def changes(text: str, folder: str, findings: tuple[()]) -> list[Change]:
    return changes_of_patch(text.encode(), folder, findings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.py").write_text(FILE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "y.py").write_bytes(b"one\r\ntwo\r\n")
    return tmp_path


def test_a_patch_of_two_files(folder: Path) -> None:
    text = diff(FILE, FILE.replace("b\n", "B\n").replace("g\n", ""))
    text += diff("one\ntwo\n", "one\nnew\ntwo\n", "sub/y.py")
    first, second = changes(f"From me:\n\n{text}", str(folder), ())
    assert first.after == "a\nB\nc\nd\ne\nf\nh\n"
    assert second.after == "one\r\nnew\r\ntwo\r\n"
    assert (folder / "x.py").read_text() == FILE


def test_a_patch_without_prefixes_for_lines_that_moved(folder: Path) -> None:
    (folder / "x.py").write_text("new\n" + FILE)
    text = diff(FILE, FILE.replace("d\n", "D\n"))
    text = text.replace("a/x.py", "x.py").replace("b/x.py", "x.py")
    (change,) = changes(text, str(folder), ())
    assert change.after == "new\n" + FILE.replace("d\n", "D\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a unified diff"),
        ("--- a/x.py\n+++ b/x.py\n@@ -2 +2 @@\n-b\n+b\n", "changes nothing"),
        ("@@ -1 +1 @@\n-a\n+b\n", "names no file"),
        (diff("q\n", "r\n"), "fits no place"),
        (diff(FILE, "a\n").rsplit("\n", 3)[0] + "\n", "cut short"),
        (diff("a\n", "b\n", "../x.py"), "which is not in"),
        (diff("a\n", "b\n", "none.py"), "which is not in"),
        ("--- /dev/null\n+++ b/z\n@@ -0,0 +1 @@\n+q\n", "makes or removes"),
        ("--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "makes or removes"),
    ],
)
def test_what_does_not_fit(folder: Path, text: str, said: str) -> None:
    outside = folder / "inside"
    outside.mkdir()
    (outside / "x.py").write_text(FILE)
    with pytest.raises(UsageError, match=said):
        changes(text, str(outside), ())


def test_an_absolute_name_as_ours_have(folder: Path) -> None:
    name = str(folder / "x.py").lstrip("/")
    text = diff(FILE, FILE.replace("d\n", "D\n"), name)
    (change,) = changes(text, str(folder), ())
    assert change.file == str(folder / "x.py")


def test_several_places_are_none(folder: Path) -> None:
    (folder / "x.py").write_text("q\na\nq\na\n")
    text = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(UsageError, match="several places"):
        changes(text, str(folder), ())


#: Few words, so that lines repeat.
LINES = st.lists(st.sampled_from("abcx"), max_size=12).map(
    lambda words: "".join(f"{word}\n" for word in words)
)


@given(LINES, LINES, st.integers(0, 3))
def test_what_difflib_makes_is_applied(
    before: str, after: str, context: int
) -> None:
    for name, hunks in _files(diff(before, after, context=context)):
        assert name == "b/x.py"
        assert _applied(before, hunks, name) == after


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "utf-8"])
@pytest.mark.parametrize("sent", ["own", "utf-8"])
def test_a_diff_in_the_file_s_bytes_or_in_utf_8(
    tmp_path: Path, encoding: str, sent: str
) -> None:
    cookie = "# coding: latin-1\n" if encoding == "latin-1" else ""
    before = f"{cookie}caf\u00e9 = 1 \u00d7\x0c2\n"
    after = before.replace("1", "3")
    file = tmp_path / "x.py"
    file.write_text(before, encoding=encoding)
    data = diff_bytes("x.py", before, after, encoding)
    if sent == "utf-8":
        data = file_diff("x.py", before, after).encode()
    (change,) = changes_of_patch(data, str(tmp_path), ())
    assert change.after == after


def test_a_file_that_stays_as_it_is_has_no_change(folder: Path) -> None:
    assert diff_bytes("x.py", FILE, FILE, "utf-8") == b""
    text = "--- a/sub/y.py\n+++ b/sub/y.py\n@@ -1 +1 @@\n-one\n+one\n"
    text += diff(FILE, FILE.replace("d\n", "D\n"))
    (change,) = changes(text, str(folder), ())
    assert change.file == str(folder / "x.py")


def hunk(folder: Path, encoding: str, patch: bytes) -> bytes:
    """A line of the patch put in behind the first one of a file."""
    first = f"# coding: {encoding}\n"
    (folder / "x.py").write_text(f"{first}x = 1\n", encoding=encoding)
    head = f"--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n {first}+"
    (change,) = changes_of_patch(
        head.encode() + patch + b"\n", str(folder), ()
    )
    return change.after.encode(change.encoding).splitlines()[1]


@pytest.mark.parametrize(
    ("encoding", "patch"),
    [("euc-jp", b"# \xe9"), ("utf-8", b"# \xe9"), ("ascii", b"# \xc3\xa9")],
)
def test_no_character_that_the_file_cannot_have(
    folder: Path, encoding: str, patch: bytes
) -> None:
    with pytest.raises(UsageError, match=f"of its encoding, {encoding}"):
        hunk(folder, encoding, patch)


@pytest.mark.parametrize("patch", [b"# \xe9", b"# \xc3\xa9"])
def test_what_is_utf_8_is_read_as_that(folder: Path, patch: bytes) -> None:
    assert hunk(folder, "iso-8859-1", patch) == b"# \xe9"


def test_the_first_reason_is_given(folder: Path) -> None:
    line = "# caf\u00e9\n"
    (folder / "x.py").write_text(
        f"# coding: latin-1\n{line}x\n{line}", encoding="latin-1"
    )
    data = diff_bytes("x.py", f"a\n{line}", f"a\n{line}b\n", "latin-1")
    data = data.replace(b"@@ -1,2 +1,3 @@\n a\n", b"@@ -3 +3,2 @@\n")
    with pytest.raises(UsageError, match="several places"):
        changes_of_patch(data, str(folder), ())
