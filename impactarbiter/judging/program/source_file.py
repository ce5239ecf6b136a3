"""A file of the user's, parsed: who encloses what, who binds which names."""

from __future__ import annotations

import ast
import os
import re
import unicodedata
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import islice
from typing import TypeVar

from ...base.records import dataclass
from ...base.source_text import source_line, source_lines, tree_of
from ...base.units import plural

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
#: Of files that what is read leads to, all together: to follow a value through
#: so many takes a second, through twice as many four.
MOST_FURTHER = MOST_PARSED // 2

#: Nodes of a name's syntax tree, two for each attribute and more for a key.
MOST_PARTS = 64

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
#: A function of the user's.
Defined = ast.FunctionDef | ast.AsyncFunctionDef
Function = Defined | ast.Lambda
Found = TypeVar("Found")
#: A variable: the function that binds it ("" for attributes) and its name.
Variable = tuple[str, str]


@dataclass
class Source:
    """What was read of one file, which has ``size`` characters."""

    file: str
    size: int = 0
    words: set[str] = field(default_factory=set)
    nodes: list[ast.AST] = field(default_factory=list)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    binds: dict[str, set[str]] = field(default_factory=dict)
    #: Names that a function has from outside though it binds them.
    outer: dict[str, set[str]] = field(default_factory=dict)
    scopes: dict[ast.AST, str] = field(default_factory=dict)

    @cached_property
    def options(self) -> set[Variable]:
        """Variables that are what ``parse_args()`` gave, and no more."""
        given, written = set(), set()
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                made = getattr(node.value, "func", None)
                bound = {
                    self.variable(one)
                    for one in node.targets
                    if isinstance(one, ast.Name)
                }
                if name_of(made) == "parse_args":
                    given |= bound
                else:
                    written |= bound
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
            ):
                written.add(self.variable(node.value))
        return given - written

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """Calls by the last name of what they call."""
        calls: dict[str, list[ast.Call]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Call):
                calls.setdefault(name_of(node.func), []).append(node)
        return calls

    @cached_property
    def modules(self) -> dict[str, set[str]]:
        """Name here -> last names of the modules that it may stand for."""
        named: dict[str, set[str]] = {}
        for node in self.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for one in node.names:
                    here = one.asname or one.name.partition(".")[0]
                    name = one.name if one.asname else here
                    last = name.rpartition(".")[2]
                    named.setdefault(here, set()).add(last)
        return named

    def imported(self, module: str) -> set[str]:
        """Names that a module, or what is in it, has here."""
        return {name for of, name in self._imports if of == module}

    @cached_property
    def _imports(self) -> set[tuple[str, str]]:
        """(module, name) of all that is imported."""
        return {
            (of.partition(".")[0], one.asname or one.name.partition(".")[0])
            for node in self.nodes
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for one in node.names
            for of in [getattr(node, "module", one.name) or ""]
        }

    def function(self, node: ast.AST) -> Defined | None:
        """The function with a name that a node stands in, innermost."""
        around = (o for o in self.up(node) if isinstance(o, FUNCTIONS))
        return next(around, None)

    def is_option(self, node: ast.Attribute) -> bool:
        """Whether it is what the command line gave: no tensor."""
        owner = node.value
        return (
            isinstance(owner, ast.Name)
            and self.variable(owner) in self.options
        )

    def scope(self, node: ast.AST) -> str:
        """The dotted name of the function around a node."""
        return self.scopes[node]

    def variable(self, node: ast.Name) -> Variable:
        """The variable that a name means where it stands."""
        return self.named(node, node.id)

    def named(self, node: ast.AST, name: str) -> Variable:
        """The variable of that name where a node stands."""
        scope = self.scopes[node]
        while scope and (
            name not in self.binds.get(scope, ())
            or name in self.outer.get(scope, ())
        ):
            scope = scope.rpartition(".")[0]
        return (scope or "module", name)

    def up(self, node: ast.AST) -> Iterator[ast.AST]:
        """What encloses a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node


def mentions(file: str, words: Collection[str]) -> bool:
    """Whether one of the names stands in a file at all.

    In most files of a large program none does, and to parse them would take
    most of a report's time.
    """
    return _mentions(_text(file) or "", words)


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
    text = _text(file) or ""
    return any(name in functions for name in _DEFINED.findall(text))


def asks(
    file: str, names: Collection[str], shared: Set[str], owners: Set[str]
) -> bool:
    """Whether a file that knows an owner seems to ask for one of the names;
    ``shared``: what others have, too, is asked of an owner."""
    text = _text(file) or ""
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


def asks_modules(
    file: str, names: Collection[str], modules: Collection[str]
) -> bool:
    """Whether a file seems to read one of the global names of the modules."""
    text = _text(file) or ""
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
    text = _text(file) or ""
    if not _mentions(text, classes):
        return set()
    made = _MADE.findall(text)
    return {name for name, called in made if called in classes}


def _text(file: str) -> str | None:
    """None where there is too much of it."""
    lines = source_lines(file)
    return None if _is_too_much(lines) else "".join(lines)


def _is_too_much(lines: list[str]) -> bool:
    return sum(map(len, lines)) > MOST_PARSED


@lru_cache(maxsize=256)
def source_of(file: str) -> Source | None:
    """A file by its name; None where it is no Python that we can parse."""
    return parsed(file)


def parsed(file: str) -> Source | None:
    """The same, remembered until the look is over: while the program runs its
    heap is not to be filled with syntax trees."""
    trees = next(iter(_trees), {})
    if file in trees:
        return trees.get(file)
    text = _text(file)
    source = None if text is None else _parsed(file, text)
    known = sum(one.size for one in trees.values() if one)
    if source is not None and known + source.size > MOST_PARSED:
        trees.clear()
    trees[file] = source
    return source


#: One table while a look is being made; none else.
_trees: list[dict[str, Source | None]] = []


@contextmanager
def each_parsed_once() -> Iterator[None]:
    """In it a file is parsed once, whatever is asked of it."""
    _trees[:] = [{}]
    try:
        yield
    finally:
        _trees.clear()


def _parsed(file: str, text: str) -> Source | None:
    source = Source(file, len(text))
    try:
        _note(source, tree_of(text), "module")
    except (SyntaxError, ValueError, RecursionError):
        return None
    return source


def _note(source: Source, node: ast.AST, scope: str) -> None:
    source.nodes.append(node)
    source.scopes[node] = scope
    source.words.add(name_of(node))
    if isinstance(node, ast.alias):
        source.words.add(node.name.rpartition(".")[2])
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        source.outer.setdefault(scope, set()).update(node.names)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        source.words.add(node.value)
    for child in ast.iter_child_nodes(node):
        source.parents[child] = node
        if isinstance(child, (*FUNCTIONS, ast.Lambda)):
            _note_function(source, child, scope)
        else:
            _note(source, child, scope)
    bound = _bound(node)
    if bound is not None:
        source.binds.setdefault(scope, set()).add(bound)


def _note_function(source: Source, node: Function, scope: str) -> None:
    inner = f"{scope}.{getattr(node, 'name', 'lambda')}"
    given = node.args
    source.binds.setdefault(inner, set()).update(parameters_of(node))
    _note(source, node, inner)
    for outside in (*given.defaults, *given.kw_defaults):
        for part in ast.walk(outside) if outside is not None else ():
            source.scopes[part] = scope


def _bound(node: ast.AST) -> str | None:
    """The name that a node gives to a value where it stands."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


@dataclass(frozen=True)
class Names:
    """What a holder goes by: attributes, and variables of functions.

    ``variables`` are (function's last name, "module", or "" for any, name).
    """

    attributes: frozenset[str] = frozenset()
    variables: frozenset[tuple[str, str]] = frozenset()

    def __or__(self, other: Names) -> Names:
        return Names(
            self.attributes | other.attributes,
            self.variables | other.variables,
        )

    @property
    def words(self) -> set[str]:
        """All the names."""
        return {*self.attributes, *(name for _f, name in self.variables)}

    def has(self, source: Source, node: ast.AST) -> bool:
        """Whether an expression is one of them."""
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes and not source.is_option(node)
        if not isinstance(node, ast.Name):
            return False
        scope = source.variable(node)[0].rpartition(".")[2]
        return (scope, node.id) in self.variables or (
            ("", node.id) in self.variables
        )


def name_of(node: ast.AST | None) -> str:
    """The last name of what is called or read."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def code_of(node: ast.AST) -> str:
    """A place as a program names it; what is longer than a name gets a text
    that no other has: Python's own writer goes as deep as an expression."""
    parts = islice(ast.walk(node), MOST_PARTS + 1)
    if sum(1 for _ in parts) > MOST_PARTS:
        return f"<{id(node)}>"
    return ast.unparse(node)


def parameters_of(function: Function) -> list[str]:
    """All parameters of a function."""
    given = function.args
    rest = [one for one in (given.vararg, given.kwarg) if one is not None]
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)
    return [one.arg for one in every]


def given_to(call: ast.Call) -> list[ast.expr]:
    """All that a call is given, by place or by name."""
    return [*call.args, *(k.value for k in call.keywords)]


def variable_of(source: Source, node: ast.AST) -> Variable | None:
    """What a name or an attribute stands for; None: it is neither."""
    if isinstance(node, ast.Attribute):
        return "", node.attr
    return source.variable(node) if isinstance(node, ast.Name) else None


def read_further(
    read: Mapping[str, Source],
    files: Sequence[str],
    once: Callable[[list[Source]], tuple[Found, Callable[[str], bool]]],
) -> tuple[Found, str]:
    """What ``once`` finds in the sources that are read, and in those of the
    files that it says it leads to, until that are no more; and where more may
    be done with it ("" nowhere): in files that are too much to be read."""
    read = dict(read)
    seen = set(read)
    room = MOST_FURTHER
    while True:
        found, leads_to = once(list(read.values()))
        more = [f for f in files if f not in seen and leads_to(f)]
        seen.update(more)
        room -= sum(len(_text(file) or "") for file in more)
        if room < 0:
            count = plural(len(more), "more file")
            return found, f"in {count}, which are too much to be read"
        sources = {file: one for file in more if (one := source_of(file))}
        if not sources:
            return found, ""
        read |= sources


def bare(node: ast.AST) -> ast.AST:
    """``a.b`` of ``a.b[key]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def line_of(node: ast.AST) -> int:
    """Where a node begins; 0 where it has no place."""
    return int(getattr(node, "lineno", 0))


def shown(source: Source, node: ast.AST) -> str:
    """The line that a node begins in, for a reader."""
    number = line_of(node)
    line = source_line(source.file, number)
    return f"`{line}` ({os.path.basename(source.file)}:{number})"
