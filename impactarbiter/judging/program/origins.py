"""Where a value that a statement keeps comes from, and its names there.

Back from the expression that is kept: through assignments, functions that
give it, arguments of those that call, attributes, properties, loops and views
of it.  A tensor that is changed, or asked for, under one of these names is the
one that is kept.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from ...base.records import dataclass
from ...knowledge.objects import IN_PLACE, PASSING, TAKING, VIEWS
from .flow import Flow
from .source_file import (
    Function,
    Names,
    Source,
    Variable,
    given_to,
    line_of,
    name_of,
    variable_of,
)

#: Where a node or value begins.
Place = tuple[int, int]

_ANYWHERE = ast.Pass()


@dataclass(frozen=True)
class Value:
    """An expression of a statement: where it stands in which file."""

    file: str
    start: Place
    end: Place

    @classmethod
    def of(cls, file: str, node: ast.expr) -> Value:
        """The one that a node of another parse is."""
        return cls(file, *span(node))


class Origins(Flow):
    """The names that some values have where they come from."""

    def __init__(self, files: list[Source], names: Names) -> None:
        super().__init__(files, names)
        #: Functions that are given what is kept by those that call them.
        self._given: set[str] = set()
        #: By file and function: where what is kept leaves for the statement.
        self._leaves: dict[tuple[str, str], list[Place]] = {}
        #: Functions that make it, and are done with it before it is kept.
        self._makers: set[tuple[str, str]] = set()
        self._bound: dict[Variable, list[tuple[Source, ast.AST, bool]]] = {}
        for source in files:
            for node in source.nodes:
                self._note_bound(source, node)

    def _note_bound(self, source: Source, node: ast.AST) -> None:
        for target, value in bindings(node):
            for one in ast.walk(target):
                variable = variable_of(source, one)
                if variable and isinstance(
                    getattr(one, "ctx", None), ast.Store
                ):
                    self._bind(variable, source, value)
        if not isinstance(node, ast.Call):
            return
        for function in self.callees.by_name(node) or ():
            home = self._home(function)
            for name, given in self.callees.parameters(function, node):
                parameter = home.named(function, name)
                self._bind(parameter, source, given, passed=True)
        if name_of(node.func) in self.callees.classes:
            for keyword in node.keywords:
                self._bind(("", keyword.arg or ""), source, keyword.value)

    def _bind(
        self,
        variable: Variable,
        source: Source,
        value: ast.AST,
        *,
        passed: bool = False,
    ) -> None:
        self._bound.setdefault(variable, []).append((source, value, passed))

    def follow(self, value: Value) -> None:
        """To where it comes from: what else it is called there."""
        todo: list[tuple[Source, ast.AST]] = []
        for source in self.files:
            for node in source.nodes if source.file == value.file else ():
                if isinstance(node, ast.expr) and span(node) == (
                    value.start,
                    value.end,
                ):
                    todo.append((source, node))
                    self._leave(source, node)
        known: set[ast.AST] = set()
        while todo:
            source, node = todo.pop()
            if node not in known:
                known.add(node)
                todo += self._before(source, node)

    def _leave(self, source: Source, node: ast.AST) -> None:
        where = source.file, source.scope(node)
        self._leaves.setdefault(where, []).append(span(node)[1])

    def callers(self) -> set[str]:
        """Functions whose callers have it as well: before it is kept, or as
        what the call gives."""
        keep = {scope.rpartition(".")[2] for _file, scope in self._leaves}
        return self._given | (keep & self.returns.keys())

    def _before(
        self, source: Source, node: ast.AST
    ) -> Iterable[tuple[Source, ast.AST]]:
        """Expressions that the value of one may come from."""
        if isinstance(node, ast.Name):
            return self._values_of(source.variable(node))
        if isinstance(node, ast.Attribute):
            if node.attr in VIEWS:
                return [(source, node.value)]
            if source.is_option(node):
                return []
            got = list(self._values_of(("", node.attr)))
            if node.attr in self.callees.properties:
                got += self._given_by(self.callees.named[node.attr])
            return got
        if isinstance(node, ast.Call):
            return self._made_by(source, node)
        if isinstance(node, (ast.DictComp, ast.Subscript)):
            return [(source, node.value)]
        if isinstance(node, ast.IfExp):
            return [(source, node.body), (source, node.orelse)]
        if isinstance(node, ast.Dict):
            return [(source, one) for one in node.values]
        if isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp)):
            return []
        children = ast.iter_child_nodes(node)
        return [(source, c) for c in children if isinstance(c, ast.expr)]

    def _values_of(
        self, variable: Variable
    ) -> Iterator[tuple[Source, ast.AST]]:
        self.reached.setdefault(variable, []).append(_ANYWHERE)
        bound = self._bound.get(variable, [])
        scope = variable[0].rpartition(".")[2]
        if all(passed for *_value, passed in bound):  # by its callers
            self._given |= {scope} - {"", "lambda", "module"}
        for source, value, passed in bound:
            if passed:
                self._leave(source, value)
            yield source, value

    def _made_by(
        self, source: Source, call: ast.Call
    ) -> Iterable[tuple[Source, ast.AST]]:
        name = name_of(call.func)
        functions = self.callees.by_name(call)
        if name in self.callees.classes:
            made = self.callees.methods_of([name], ("__new__", "__init__"))
            if self._is_tensor_class(name):
                for one in made:
                    first = next(iter(one.args.args), None)
                    if first is not None:
                        self._reach_parameter(one, first.arg)
            return self._given_by(made)
        if functions is not None:
            return self._given_by(functions)
        given = given_to(call) if name in PASSING | VIEWS else []
        if isinstance(call.func, ast.Attribute) and (
            name in VIEWS | TAKING or is_in_place(name)
        ):
            given = [*given, call.func.value]
        got: list[tuple[Source, ast.AST]] = [(source, one) for one in given]
        if self.callees.is_variable(source, call.func):
            got += self._given_by(self.callees.by_value(source, call))
        self.elsewhere |= {name} - {""}
        return got

    def _given_by(
        self, functions: Iterable[Function]
    ) -> list[tuple[Source, ast.AST]]:
        return [
            (home, one)
            for function in functions
            for home in [self._home(function)]
            for one in self._parts_given(home, function)
        ]

    def _parts_given(
        self, home: Source, function: Function
    ) -> Sequence[ast.AST]:
        if isinstance(function, ast.Lambda):
            return [function.body]
        scope = home.scope(function)
        parts = [
            one
            for one in ast.walk(function)
            if isinstance(one, (ast.Return, ast.Yield, ast.YieldFrom))
            and one.value is not None
            and home.scope(one) == scope
        ]
        if all(isinstance(one, ast.Return) for one in parts):
            self._makers.add((home.file, scope))
        return parts

    def _is_tensor_class(self, name: str) -> bool:
        bases = self.callees.line_of([name])
        return any("Tensor" in one or one == "Parameter" for one in bases)


def bindings(node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Targets, and what they are set to or get of."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return [(node.target, node.value)] if node.value is not None else []
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        return [(node.target, node.iter)]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [(node.optional_vars, node.context_expr)]
    return []


def span(node: ast.AST) -> tuple[Place, Place]:
    start = line_of(node), getattr(node, "col_offset", 0)
    end = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
    return start, end


def is_in_place(name: str) -> bool:
    """``add_``, ``__iadd__``, ``__setitem__``."""
    if name.startswith("__"):
        return name in IN_PLACE
    return name.endswith("_") and name != "requires_grad_"
