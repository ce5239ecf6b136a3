"""Which variables stand for what grows: what an attribute is read into, what
a loop calls it, what a class is handed that keeps it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source_file import FUNCTIONS, Source, Variable, bare, name_of
from .syntax import class_around, is_in_init, loops_around, pairs

_NAMED = (ast.Name, ast.Attribute, ast.Subscript)


class Aliases:
    """Of ``it``, a name, an attribute or an item, that ``grows`` adds to."""

    def __init__(self, source: Source, grows: ast.stmt, it: ast.AST) -> None:
        self._source, self._grows = source, grows
        self._it = bare(it)
        self.name = name_of(self._it)
        self._variables = {
            *self._read_into(),
            *self._gone_through(),
            *self._items_gone_through(it),
            *self._handed_in(),
        }

    def stand_for(self, node: ast.AST) -> bool:
        """Whether both are one variable, or attributes of one name; a
        variable may be what an attribute was read into."""
        named = bare(node)
        if isinstance(named, ast.Name) and (
            self._source.variable(named) in self._variables
        ):
            return True
        return self._is_so_called(named)

    @property
    def is_attribute(self) -> bool:
        return isinstance(self._it, ast.Attribute)

    def _is_so_called(self, node: ast.AST) -> bool:
        """Whether both are one variable, or attributes of one name."""
        if type(node) is not type(self._it) or name_of(node) != self.name:
            return False
        return not isinstance(node, ast.Name) or self._is_variable(node)

    def _is_variable(self, name: ast.Name) -> bool:
        """Whether a name means the same variable, or one that it may be
        handed to: a parameter of its name."""
        assert isinstance(self._it, ast.Name)
        source = self._source
        return source.variable(name) == source.variable(self._it) or (
            name.id in _parameters(source, name)
        )

    def _read_into(self) -> Iterator[Variable]:
        """``rows = self.rows``: what it is called in that function."""
        for node in self._source.nodes:
            if isinstance(node, ast.Assign) and self.is_attribute:
                for target, value in pairs(node):
                    if (
                        isinstance(target, ast.Name)
                        and isinstance(value, ast.Attribute)
                        and value.attr == self.name
                    ):
                        yield self._source.variable(target)

    def _gone_through(self) -> Iterator[Variable]:
        """``for part in (self.rows, self.names):`` likewise."""
        for node in self._source.nodes:
            if not isinstance(node, ast.For):
                continue
            through = node.iter
            if (
                isinstance(node.target, ast.Name)
                and isinstance(through, (ast.Tuple, ast.List))
                and any(map(self._is_so_called, through.elts))
            ):
                yield self._source.variable(node.target)

    def _items_gone_through(self, it: ast.AST) -> Iterator[Variable]:
        """``for rows in self.kept.values():`` where an item of ``self.kept``
        grows, by its key or as another loop goes through it."""
        container = self._container_of(it)
        if container is None:
            return
        for loop in self._source.nodes:
            through = _gone_through_by(loop)
            if through is not None and self._are_one(through, container):
                assert isinstance(loop, ast.For)
                yield from map(self._source.variable, _names(loop.target))

    def _container_of(self, it: ast.AST) -> ast.AST | None:
        """What it is an item of; None where the source does not say."""
        if isinstance(it, ast.Subscript):
            return self._it
        around = loops_around(self._source, self._grows)
        for loop in around if isinstance(it, ast.Name) else ():
            if isinstance(loop, ast.For) and any(
                name.id == name_of(it) for name in _names(loop.target)
            ):
                return _gone_through_by(loop)
        return None

    def _are_one(self, node: ast.AST, other: ast.AST) -> bool:
        """Attributes of one name, or one variable."""
        if isinstance(node, ast.Name) and isinstance(other, ast.Name):
            source = self._source
            return source.variable(node) == source.variable(other)
        return type(node) is type(other) and name_of(node) == name_of(other)

    def _handed_in(self) -> Iterator[Variable]:
        """``Worker(rows)``, of a class whose ``__init__`` keeps that argument
        by the attribute's name."""
        for owner, name in self._kept_by_init():
            for call in self._source.nodes:
                if not isinstance(call, ast.Call):
                    continue
                if name_of(call.func) == owner.name:
                    given = _argument(call, owner, name)
                    if isinstance(given, ast.Name):
                        yield self._source.variable(given)

    def _kept_by_init(self) -> Iterator[tuple[ast.ClassDef, str]]:
        """``self.rows = rows``: classes, and names of the arguments."""
        source = self._source
        if not self.is_attribute:
            return
        for node in source.nodes:
            if not isinstance(node, ast.stmt) or not is_in_init(source, node):
                continue
            owner = class_around(source, node)
            for target, value in pairs(node):
                if (
                    isinstance(owner, ast.ClassDef)
                    and isinstance(value, ast.Name)
                    and self._is_so_called(target)
                ):
                    yield owner, value.id


def _names(target: ast.expr) -> list[ast.Name]:
    return [part for part in ast.walk(target) if isinstance(part, ast.Name)]


def _gone_through_by(loop: ast.AST) -> ast.AST | None:
    """The container that a loop goes through the items of: ``kept``,
    ``kept.values()``, ``list(kept.items())``."""
    if not isinstance(loop, ast.For):
        return None
    through: ast.expr = loop.iter
    while isinstance(through, ast.Call):
        called = through.func
        if isinstance(called, ast.Attribute):
            if called.attr not in ("values", "items"):
                return None
            through = called.value
        elif name_of(called) in ("list", "tuple") and through.args:
            through = through.args[0]
        else:
            return None
    return bare(through) if isinstance(through, _NAMED) else None


def _argument(
    call: ast.Call, owner: ast.ClassDef, name: str
) -> ast.expr | None:
    """What a class is called with for that argument of its ``__init__``."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    for node in owner.body:
        if isinstance(node, FUNCTIONS) and node.name == "__init__":
            names = [one.arg for one in node.args.args[1:]]
            at = names.index(name) if name in names else len(call.args)
            return call.args[at] if at < len(call.args) else None
    return None


def _parameters(source: Source, node: ast.AST) -> set[str]:
    """Of the function around a node."""
    function = source.function(node)
    if function is None:
        return set()
    given = function.args
    return {
        a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)
    }
