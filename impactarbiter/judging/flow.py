"""What values reach, by name: where a program needs their graph.

Followed through assignments, loops, calls of the user's own functions and
their results; a doubt counts as a use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeGuard

from ..knowledge.containers import ANY
from .source_file import Names, Source, Variable, line_of, name_of, shown

#: Calls whose result has nothing of a tensor any more.
_PLAIN_CALLS = frozenset(
    [
        "all",
        "any",
        "bool",
        "float",
        "format",
        "hash",
        "id",
        "int",
        "isinstance",
        "len",
        "print",
        "repr",
        "str",
        "type",
        "range",
    ]
)
_PLAIN_METHODS = frozenset(
    [
        "clear",
        "count",
        "detach",
        "dim",
        "index",
        "item",
        "keys",
        "nelement",
        "numel",
        "numpy",
        "remove",
        "size",
        "tolist",
    ]
) | (ANY - {"setdefault"})
#: What takes a graph, and what asks for one.
BACKWARDS = frozenset({"backward", "grad", "manual_backward"})
_OF_GRAPHS = frozenset(
    {"grad", "grad_fn", "register_hook", "requires_grad", "retain_grad"}
)
#: Passes over the files until nothing new is reached; names are few.
MOST_PASSES = 12


def _is_plain(node: ast.AST | None) -> TypeGuard[ast.Tuple | ast.List]:
    """Whether it is several values side by side, each in its place."""
    return isinstance(node, (ast.Tuple, ast.List)) and not any(
        isinstance(one, ast.Starred) for one in node.elts
    )


class Flow:
    """What values of some variables reach, to a fixed point."""

    def __init__(self, files: list[Source], names: Names) -> None:
        self.files = files
        self.names = names
        self.reached: dict[Variable, list[ast.AST]] = {}
        #: Function -> which of the values that it returns side by side; None
        #: where it returns a single one.
        self.returns: dict[str, set[int | None]] = {}
        #: Functions that get what is kept and stand in none of the files.
        self.elsewhere: set[str] = set()
        self.functions: dict[str, list[ast.FunctionDef]] = {}
        for source in files:
            for node in source.nodes:
                if isinstance(node, ast.FunctionDef):
                    self.functions.setdefault(node.name, []).append(node)

    def run(self) -> str:
        """Where a graph is needed; "" where nothing is seen to need one."""
        for _ in range(MOST_PASSES):
            before = self._size()
            for source in self.files:
                for node in source.nodes:
                    self._spread(source, node)
            if self._size() == before:
                break
        for source in self.files:
            for node in source.nodes:
                if self._needs_graph(source, node):
                    return shown(source, node)
        return ""

    def _size(self) -> int:
        return sum(map(len, self.returns.values())) + sum(
            map(len, self.reached.values())
        )

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
        loops = {
            outer
            for outer in source.up(by)
            if isinstance(outer, (ast.For, ast.While))
        }
        return any(outer in loops for outer in source.up(node))

    def _holds(self, source: Source, node: ast.AST | None) -> bool:
        """Whether an expression's value may be, or have, what is kept."""
        if node is None or isinstance(
            node, (ast.Compare, ast.JoinedStr, ast.Constant, ast.Lambda)
        ):
            return False
        if isinstance(node, ast.Name):
            return self._is_reached(source, node)
        if isinstance(node, ast.Attribute):
            if source.is_option(node):
                return False
            if self.names.has(source, node) or ("", node.attr) in self.reached:
                return True
            return node.attr not in ("shape", "dtype", "device", "data") and (
                self._holds(source, node.value)
            )
        if isinstance(node, ast.Call):
            return self._call_holds(source, node)
        if isinstance(node, ast.Subscript):
            return self._holds(source, node.value)
        if isinstance(node, ast.IfExp):
            return self._any(source, (node.body, node.orelse))
        if isinstance(node, ast.Dict):
            return self._any(source, node.values)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._holds(source, node.elt)
        if isinstance(node, ast.DictComp):
            return self._holds(source, node.value)
        return self._any(source, ast.iter_child_nodes(node))

    def _any(self, source: Source, nodes: Iterable[ast.AST | None]) -> bool:
        return any(self._holds(source, node) for node in nodes)

    def _call_holds(self, source: Source, call: ast.Call) -> bool:
        given = [*call.args, *(k.value for k in call.keywords)]
        if isinstance(call.func, ast.Name):
            name = call.func.id
            if name in _PLAIN_CALLS:
                return False
            if name in self.functions:
                return name in self.returns
            return self._any(source, given)
        if isinstance(call.func, ast.Attribute):
            if call.func.attr in _PLAIN_METHODS:
                return False
            if call.func.attr in self.returns:
                return True
            own = call.func.attr in self.functions
            return self._holds(source, call.func.value) or (
                not own and self._any(source, given)
            )
        return self._any(source, given)

    def _spread(self, source: Source, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(source, target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if self._holds(source, node.value):
                self._reach(source, node.target)
        elif isinstance(node, (ast.For, ast.comprehension)):
            if self._holds(source, node.iter):
                self._reach(source, node.target)
        elif isinstance(node, (ast.Return, ast.Yield)):
            name = source.scope(node).rpartition(".")[2]
            places: set[int | None] = {None}
            if isinstance(node, ast.Return) and _is_plain(node.value):
                places = {
                    i
                    for i, one in enumerate(node.value.elts)
                    if self._holds(source, one)
                }
            elif not self._holds(source, node.value):
                places = set()
            if places:
                self.returns.setdefault(name, set()).update(places)
        elif isinstance(node, ast.Call):
            self._pass(source, node)

    def _assign(self, source: Source, target: ast.AST, value: ast.AST) -> None:
        """Of values side by side each goes to the target in its place."""
        if not _is_plain(target):
            if self._holds(source, value):
                self._reach(source, target)
            return
        places = self._places(source, value, len(target.elts))
        for i, one in enumerate(target.elts):
            if _is_plain(value) and len(value.elts) == len(target.elts):
                self._assign(source, one, value.elts[i])
            elif None in places or i in places:
                self._reach(source, one)

    def _places(
        self, source: Source, value: ast.AST, count: int
    ) -> set[int | None]:
        """Which of so many values of an expression have what is kept; None:
        any of them may."""
        if not self._holds(source, value):
            return set()
        if not isinstance(value, ast.Call):
            return {None}
        receiver = getattr(value.func, "value", None)
        name = name_of(value.func)
        if self._holds(source, receiver) or name not in self.functions:
            return {None}
        alike = all(
            _is_plain(node.value) and len(node.value.elts) == count
            for function in self.functions[name]
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
            target = target.value
        if isinstance(target, ast.Attribute):
            self.reached.setdefault(("", target.attr), [target])
        elif isinstance(target, ast.Name):
            by = self.reached.setdefault(source.variable(target), [])
            if target not in by:
                by.append(target)

    def _pass(self, source: Source, call: ast.Call) -> None:
        """Parameters of the user's functions get what is kept."""
        name = name_of(call.func)
        if name and name not in self.functions:
            given = [*call.args, *(k.value for k in call.keywords)]
            if self._any(source, given):
                self.elsewhere.add(name)
        for function in self.functions.get(name, ()):
            params = [a.arg for a in function.args.args]
            if params[:1] == ["self"]:
                params = params[1:]
            pairs = [
                *zip(params, call.args, strict=False),
                *((k.arg, k.value) for k in call.keywords if k.arg),
            ]
            for param, value in pairs:
                if self._holds(source, value):
                    self._reach_parameter(function, param)

    def _reach_parameter(self, function: ast.FunctionDef, name: str) -> None:
        for source in self.files:
            if function in source.scopes:
                variable = source.scope(function), name
                by = self.reached.setdefault(variable, [])
                if function not in by:
                    by.append(function)

    def _needs_graph(self, source: Source, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and node.attr in _OF_GRAPHS:
            return self._holds(source, node.value)
        if not isinstance(node, ast.Call):
            return False
        func = node.func
        if name_of(func) not in BACKWARDS:
            return False
        if isinstance(func, ast.Attribute) and self._holds(source, func.value):
            return True
        return self._any(source, node.args)
