"""What values reach, by name.

Followed through assignments, loops, patterns, calls of the user's own
functions (callees.py) and their results; a doubt counts as a use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ...knowledge.containers import ADDING
from .callees import OF_ITEMS, OF_OBJECTS, defaults_of
from .sides import is_side_by_side, turns
from .source_file import (
    FUNCTIONS,
    Function,
    Names,
    Source,
    given_to,
    name_of,
    parameters_of,
)
from .values import Values

#: Passes over the files until nothing new is reached; names are few.
MOST_PASSES = 12


class Flow(Values):
    """What values of some variables reach, to a fixed point."""

    def __init__(self, files: list[Source], names: Names) -> None:
        super().__init__(files, names)
        #: Functions that get what is kept and stand in none of the files.
        self.elsewhere: set[str] = set()
        self._raised = False  # with an exception
        self._all_reached: set[Function] = set()

    def spread(self) -> None:
        """Follows what is kept until nothing new is reached."""
        for _ in range(MOST_PASSES):
            before = self._size()
            for source in self.files:
                for node in source.nodes:
                    self._spread(source, node)
            if self._size() == before:
                break

    def _size(self) -> int:
        return sum(map(len, self.returns.values())) + sum(
            map(len, self.reached.values())
        )

    def _import(self, source: Source, node: ast.ImportFrom) -> None:
        """What one of the files has by one name is had by another here."""
        for one in self.modules.renamed_by(node):
            if self._is_global(one.name):
                self._reach_name(source, node, one.here)

    def _spread(self, source: Source, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(source, target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if self._holds(source, node.value):
                self._reach(source, node.target)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._take_turns(source, node.target, node.iter)
        elif isinstance(node, ast.withitem):
            entered = "__enter__" in self.returns
            if node.optional_vars is not None and (
                entered or self._holds(source, node.context_expr)
            ):
                self._reach(source, node.optional_vars)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            self._give_back(source, node)
        elif isinstance(node, ast.Call):
            self._pass(source, node)
        elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
            for name, value in defaults_of(node):
                if self._holds(source, value):
                    self._reach_parameter(node, name)
        else:
            self._spread_names(source, node)

    def _take_turns(
        self, source: Source, target: ast.expr, iterated: ast.expr
    ) -> None:
        for part, value in turns(target, iterated):
            if self._gives(source, value):
                self._reach(source, part)

    def _spread_names(self, source: Source, node: ast.AST) -> None:
        """To names that patterns and handlers bind."""
        if isinstance(node, ast.ImportFrom):
            self._import(source, node)
        elif isinstance(node, ast.Raise):
            self._raised = self._raised or self._holds(source, node.exc)
        elif isinstance(node, ast.ExceptHandler):
            if self._raised and node.name is not None:
                self._reach_name(source, node, node.name)
        elif isinstance(node, ast.Match) and self._holds(source, node.subject):
            for case in node.cases:
                for part in ast.walk(case.pattern):
                    name = getattr(part, "name", getattr(part, "rest", None))
                    if name is not None:
                        self._reach_name(source, part, name)

    def _give_back(
        self, source: Source, node: ast.Return | ast.Yield | ast.YieldFrom
    ) -> None:
        name = source.scope(node).rpartition(".")[2]
        places: set[int | None] = {None}
        if isinstance(node, ast.Return) and is_side_by_side(node.value):
            places = {
                i
                for i, one in enumerate(node.value.elts)
                if self._holds(source, one)
            }
        elif not self._holds(source, node.value):
            places = set()
        if places:
            self.returns.setdefault(name, set()).update(places)

    def _assign(
        self, source: Source, target: ast.AST, value: ast.expr
    ) -> None:
        """Of values side by side each goes to the target in its place."""
        if not is_side_by_side(target):
            if self._holds(source, value):
                self._reach(source, target)
            return
        places = self._places(source, value, len(target.elts))
        for i, one in enumerate(target.elts):
            if is_side_by_side(value) and len(value.elts) == len(target.elts):
                self._assign(source, one, value.elts[i])
            elif None in places or i in places:
                self._reach(source, one)

    def _places(
        self, source: Source, value: ast.expr, count: int
    ) -> set[int | None]:
        """Which of so many values of an expression have what is kept; None:
        any of them may."""
        if not isinstance(value, ast.Call):
            return {None} if self._gives(source, value) else set()
        if not self._holds(source, value):
            return set()
        receiver = getattr(value.func, "value", None)
        name = name_of(value.func)
        functions = self.callees.named.get(name)
        if self._holds(source, receiver) or functions is None:
            return {None}
        alike = all(
            is_side_by_side(node.value) and len(node.value.elts) == count
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, ast.Return)
        )
        return self.returns.get(name, {None}) if alike else {None}

    def _reach(self, source: Source, target: ast.AST) -> None:
        """A target gets what is kept."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self._reach(source, one)
            return
        while isinstance(target, (ast.Subscript, ast.Starred)):
            if isinstance(target, ast.Subscript):
                owner = getattr(target.value, "func", target.value)
                if name_of(owner) in ("__dict__", "vars"):
                    self._reach_by_text([target.slice])
            target = target.value
        if isinstance(target, ast.Attribute):
            self.reached.setdefault(("", target.attr), [target])
        elif isinstance(target, ast.Name):
            self._reach_name(source, target, target.id)

    def _reach_by_text(self, given: Iterable[ast.expr]) -> None:
        """An attribute whose name stands in a text."""
        for one in given:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                self.reached.setdefault(("", one.value), [one])

    def _reach_name(self, source: Source, by: ast.AST, name: str) -> None:
        known = self.reached.setdefault(source.named(by, name), [])
        if by not in known:
            known.append(by)

    def _pass(self, source: Source, call: ast.Call) -> None:
        """Parameters of the user's functions get what is kept, and a container
        what is put into it."""
        given = given_to(call)
        if not self._any_gives(source, given):
            return
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in ADDING:
            self._reach(source, func.value)
        if name_of(func) in ("setattr", "__setattr__"):
            self._reach_by_text(given)
        functions = self.callees.by_name(call)
        if functions is None:
            self._look_elsewhere(source, call)
            for function in self.callees.by_value(source, call):
                self._reach_all(function)
            return
        for function in functions:
            for name, value in self.callees.parameters(function, call):
                if self._holds(source, value):
                    self._reach_parameter(function, name)

    def _reach_all(self, function: Function) -> None:
        if function not in self._all_reached:
            self._all_reached.add(function)
            for name in parameters_of(function):
                self._reach_parameter(function, name)

    def _look_elsewhere(self, source: Source, call: ast.Call) -> None:
        """What it comes to may stand in a file that was not read."""
        handed = {name_of(one) for one in given_to(call)}
        self.elsewhere |= {name_of(call.func), *handed} - {""}
        if self.callees.is_variable(source, call.func):
            self.elsewhere.update(OF_OBJECTS)

    def _home(self, function: Function) -> Source:
        return next(one for one in self.files if function in one.scopes)

    def _reach_parameter(self, function: Function, name: str) -> None:
        for source in self.files:
            if function in source.scopes:
                self._reach_name(source, function, name)

    def _is_given_to_library(self, source: Source, node: ast.Return) -> bool:
        """``training_step()`` of a class that has more from a library, which
        nothing here calls: what it gives back may be taken backward there."""
        around = source.function(node)
        return (
            around is not None
            and around.name not in self.callees.called
            and around.name not in self.callees.properties
            and around.name not in (*OF_OBJECTS, *OF_ITEMS)
            and self.callees.owner_is_elsewhere(source, around)
            and self._holds(source, node.value)
        )
