"""What values reach, by name.

Followed through assignments, loops, patterns, calls of the user's own
functions (callees.py) and their results; a doubt counts as a use.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from ...knowledge.containers import ADDING, ANY
from ...knowledge.objects import PASSING
from .callees import (
    OF_ITEMS,
    OF_OBJECTS,
    Callees,
    defaults_of,
)
from .source_file import (
    FUNCTIONS,
    LOOPS,
    Function,
    Names,
    Source,
    Variable,
    bare,
    given_to,
    line_of,
    made_of,
    name_of,
    parameters_of,
    shown,
)

#: Calls whose result has nothing of a tensor any more.
PLAIN_CALLS = frozenset(
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
PLAIN_METHODS = frozenset(
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
#: Methods that modules, tensors, arrays, containers or texts have as well: who
#: is asked says whose they are.
SHARED = frozenset(
    [
        *(name for kind in (dict, list, set, str) for name in dir(kind)),
        *("abs", "add", "argmax", "clone", "cpu", "cuda", "detach", "dot"),
        *("exp", "flatten", "float", "forward", "item", "log", "max", "mean"),
        *("median", "min", "mm", "mul", "norm", "parameters", "pow", "prod"),
        *("reshape", "square", "squeeze", "state_dict", "std", "step", "sub"),
        *("sum", "take", "to", "tolist", "topk", "var", "view"),
    ]
)
#: What takes a graph, and what asks for one.
BACKWARDS = frozenset({"backward", "grad", "manual_backward"})
#: Passes over the files until nothing new is reached; names are few.
MOST_PASSES = 12


def is_side_by_side(
    node: ast.AST | None,
) -> TypeGuard[ast.Tuple | ast.List]:
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
        self.callees = Callees(files)
        self.raised = False  # with an exception
        self._called: dict[frozenset[str], set[str]] = {}  # by classes
        self._all_reached: set[Function] = set()

    @cached_property
    def classes(self) -> set[str]:
        """Those that the files define."""
        nodes = (node for source in self.files for node in source.nodes)
        return {node.name for node in nodes if isinstance(node, ast.ClassDef)}

    @cached_property
    def owners(self) -> set[str]:
        """By what a file knows what these give: the modules, their classes,
        and what objects of those are called."""
        return self.classes | self.modules | self._objects_of(self.classes)

    def _objects_of(self, classes: Collection[str]) -> set[str]:
        """What objects of these classes are called."""
        return set(map(str.lower, classes)).union(
            *(made_of(source.file, classes) for source in self.files)
        )

    @cached_property
    def modules(self) -> set[str]:
        """What the files are called where they are imported."""
        paths = [Path(source.file) for source in self.files]
        named = [p.parent if p.stem == "__init__" else p for p in paths]
        return {path.stem for path in named}

    @cached_property
    def _imported_as(self) -> dict[tuple[str, str], str]:
        """File and name there -> the name that what was imported had."""
        return {
            (source.file, node.asname): node.name
            for source in self.files
            for node in source.nodes
            if isinstance(node, ast.alias) and node.asname
        }

    def _is_global(self, name: str) -> bool:
        """Whether a module's variable of that name has what is kept."""
        return ("module", name) in self.reached or (
            not self.names.variables.isdisjoint((("module", name), ("", name)))
        )

    def _is_module(self, source: Source, node: ast.Attribute) -> bool:
        """Whether it is read of one of the files, as a module."""
        root = owner = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id not in source.modules:
            return False
        scope, name = source.variable(root)
        if scope != "module" or name in source.binds.get(scope, ()):
            return False
        if isinstance(owner, ast.Attribute):
            return owner.attr in self.modules
        return not self.modules.isdisjoint(source.modules[root.id])

    def _import(self, source: Source, node: ast.ImportFrom) -> None:
        """What one of the files has by one name is had by another here."""
        module = (node.module or "").rpartition(".")[2]
        for one in node.names if module in self.modules else ():
            if one.asname and self._is_global(one.name):
                self._reach_name(source, node, one.asname)

    def spread(self) -> None:
        """Follows what is kept until nothing new is reached."""
        for _ in range(MOST_PASSES):
            before = self._size()
            for source in self.files:
                for node in source.nodes:
                    self._spread(source, node)
            if self._size() == before:
                break

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
            if ("module", node.attr) in self.reached and self._is_module(
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
        name = self._imported_as.get((source.file, name), name)
        return name in self._giving()

    def _giving(self) -> set[str]:
        """What objects are called whose class gives what is kept."""
        classes = frozenset(
            name
            for name in self.classes
            for method in self.callees.methods_of([name], OF_ITEMS)
            if getattr(method, "name", "") in self.returns
        )
        if classes not in self._called:
            self._called[classes] = self._objects_of(classes)
        return self._called[classes]

    def _call_holds(self, source: Source, call: ast.Call) -> bool:
        func, name = call.func, name_of(call.func)
        if isinstance(func, ast.Name):
            name = self._imported_as.get((source.file, name), name)
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
        known = owner == "self" or owner in self.owners
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
            self.raised = self.raised or self._holds(source, node.exc)
        elif isinstance(node, ast.ExceptHandler):
            if self.raised and node.name is not None:
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


def turns(
    target: ast.expr, iterated: ast.expr
) -> list[tuple[ast.expr, ast.expr]]:
    """Each part of a loop's target, with what it goes through."""
    parts = getattr(target, "elts", [])
    sides = _sides_of(iterated, len(parts)) if parts else []
    if not sides:
        return [(target, iterated)]
    return [
        one
        for part, values in zip(parts, sides, strict=True)
        for value in values
        for one in turns(part, value)
    ]


def _sides_of(iterated: ast.expr, count: int) -> list[list[ast.expr]]:
    """Where each of so many values that a turn gives comes from; none: it is
    not known."""
    sides: list[list[ast.expr]] = []
    if isinstance(iterated, (ast.List, ast.Tuple)):
        rows = [getattr(one, "elts", []) for one in iterated.elts]
        if all(len(row) == count for row in rows):
            sides = [list(column) for column in zip(*rows, strict=True)]
    elif isinstance(iterated, ast.Call):
        name = name_of(iterated.func)
        if name == "zip":
            sides = [[one] for one in iterated.args]
        elif name == "enumerate":
            sides = [[], iterated.args[:1]]
        elif name == "items" and isinstance(iterated.func, ast.Attribute):
            values = ast.Attribute(iterated.func.value, "values", ast.Load())
            sides = [[], [ast.Call(values, [], [])]]
        elif name in PASSING and iterated.args:
            return _sides_of(iterated.args[0], count)
    starred = any(isinstance(o, ast.Starred) for side in sides for o in side)
    return sides if len(sides) == count and not starred else []


def is_constant(node: ast.AST) -> bool:
    """Whether it is one, or several side by side."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(is_constant, node.elts))
    return isinstance(node, ast.Constant)
