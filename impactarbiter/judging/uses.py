"""How a program uses what a holder keeps: what a patch may not disturb.

Reads the user's source with ``ast``, never the program.  What may reach a
value is followed by name, through assignments, loops, calls of the user's own
functions and their results; a doubt counts as a use.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ..knowledge.containers import ANY

#: A variable: the function that binds it ("" for attributes) and its name.
Variable = tuple[str, str]

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
_BACKWARDS = frozenset({"backward", "grad", "manual_backward"})
_OF_GRAPHS = frozenset(
    {"grad", "grad_fn", "register_hook", "requires_grad", "retain_grad"}
)
#: Calls that give the same for a tensor of one number and for that number.
_NUMBERS = frozenset({"float", "int"})
#: Passes over the files until nothing new is reached; names are few.
MOST_PASSES = 12


@dataclass(frozen=True)
class Uses:
    """What the program does with what is kept, as far as it is understood.

    ``graph`` says where a graph is needed ("" nowhere); ``number`` why a
    number would not do instead of a tensor of one ("" it would).
    """

    graph: str = ""
    number: str = ""


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

    def has(self, source: _Source, node: ast.AST) -> bool:
        """Whether an expression is one of them."""
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes
        if not isinstance(node, ast.Name):
            return False
        scope = source.variable(node)[0].rpartition(".")[2]
        return (scope, node.id) in self.variables or (
            ("", node.id) in self.variables
        )


def uses_of(
    names: Names, files: Iterable[str], *, zero_dim: bool = True
) -> Uses:
    """How variables and attributes of these names are used in the files.

    ``zero_dim``: what is kept prints like a number in an f-string.
    """
    wanted = names.words
    read = [
        one
        for one in map(_file, files)
        if one and not wanted.isdisjoint(one.words)
    ]
    graph = _Flow(read, names).run()
    reads = [_inexact(one, names, zero_dim) for one in read]
    return Uses(graph, next((why for why in reads if why), ""))


def is_tensor(file: str, function: str, code: str) -> bool:
    """Whether the function gives a name to a backward: so it is one."""
    source = _file(file)
    if source is None:
        return False
    here = function.rpartition(".")[2].strip("<>")
    return any(
        isinstance(node, ast.Call)
        and _name_of(node.func) in _BACKWARDS
        and source.scope(node).rpartition(".")[2] == here
        and any(
            isinstance(part, (ast.Name, ast.Attribute))
            and ast.unparse(part) == code
            for part in ast.walk(node)
        )
        for node in source.nodes
    )


def _name_of(node: ast.AST) -> str:
    """The last name of what is called or read."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _shown(source: _Source, node: ast.AST) -> str:
    number = _line_of(node)
    line = linecache.getline(source.file, number).strip()
    return f"`{line}` (line {number})"


# -- a file -------------------------------------------------------------------


@dataclass
class _Source:
    """A parsed file: who encloses what, and who binds which names."""

    file: str
    words: set[str] = field(default_factory=set)
    nodes: list[ast.AST] = field(default_factory=list)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    binds: dict[str, set[str]] = field(default_factory=dict)
    scopes: dict[ast.AST, str] = field(default_factory=dict)

    def scope(self, node: ast.AST) -> str:
        """The dotted name of the function around a node."""
        return self.scopes[node]

    def variable(self, node: ast.Name) -> Variable:
        """The variable that a name means where it stands."""
        scope = self.scopes[node]
        while scope and node.id not in self.binds.get(scope, ()):
            scope = scope.rpartition(".")[0]
        return (scope or "module", node.id)

    def up(self, node: ast.AST) -> Iterator[ast.AST]:
        """What encloses a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node


@lru_cache(maxsize=256)
def _file(file: str) -> _Source | None:
    source = _Source(file)
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
        _note(source, tree, "module")
    except (SyntaxError, ValueError, RecursionError):
        return None
    return source


def _note(source: _Source, node: ast.AST, scope: str) -> None:
    source.nodes.append(node)
    source.scopes[node] = scope
    source.words.add(_name_of(node))
    for child in ast.iter_child_nodes(node):
        source.parents[child] = node
        inner = scope
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = f"{scope}.{child.name}"
            given = child.args
            source.binds[inner] = {
                arg.arg
                for arg in (
                    *given.posonlyargs,
                    *given.args,
                    *given.kwonlyargs,
                    *(a for a in (given.vararg, given.kwarg) if a),
                )
            }
        _note(source, child, inner)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        source.binds.setdefault(scope, set()).add(node.id)


# -- where a graph is needed --------------------------------------------------


class _Flow:
    """What values of some variables reach, to a fixed point."""

    def __init__(self, files: list[_Source], names: Names) -> None:
        self.files = files
        self.names = names
        self.reached: dict[Variable, list[ast.AST]] = {}
        self.returns: set[str] = set()
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
                    return _shown(source, node)
        return ""

    def _size(self) -> int:
        return len(self.returns) + sum(map(len, self.reached.values()))

    def _is_reached(self, source: _Source, node: ast.Name) -> bool:
        if self.names.has(source, node):
            return True
        return any(
            self._may_follow(source, by, node)
            for by in self.reached.get(source.variable(node), ())
        )

    def _may_follow(self, source: _Source, by: ast.AST, node: ast.AST) -> bool:
        """Whether the node may run after what has bound its variable."""
        if by not in source.scopes or source.scope(by) != source.scope(node):
            return True
        if _line_of(node) >= _line_of(by):
            return True
        loops = {
            outer
            for outer in source.up(by)
            if isinstance(outer, (ast.For, ast.While))
        }
        return any(outer in loops for outer in source.up(node))

    def _holds(self, source: _Source, node: ast.AST | None) -> bool:
        """Whether an expression's value may be, or have, what is kept."""
        if node is None or isinstance(
            node, (ast.Compare, ast.JoinedStr, ast.Constant, ast.Lambda)
        ):
            return False
        if isinstance(node, ast.Name):
            return self._is_reached(source, node)
        if isinstance(node, ast.Attribute):
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

    def _any(self, source: _Source, nodes: Iterable[ast.AST | None]) -> bool:
        return any(self._holds(source, node) for node in nodes)

    def _call_holds(self, source: _Source, call: ast.Call) -> bool:
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

    def _spread(self, source: _Source, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and self._holds(source, node.value):
            for target in node.targets:
                self._reach(source, target)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if self._holds(source, node.value):
                self._reach(source, node.target)
        elif isinstance(node, (ast.For, ast.comprehension)):
            if self._holds(source, node.iter):
                self._reach(source, node.target)
        elif isinstance(node, (ast.Return, ast.Yield)):
            if self._holds(source, node.value):
                self.returns.add(source.scope(node).rpartition(".")[2])
        elif isinstance(node, ast.Call):
            self._pass(source, node)

    def _reach(self, source: _Source, target: ast.AST) -> None:
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

    def _pass(self, source: _Source, call: ast.Call) -> None:
        """Parameters of the user's functions get what is kept."""
        for function in self.functions.get(_name_of(call.func), ()):
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

    def _needs_graph(self, source: _Source, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and node.attr in _OF_GRAPHS:
            return self._holds(source, node.value)
        if not isinstance(node, ast.Call):
            return False
        func = node.func
        if _name_of(func) not in _BACKWARDS:
            return False
        if isinstance(func, ast.Attribute) and self._holds(source, func.value):
            return True
        return self._any(source, node.args)


# -- where a number would not do ----------------------------------------------


def _inexact(source: _Source, names: Names, zero_dim: bool) -> str:
    """The first use of the names for which it matters that a tensor of one
    number is none; "" where there is none."""
    for node in source.nodes:
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        if not names.has(source, node):
            continue
        printed = any(
            isinstance(outer, ast.FormattedValue) for outer in source.up(node)
        )
        if not _is_exact(source, node) or (printed and not zero_dim):
            return _shown(source, node)
    return ""


def _is_exact(source: _Source, node: ast.AST) -> bool:
    """Whether a use gives the same, bit by bit, for numbers."""
    parent = source.parents.get(node)
    if isinstance(parent, ast.Attribute) and isinstance(
        source.parents.get(parent), ast.Call
    ):
        if parent.attr == "setdefault":  # .setdefault(k, []).append(x)
            call = source.parents[source.parents[parent]]
            return isinstance(call, ast.Attribute) and call.attr in ANY
        return parent.attr in ANY or parent.attr == "clear"
    if isinstance(parent, ast.Call):
        return _name_of(parent.func) in ("heappush", "len")
    if isinstance(parent, (ast.BinOp, ast.Starred)):
        return _makes_longer(source, node, parent)
    if isinstance(parent, (ast.If, ast.While, ast.UnaryOp, ast.Delete)):
        return not isinstance(parent, ast.UnaryOp) or isinstance(
            parent.op, ast.Not
        )
    if isinstance(parent, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node and _all_numbers(source, parent)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        if isinstance(parent.ctx, (ast.Store, ast.Del)):
            return True
        return _is_number(source, parent) or _is_exact(source, parent)
    return False


def _makes_longer(
    source: _Source, node: ast.AST, parent: ast.BinOp | ast.Starred
) -> bool:
    """``x = x + [y]`` or ``x = [*x, y]``."""
    value: ast.AST = parent
    if isinstance(parent, ast.Starred):
        value = source.parents[parent]
    elif not isinstance(parent.right, (ast.List, ast.Tuple)):
        return False
    around = source.parents.get(value)
    return isinstance(around, ast.Assign) and any(
        _name_of(target) == _name_of(node) for target in around.targets
    )


def _is_number(source: _Source, node: ast.AST) -> bool:
    """Whether it is turned into a number at once: ``float(x)``."""
    parent = source.parents.get(node)
    if isinstance(parent, ast.FormattedValue):
        return parent.conversion == -1
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id in _NUMBERS
    )


def _all_numbers(source: _Source, loop: ast.For | ast.comprehension) -> bool:
    """Whether each item that a loop takes is turned into a number."""
    if not isinstance(loop.target, ast.Name):
        return False
    around = (
        source.parents[loop] if isinstance(loop, ast.comprehension) else loop
    )
    return all(
        _is_number(source, node)
        for node in ast.walk(around)
        if isinstance(node, ast.Name)
        and node.id == loop.target.id
        and isinstance(node.ctx, ast.Load)
    )
