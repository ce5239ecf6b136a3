"""Whom a program's calls may come to, as its source says.

A call by a name comes to the user's functions of that name.  What is called
by a variable may be any function that is handed on anywhere, and a library
calls what it is given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .source_file import FUNCTIONS, Source, name_of

#: A function of the user's.
Defined = ast.FunctionDef | ast.AsyncFunctionDef
Function = Defined | ast.Lambda

#: What a call of an object comes to: a module's is its ``forward``.
OF_OBJECTS = ("__call__", "forward")


def given_to(call: ast.Call) -> list[ast.expr]:
    """All that a call is given, by place or by name."""
    return [*call.args, *(k.value for k in call.keywords)]


class Callees:
    """Functions and classes of some files, and who may call them."""

    def __init__(self, files: Iterable[Source]) -> None:
        self.named: dict[str, list[Function]] = {}
        #: Classes, and how they make an object.
        self.classes: dict[str, list[Function]] = {}
        #: Those that may be behind a variable.
        self.loose: list[Function] = []
        self._of_object: set[Function] = set()
        self._of_class: set[Function] = set()
        self._stored: set[str] = set()
        for source in files:
            self._define(source)
        for source in files:
            self._let_loose(source)

    def _define(self, source: Source) -> None:
        for node in source.nodes:
            if isinstance(node, FUNCTIONS):
                self.named.setdefault(node.name, []).append(node)
                self._note_owner(node, source.parents.get(node))
            elif isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, [])
            elif isinstance(getattr(node, "ctx", None), ast.Store):
                self._stored.add(getattr(node, "attr", ""))

    def _note_owner(self, function: Defined, owner: ast.AST | None) -> None:
        """Whether it stands in a class, and is called of an object's or of
        the class's."""
        if not isinstance(owner, ast.ClassDef):
            return
        if function.name == "__init__":
            self.classes.setdefault(owner.name, []).append(function)
        decorators = set(map(name_of, function.decorator_list))
        if "classmethod" in decorators:
            self._of_class.add(function)
        elif "staticmethod" not in decorators:
            self._of_object.add(function)

    def _let_loose(self, source: Source) -> None:
        for node in source.nodes:
            if isinstance(node, ast.Lambda):
                self.loose.append(node)
            elif name_of(node) in self.named and not _is_called(source, node):
                self.loose += self.named[name_of(node)]
        self.loose += [
            f for name in OF_OBJECTS for f in self.named.get(name, ())
        ]

    def by_name(self, call: ast.Call) -> list[Function] | None:
        """Those that a call names; None: it names none of the user's."""
        name = name_of(call.func)
        return self.named.get(name, self.classes.get(name))

    def by_value(self, source: Source, call: ast.Call) -> list[Function]:
        """Those that one may come to which names none."""
        if self.is_variable(source, call.func):
            return self.loose
        return [
            function
            for value in given_to(call)
            for node in ast.walk(value)
            for function in self._handed(node)
        ]

    def _handed(self, node: ast.AST) -> list[Function]:
        if isinstance(node, ast.Lambda):
            return [node]
        return self.named.get(name_of(node), [])

    def is_variable(self, source: Source, func: ast.expr) -> bool:
        """Whether what is called is a value of the program's, and no name of
        a library's."""
        if isinstance(func, ast.Name):
            scope, name = source.variable(func)
            return name in source.binds.get(scope, ())
        if isinstance(func, ast.Attribute):
            return func.attr in self._stored
        return True

    def parameters(
        self, function: Function, call: ast.Call
    ) -> Iterator[tuple[str, ast.expr]]:
        """Which parameter of a function that it names a call gives what."""
        of_class = name_of(getattr(call.func, "value", None)) in self.classes
        names = [
            a.arg for a in (*function.args.posonlyargs, *function.args.args)
        ]
        if function in self._of_class or (
            function in self._of_object and not of_class
        ):
            names = names[1:]
        rest = function.args.vararg
        for i, value in enumerate(call.args):
            if isinstance(value, ast.Starred):
                yield from ((one, value) for one in all_of(function))
            elif i < len(names):
                yield names[i], value
            elif rest is not None:
                yield rest.arg, value
        for keyword in call.keywords:
            named = keyword.arg in all_of(function)
            for one in [keyword.arg] if named else all_of(function):
                yield str(one), keyword.value


def all_of(function: Function) -> list[str]:
    """All parameters of a function."""
    given = function.args
    rest = [one for one in (given.vararg, given.kwarg) if one is not None]
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)
    return [one.arg for one in every]


def defaults_of(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Parameters with what they are where nothing is given."""
    given = function.args
    placed = [*given.posonlyargs, *given.args]
    first = len(placed) - len(given.defaults)
    for one, value in zip(placed[first:], given.defaults, strict=True):
        yield one.arg, value
    for one, other in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if other is not None:
            yield one.arg, other


def _is_called(source: Source, node: ast.AST) -> bool:
    parent = source.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node
