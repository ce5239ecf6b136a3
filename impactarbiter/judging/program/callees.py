"""Whom a program's calls may come to, as its source says.

A call by a name comes to the user's functions of that name.  What is called
by a variable may be any function that is handed on anywhere, and a library
calls what it is given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from .source_file import (
    FUNCTIONS,
    Defined,
    Function,
    Source,
    Variable,
    given_to,
    name_of,
    parameters_of,
    variable_of,
)

#: What a call of an object comes to: a module's is its ``forward``.
OF_OBJECTS = ("__call__", "forward")
#: Methods by which an object gives what it has.
OF_ITEMS = frozenset({"__getitem__", "__iter__", "__next__"})


class Callees:
    """Functions and classes of some files, and who may call them."""

    def __init__(self, files: Iterable[Source]) -> None:
        self.named: dict[str, list[Function]] = {}
        #: Classes, and how they make an object.
        self.classes: dict[str, list[Function]] = {}
        #: Those that may be behind a variable.
        self.loose: list[Function] = []
        #: Methods that are read like attributes.
        self.properties: set[str] = set()
        self.called: set[str] = set()
        self._methods: dict[str, dict[str, Function]] = {}  # by class
        self._bases: dict[str, list[str]] = {}
        self._bound: dict[Function, str] = {}  # to what: "object" or "class"
        #: What variables and attributes are set to.
        self.values: dict[Variable, list[ast.expr]] = {}
        self._homes: dict[ast.expr, Source] = {}  # of these
        self._made: dict[Variable, set[str] | None] = {}  # see ``made_of``
        for source in files:
            for node in source.nodes:
                self._define(source, node)
        for source in files:
            for node in source.nodes:
                self._let_loose(source, node)

    def _define(self, source: Source, node: ast.AST) -> None:
        if isinstance(node, FUNCTIONS):
            self.named.setdefault(node.name, []).append(node)
            self._note_owner(node, source.parents.get(node))
        elif isinstance(node, ast.ClassDef):
            self.classes.setdefault(node.name, [])
            self._bases.setdefault(node.name, []).extend(
                map(name_of, node.bases)
            )
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._set(source, target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._set(source, node.target, node.value)
        elif isinstance(node, ast.Call):
            self.called.add(name_of(node.func))

    def _set(self, source: Source, target: ast.AST, value: ast.expr) -> None:
        variable = variable_of(source, target)
        if variable is not None:
            self.values.setdefault(variable, []).append(value)
            self._homes[value] = source

    def _note_owner(self, function: Defined, owner: ast.AST | None) -> None:
        """Whether it stands in a class, and is called of an object's or of
        the class's."""
        if not isinstance(owner, ast.ClassDef):
            return
        self._methods.setdefault(owner.name, {})[function.name] = function
        if function.name == "__init__":
            self.classes.setdefault(owner.name, []).append(function)
        decorators = set(map(name_of, function.decorator_list))
        if "classmethod" in decorators:
            self._bound[function] = "class"
        elif "staticmethod" not in decorators:
            self._bound[function] = "object"
        if not decorators.isdisjoint(("cached_property", "property")):
            self.properties.add(function.name)

    def _let_loose(self, source: Source, node: ast.AST) -> None:
        """Functions that are handed on, by whatever name."""
        if isinstance(node, ast.Lambda):
            self.loose.append(node)
            return
        name = name_of(node)
        if (
            name not in self.named
            or name in self.properties
            or not isinstance(getattr(node, "ctx", None), ast.Load)
            or self._is_value(node, source)
        ):
            return
        parent = source.parents.get(node)
        if not (isinstance(parent, ast.Call) and parent.func is node):
            self.loose += self.named[name]

    def by_name(self, call: ast.Call) -> list[Function] | None:
        """Those that a call names; None: it names none of the user's."""
        name = name_of(call.func)
        return self.named.get(name, self.classes.get(name))

    def by_value(self, source: Source, call: ast.Call) -> list[Function]:
        """Those that one may come to which names none."""
        if self.is_variable(source, call.func):
            return self._behind(source, call.func)
        return [
            function
            for value in given_to(call)
            for node in ast.walk(value)
            for function in self._handed(node)
        ]

    def _behind(self, source: Source, func: ast.expr) -> list[Function]:
        """Functions that a variable may stand for: where all that it is set
        to are objects, how these are called."""
        made = self.made_of(source, func)
        if made is None:
            every = (self.named.get(name, ()) for name in OF_OBJECTS)
            return [*self.loose, *(one for some in every for one in some)]
        return self.methods_of(made, OF_OBJECTS)

    def methods_of(
        self, classes: Iterable[str], wanted: Iterable[str]
    ) -> list[Function]:
        """Methods of the user's classes, their bases' among them."""
        return [
            self._methods[name][method]
            for name in self.line_of(classes)
            for method in wanted
            if method in self._methods.get(name, ())
        ]

    def line_of(self, classes: Iterable[str]) -> list[str]:
        """Classes and their bases, as far as these are the user's."""
        line = list(classes)
        for name in line:  # which gets longer
            line += [b for b in self._bases.get(name, ()) if b not in line]
        return line

    def made_of(self, source: Source, value: ast.expr) -> set[str] | None:
        """Names of the classes that what stands there may be an object of, by
        what it is set to; None: it may be anything."""
        if isinstance(value, ast.Call):
            return self._made_by(source, value)
        variable = variable_of(source, value)
        if variable is None:
            return None
        if variable not in self._made:
            self._made[variable] = None  # what is made of itself
            self._made[variable] = self._set_to(variable)
        return self._made[variable]

    def _set_to(self, variable: Variable) -> set[str] | None:
        """The same of a variable."""
        made: set[str] = set()
        values = self.values.get(variable, [])
        for one in values:
            if not isinstance(one, ast.Call):
                return None
            found = self._made_by(self._homes[one], one)
            if found is None:
                return None
            made |= found
        return made if values else None

    def _made_by(self, source: Source, call: ast.Call) -> set[str] | None:
        """The same of what a call gives: a library's object may pass on calls
        to what it was made of."""
        name = name_of(call.func)
        if not name or name in self.named or self._is_value(call.func, source):
            return None
        if name in self.classes:
            return {name}
        for given in given_to(call):
            for node in ast.walk(given):
                if self._may_call(source, node):
                    return None
        return {name}

    def _is_value(self, node: ast.AST, source: Source) -> TypeGuard[ast.Name]:
        return isinstance(node, ast.Name) and self.is_variable(source, node)

    def _may_call(self, source: Source, node: ast.AST) -> bool:
        """Whether it is one of the user's functions, classes or objects, or
        may be."""
        if self._handed(node) or name_of(node) in self.classes:
            return True
        if not self._is_value(node, source):
            return False
        made = self.made_of(source, node)
        return made is None or not made.isdisjoint(self.classes)

    def gives_items(self, source: Source, value: ast.expr) -> set[str] | None:
        """Methods by which an object of the user's gives what it has; None:
        it may be anything."""
        made = self.made_of(source, value)
        if made is None:
            return None
        methods = self.methods_of(made, OF_ITEMS)
        return {getattr(one, "name", "") for one in methods}

    def owner_is_elsewhere(self, source: Source, function: Function) -> bool:
        """Whether it is a method of a class that has others of a library's."""
        owner = source.parents.get(function)
        return isinstance(owner, ast.ClassDef) and any(
            name_of(base) not in self.classes and name_of(base) != "object"
            for base in owner.bases
        )

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
            return ("", func.attr) in self.values
        return True

    def parameters(
        self, function: Function, call: ast.Call
    ) -> list[tuple[str, ast.expr]]:
        """Which parameter of a function that it names a call gives what."""
        names = self._placed(function, call)
        every = parameters_of(function)
        rest = function.args.vararg
        given: list[tuple[str, ast.expr]] = []
        for i, value in enumerate(call.args):
            if isinstance(value, ast.Starred):
                given += [(one, value) for one in every]
            elif i < len(names):
                given.append((names[i], value))
            elif rest is not None:
                given.append((rest.arg, value))
        for keyword in call.keywords:
            name = keyword.arg
            known = [name] if name is not None and name in every else every
            given += [(one, keyword.value) for one in known]
        return given

    def _placed(self, function: Function, call: ast.Call) -> list[str]:
        """Parameters that a call gives by their place: the object that a
        method is called of is none of these."""
        given = function.args
        names = [a.arg for a in (*given.posonlyargs, *given.args)]
        of_class = name_of(getattr(call.func, "value", None)) in self.classes
        bound = self._bound.get(function)
        if bound == "class" or (bound == "object" and not of_class):
            return names[1:]
        return names


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
