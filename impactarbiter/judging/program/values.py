"""Which expressions of a program have what is kept, as its source says.

By what variables, attributes and results of functions it was followed to
(flow.py); a doubt counts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from ...knowledge.objects import PLAIN_CALLS, PLAIN_METHODS, SHARED
from .callees import OF_ITEMS, Callees
from .modules import Modules
from .source_file import (
    LOOPS,
    Names,
    Source,
    Variable,
    bare,
    given_to,
    line_of,
    name_of,
    shown,
)


class Values:
    """Which expressions have what is kept, as far as it was followed."""

    def __init__(self, files: list[Source], names: Names) -> None:
        self.files = files
        self.names = names
        self.reached: dict[Variable, list[ast.AST]] = {}
        #: Function -> which of the values that it returns side by side; None
        #: where it returns a single one.
        self.returns: dict[str, set[int | None]] = {}
        self.callees = Callees(files)
        self.modules = Modules(files)
        self._called: dict[frozenset[str], set[str]] = {}  # by classes

    def _is_global(self, name: str) -> bool:
        """Whether a module's variable of that name has what is kept."""
        return ("module", name) in self.reached or (
            not self.names.variables.isdisjoint((("module", name), ("", name)))
        )

    def attributes(self) -> set[str]:
        """Those that have what is kept, as far as it was followed."""
        reached = {name for scope, name in self.reached if not scope}
        return reached | self.names.attributes

    def globals(self) -> set[str]:
        """Global names of modules that have what is kept, as far as it was
        followed."""
        every = {*self.reached, *self.names.variables}
        return {name for scope, name in every if scope == "module"}

    def _first(self, asked: Callable[[Source, ast.AST], bool]) -> str:
        for source in self.files:
            for node in source.nodes:
                if asked(source, node):
                    return shown(source, node)
        return ""

    def _is_reached(self, source: Source, node: ast.Name) -> bool:
        if self.names.has(source, node):
            return True
        return any(
            self._may_follow(source, by, node)
            for by in self.reached.get(source.variable(node), ())
        )

    def _may_follow(self, source: Source, by: ast.AST, node: ast.AST) -> bool:
        """Whether the node may run after what has bound its variable."""
        if by not in source.scopes or source.scope(by) != source.scope(node):
            return True
        if line_of(node) >= line_of(by):
            return True
        loops = {outer for outer in source.up(by) if isinstance(outer, LOOPS)}
        return any(outer in loops for outer in source.up(node))

    def _holds(self, source: Source, node: ast.AST | None) -> bool:
        """Whether an expression's value may be, or have, what is kept."""
        if node is None or isinstance(
            node, (ast.Compare, ast.JoinedStr, ast.Constant)
        ):
            return False
        if isinstance(node, ast.Lambda):
            return self._holds(source, node.body)
        if isinstance(node, ast.Name):
            return self._is_reached(source, node)
        if isinstance(node, ast.Attribute):
            if source.is_option(node):
                return False
            if self.names.has(source, node) or ("", node.attr) in self.reached:
                return True
            if ("module", node.attr) in self.reached and self.modules.has(
                source, node
            ):
                return True
            if node.attr in self.returns and (
                node.attr in self.callees.properties
            ):
                return True
            return node.attr not in ("shape", "dtype", "device", "data") and (
                self._holds(source, node.value)
            )
        if isinstance(node, ast.Call):
            return self._call_holds(source, node)
        if isinstance(node, ast.Subscript):
            return self._gives(source, node.value)
        if isinstance(node, ast.IfExp):
            return self._any(source, (node.body, node.orelse))
        if isinstance(node, ast.Dict):
            return self._any(source, node.values)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._holds(source, node.elt)
        if isinstance(node, ast.DictComp):
            return self._holds(source, node.value)
        if isinstance(node, (ast.Starred, ast.YieldFrom)):
            return self._gives(source, node.value)
        return self._any(source, ast.iter_child_nodes(node))

    def _any(self, source: Source, nodes: Iterable[ast.AST | None]) -> bool:
        return any(self._holds(source, node) for node in nodes)

    def _any_gives(self, source: Source, nodes: Iterable[ast.expr]) -> bool:
        return any(self._gives(source, node) for node in nodes)

    def _gives(self, source: Source, node: ast.expr) -> bool:
        """Whether it has what is kept, or gives it item by item."""
        return self._holds(source, node) or self._gives_items(source, node)

    def _gives_items(self, source: Source, value: ast.expr) -> bool:
        """Whether it is an object of the user's that gives what is kept, or
        is called as one is."""
        methods = OF_ITEMS & self.returns.keys()
        if not methods:
            return False
        given = self.callees.gives_items(source, value)
        if given is not None:
            return not methods.isdisjoint(given)
        name = name_of(value)
        name = self.modules.first_name(source, name)
        return name in self._giving()

    def _giving(self) -> set[str]:
        """What objects are called whose class gives what is kept."""
        classes = frozenset(
            name
            for name in self.modules.classes
            for method in self.callees.methods_of([name], OF_ITEMS)
            if getattr(method, "name", "") in self.returns
        )
        if classes not in self._called:
            self._called[classes] = self.modules.objects_of(classes)
        return self._called[classes]

    def _call_holds(self, source: Source, call: ast.Call) -> bool:
        func, name = call.func, name_of(call.func)
        if isinstance(func, ast.Name):
            name = self.modules.first_name(source, name)
        if isinstance(func, ast.Name) and name in PLAIN_CALLS:
            return False
        if isinstance(func, ast.Attribute) and name in PLAIN_METHODS:
            return False
        if name in self.returns and not self._is_anothers(source, func):
            return True
        named = name in self.callees.named
        if isinstance(func, ast.Name) and named:
            return False
        receiver = getattr(func, "value", func)
        return (
            self._holds(source, receiver)
            or (not named and self._any_gives(source, given_to(call)))
            or self._gives_by_value(source, call)
        )

    def _is_anothers(self, source: Source, func: ast.expr) -> bool:
        """Whether a method is asked for, as many have it, of nothing that is
        known to have what is kept, nor to give it."""
        if not isinstance(func, ast.Attribute) or func.attr not in SHARED:
            return False
        owner = name_of(bare(func.value))
        known = owner == "self" or owner in self.modules.owners
        return not known and not self._holds(source, func.value)

    def _gives_by_value(self, source: Source, call: ast.Call) -> bool:
        """Whether one of the functions that may be behind a variable gives
        what is kept."""
        return (
            self.callees.by_name(call) is None
            and self.callees.is_variable(source, call.func)
            and any(
                getattr(function, "name", "") in self.returns
                for function in self.callees.by_value(source, call)
            )
        )
