"""Lines of source, read only where that costs the program nothing.

A code's file name is what its program says: it may be that of a pipe, a device
or a folder, and to open one of these may wait for ever, or take what the
program was to read.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import stat
import sys
import warnings
from functools import partial
from types import FunctionType, MethodType

#: A file's bytes that are read at most.  Generated source has some millions;
#: what has more holds data, and its lines would take three times as much.
MOST_BYTES = 1 << 24
#: Whose loaders are asked for source that is in no file.
_LOADERS = frozenset({"torch", "zipimport"})


def source_lines(file: str) -> list[str]:
    """Lines with their ends, the last one's too; none where there are none.

    What ``linecache`` has is served, as it has cells of notebooks.  Raises
    nothing but MemoryError; runs nothing of the program's.
    """
    entry = linecache.cache.get(file)
    if entry is not None and len(entry) != 1:
        return entry[2]
    if file.startswith("<") and file.endswith(">"):
        return linecache.getlines(file)  # never opened
    found = _status(file)
    if found is None and entry is not None:
        readable = _is_known(entry[0])
    else:
        found = found or _status_on_path(file)
        readable = found is not None and may_be_read(found)
    # Not getlines(): where memory is short that forgets all cells.
    return linecache.updatecache(file) if readable else []


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
        return ast.parse(text, _PARSED)
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


def _status(file: str) -> os.stat_result | None:
    try:
        return os.stat(file)
    except (OSError, ValueError):  # or no name that a file can have
        return None


def _status_on_path(file: str) -> os.stat_result | None:
    """Of the file that ``linecache`` takes where a relative name is not
    there."""
    folders = [*sys.path]
    if os.path.isabs(file) or any(type(one) is not str for one in folders):
        return None
    tried = (_status(os.path.join(folder, file)) for folder in folders)
    return next((found for found in tried if found is not None), None)


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
