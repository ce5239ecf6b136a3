"""A file of the user's, parsed: who encloses what, who binds which names."""

from __future__ import annotations

import ast
import os
from collections.abc import (
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import islice
from typing import TypeVar

from ...base.records import dataclass
from ...base.source_text import source_line, tree_of
from ...base.units import plural
from .unparsed import MOST_PARSED, text_in

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


@dataclass(frozen=True)
class Imported:
    """``here`` is what a file calls what another has as ``name``, or the
    module ``of`` itself, where ``name`` is ""."""

    of: str
    name: str
    here: str


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
    def imports(self) -> list[Imported]:
        """All that is imported, wherever it stands."""
        return [
            one
            for node in self.nodes
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for one in imported_by(node)
        ]

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
    text = text_in(file)
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


def imported_by(node: ast.Import | ast.ImportFrom) -> list[Imported]:
    """What a statement imports."""
    if isinstance(node, ast.ImportFrom):
        of = node.module or ""
        return [Imported(of, o.name, o.asname or o.name) for o in node.names]
    firsts = [(o.name.partition(".")[0], o) for o in node.names]
    return [
        Imported(one.name if one.asname else first, "", one.asname or first)
        for first, one in firsts
    ]


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


def own_of_method(source: Source, node: ast.AST | None) -> tuple[str, str]:
    """The class that a method stands in, and what it calls its own object; ""
    for what is none."""
    of = source.parents.get(node) if node is not None else None
    if not isinstance(node, FUNCTIONS) or not isinstance(of, ast.ClassDef):
        return "", ""
    return of.name, next(iter(parameters_of(node)), "")


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
        room -= sum(len(text_in(file) or "") for file in more)
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
