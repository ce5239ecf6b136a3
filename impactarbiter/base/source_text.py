"""Lines of source, read only where that costs the program nothing.

A code's file name is what its program says: it may be that of a pipe, a device
or a folder, and to open one of these may wait for ever, or take what the
program was to read.
"""

from __future__ import annotations

import ast
import encodings
import io
import linecache
import os
import posix
import re
import stat
import sys
import warnings
from codecs import BOM_UTF8
from contextlib import suppress
from encodings.aliases import aliases
from functools import partial
from types import FunctionType, MethodType
from typing import cast

from .files import open_regular
from .signals import Tolerated

#: A file's bytes that are read at most.  Generated source has some millions;
#: what has more holds data, and its lines would take three times as much.
MOST_BYTES = 1 << 24
#: As it was when this was imported: a program may put another into its place,
#: which is not to be called by us.
_compile = compile
#: What lies in the folder of Python's codecs and is none, or none here.
_NO_CODECS = {"__init__", "__pycache__", "aliases", "mbcs", "oem"}


def _own_encodings() -> frozenset[str]:
    """Names of Python's own codecs; others are the program's."""
    names = {*aliases, *aliases.values()}
    for folder in encodings.__path__:
        with suppress(OSError):  # it is in an archive
            names |= {
                name.removesuffix(".py") for name in posix.listdir(folder)
            }
    return frozenset(names) - _NO_CODECS


_ENCODINGS = _own_encodings()
#: An encoding as a source names it in its first line, or, where that is no
#: code, in its second (PEP 263).
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#.*)?\r?\n?$")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
#: What Python takes with something that an editor adds: utf-8-unix.
_UTF_8 = re.compile(r"utf_8(_.*)?")
_LATIN_1 = re.compile(r"(latin_1|iso_8859_1|iso_latin_1)(_.*)?")
#: Whose loaders are asked for source that is in no file.
_LOADERS = frozenset({"torch", "zipimport"})

#: What ``linecache`` keeps of a file: size, time of change, lines, full name.
_Entry = tuple[int, float | None, list[str], str]


def source_lines(file: str) -> list[str]:
    """Lines with their ends, the last one's too; none where there are none.

    What ``linecache`` has is served, as it has cells of notebooks, and what is
    read is left there.  Raises nothing but MemoryError; runs nothing of the
    program's, which may have codecs of its own, or have put others into the
    places of what reads source in the standard library.
    """
    cache = vars(linecache).get("cache")
    if type(cache) is not dict:
        cache = {}
    entry = cache.get(file)
    if type(entry) is tuple and len(entry) == 4:
        lines = entry[2]
        return lines if _are_lines(lines) else []
    if file.startswith("<") and file.endswith(">"):
        return []
    read = _read(file) or _loaded(file, entry) or _read_on_path(file)
    if read is None:
        return []
    cache[file] = read
    return read[2]


def source_text(file: str) -> tuple[str, str]:
    """A file's text with its own line ends, and its encoding.

    Raises OSError, LookupError (of an encoding that is not Python's own) or
    UnicodeError.
    """
    text, encoding, _found = _opened(file)
    return text, encoding


def _are_lines(lines: object) -> bool:
    return type(lines) is list and all(type(line) is str for line in lines)


def source_line(file: str, line: int) -> str:
    """One of them, counted from 1, stripped; empty where it is not there."""
    lines = source_lines(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


#: What a tree's source goes by while it is parsed, in a warning of that; and
#: what leaves such a warning out.
_PARSED = "<parsed by impactarbiter>"
_UNSAID = ("ignore", None, Warning, re.compile(re.escape(_PARSED)), 0)


def tree_of(text: str) -> ast.Module:
    """Its tree; raises what ``ast.parse`` does.

    Says nothing of ``"\\d"`` and the like, as the interpreter has done when it
    compiled it.  No warning of another thread's is lost meanwhile.
    """
    filters = warnings.filters
    filters.insert(0, _UNSAID)  # type: ignore[attr-defined]
    try:
        tree = _compile(
            text, _PARSED, "exec", ast.PyCF_ONLY_AST, dont_inherit=True
        )
        return cast(ast.Module, tree)
    finally:
        for at, one in enumerate(filters):
            if one is _UNSAID:
                del filters[at]  # type: ignore[attr-defined]
                break


def may_be_read(found: os.stat_result) -> bool:
    """Whether what was found is a regular file of no unusual size.

    What /proc has says that it is empty, and may wait when it is read.
    """
    return stat.S_ISREG(found.st_mode) and 0 < found.st_size <= MOST_BYTES


def _opened(file: str) -> tuple[str, str, os.stat_result]:
    """``source_text``, and what was found there."""
    with io.open(file, "rb", opener=open_regular) as stream:
        found = posix.fstat(stream.fileno())
        if found.st_size and not may_be_read(found):
            raise OSError(
                f"expected a text file of at most {MOST_BYTES:,} bytes"
            )
        data = stream.read(MOST_BYTES) if found.st_size else b""
    encoding = _encoding(data)
    return data.decode(encoding), encoding, found


def _read(file: str) -> _Entry | None:
    try:
        if not may_be_read(posix.stat(file)):
            return None
        text, _, found = _opened(file)
    except (OSError, ValueError, LookupError):  # or no name of a file
        return None
    return found.st_size, found.st_mtime, _split(text), file


def _read_on_path(file: str) -> _Entry | None:
    """As ``linecache`` looks where a relative name is not there."""
    folders = sys.path
    if file.startswith("/") or type(folders) is not list:
        return None
    tried = (
        _read(f"{folder.rstrip('/')}/{file}" if folder else file)
        for folder in tuple(folders)
        if type(folder) is str
    )
    return next((read for read in tried if read is not None), None)


def _loaded(file: str, entry: object) -> _Entry | None:
    """What a lazy entry stands for, if no code of the program's makes it."""
    if type(entry) is not tuple or len(entry) != 1 or not _is_known(entry[0]):
        return None
    with Tolerated():  # the archive may be gone
        text = entry[0]()
        if type(text) is str and text:
            return len(text), None, _split(text), file
    return None


def _split(text: str) -> list[str]:
    """Lines as the interpreter counts them, each with its end."""
    lines = io.StringIO(text, newline=None).readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _encoding(data: bytes) -> str:
    """That a source's first two lines name; raises LookupError where it is
    none of Python's own, whose codecs run nothing of the program's."""
    if data.startswith(BOM_UTF8):
        return "utf-8-sig"
    stream = io.BytesIO(data)
    for line in (stream.readline(), stream.readline()):
        named = _COOKIE.match(line)
        if named is not None:
            return _known_encoding(named[1].decode("latin-1"))
        if not _BLANK.match(line):
            break
    return "utf-8"


def _known_encoding(name: str) -> str:
    normal = _NO_LETTER.sub("_", name.lower())
    if _UTF_8.fullmatch(normal):
        return "utf-8"
    if _LATIN_1.fullmatch(normal):
        return "iso-8859-1"
    if normal not in _ENCODINGS:
        raise LookupError(f"unknown encoding: {name}")
    return name


def _loader_in(loading: object) -> object:
    """What a lazy entry calls: from Python 3.13 on a function of
    ``linecache``'s own has it."""
    if type(loading) is partial:
        return loading.func
    maker = linecache.lazycache
    if type(loading) is not FunctionType or type(maker) is not FunctionType:
        return None
    if loading.__code__ not in maker.__code__.co_consts:
        return None
    inside = zip(
        loading.__code__.co_freevars, loading.__closure__ or (), strict=True
    )
    return next(
        (cell.cell_contents for name, cell in inside if name == "get_source"),
        None,
    )


def _is_known(loading: object) -> bool:
    """Whether what ``linecache`` would call is no code of the program's."""
    loader = _loader_in(loading)
    if type(loader) is not MethodType:
        return False
    function = loader.__func__
    module = function.__module__ if type(function) is FunctionType else None
    return type(module) is str and module.partition(".")[0] in _LOADERS
