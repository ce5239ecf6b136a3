"""The statement that may grow a holder, found in the user's source: a guess.

The holder's expression ends in a name (``trainer.history``): a statement
that adds to something of that name is a candidate.  One candidate is an
answer, several are none.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from ..base.files import own_prefix
from ..base.imports import names_of
from ..core.ledger import is_library
from ..knowledge.containers import ANY, GROWING, MAPPINGS
from ..model.finding import Finding, Site
from .source_file import FUNCTIONS, bare, mentions, name_of

#: User modules whose source is searched.
MOST_FILES = 200

_LAST_NAME = re.compile(r"\.?<?(?:closure>\.|locals>\.)?(\w+)$")
_SUBSCRIPTS = re.compile(r"(\[[^\[\]]*\])+$")


def maybe_grown_at(finding: Finding) -> Site | None:
    """A guess, by name, at where the holder grows; None without one."""
    found = _all_candidates(finding)
    here = finding.allocated_at
    near = {(f.file, f.function.rpartition(".")[2]) for f in finding.stack}
    for chosen in (
        [s for s in found if (s.file, s.line) == (here.file, here.line)],
        found,
        [s for s in found if (s.file, s.function) in near],
    ):
        if len(chosen) == 1:
            return chosen[0]
    return None


def remakes(finding: Finding, seen: Site | None) -> bool:
    """Whether the holder's value is made from the one before it.

    ``seen`` is the statement that was seen to grow it, if one was.
    """
    if seen is None:
        return maybe_grown_at(finding) is not None
    return any(
        (s.file, s.line) == (seen.file, seen.line)
        for s in _all_candidates(finding)
    )


def _all_candidates(finding: Finding) -> list[Site]:
    if finding.holder is None:
        return []
    name = last_name(finding.holder.expression)
    if name is None:
        return []
    kind = finding.holder.type
    return [
        site
        for file in user_files(finding)
        if mentions(file, (name,))
        for site in _candidates(file, name, kind)
    ]


def last_name(expression: str) -> str | None:
    """The name that an expression ends in, without its subscripts."""
    text = _SUBSCRIPTS.sub("", expression)
    match = _LAST_NAME.search(text)
    return match.group(1) if match else None


def user_files(finding: Finding) -> list[str]:
    """Source files of the user's code, those on the stack first."""
    files = dict.fromkeys(f.file for f in finding.stack)
    for module in list(sys.modules.values()):
        file = names_of(module).get("__file__")
        if type(file) is str and file.endswith(".py"):
            files[file] = None
    own = own_prefix()
    user = [
        f for f in files if f and not f.startswith(own) and not is_library(f)
    ]
    return user[:MOST_FILES]


@lru_cache(maxsize=256)
def _candidates(file: str, name: str, kind: str) -> tuple[Site, ...]:
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        Site(file, node.lineno, function, lines[node.lineno - 1].strip())
        for function, node in _statements(tree, "<module>")
        if name in _grown_names(node, kind)
    )


def _statements(
    tree: ast.AST, function: str
) -> Iterator[tuple[str, ast.stmt]]:
    """Every statement with the name of the function that it stands in."""
    for child in ast.iter_child_nodes(tree):
        inner = function
        if isinstance(child, FUNCTIONS):
            inner = child.name
        if isinstance(child, (ast.Expr, ast.Assign, ast.AugAssign)):
            yield function, child
        yield from _statements(child, inner)


def _grown_names(node: ast.stmt, kind: str) -> set[str]:
    """Names of what a statement adds to, given the holder's type."""
    if isinstance(node, ast.AugAssign):
        return _names_of(node.target)
    names = _assigned(node, kind) if isinstance(node, ast.Assign) else set()
    methods = GROWING.get(kind, ANY)
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in methods
        ):
            names |= _names_of(call.func.value)
        if isinstance(call, ast.Call):
            names |= _named(call)
    return names


def _named(call: ast.Call) -> set[str]:
    """``register_buffer("mem", cat([self.mem, x]))``, ``setattr`` alike."""
    function = _names_of(call.func)
    if not function & {"register_buffer", "setattr"}:
        return set()
    texts = [
        arg.value
        for arg in call.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    used = {
        n
        for arg in call.args
        for part in ast.walk(arg)
        for n in _names_of(part)
    }
    return {text for text in texts if text in used}


def _assigned(node: ast.Assign, kind: str) -> set[str]:
    """``x[key] = ...`` adds to a dict; ``x = f(x)`` makes x longer."""
    names: set[str] = set()
    used = {n for part in ast.walk(node.value) for n in _names_of(part)}
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            if kind in GROWING and kind not in MAPPINGS:
                continue
            names |= _names_of(target.value)
        else:
            names |= _names_of(target) & used
    return names


def _names_of(node: ast.AST) -> set[str]:
    """The last name of an expression: ``a.b[0]`` is about ``b``."""
    return {name_of(bare(node))} - {""}
