"""Where a program needs the graph of what it keeps, or asks whether there is
one, as its source says: a doubt counts as a use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import pairwise

from ...knowledge.objects import BACKWARDS
from .by_name import RUNNING, ByName
from .sides import is_constant
from .source_file import FUNCTIONS, Source, Variable, given_to, name_of
from .texts import text_of

#: What asks a tensor for its graph, besides those that take one.
_OF_GRAPHS = frozenset(
    [
        "grad",
        "grad_fn",
        "register_hook",
        "requires_grad",
        "requires_grad_",
        "retain_grad",
    ]
)
_ASKING = _OF_GRAPHS | BACKWARDS
#: What makes a function that asks for an attribute, or calls a method.
_ASKERS = frozenset({"attrgetter", "methodcaller"})
#: What fails of a tensor with a graph alone.
_FAILING = frozenset({"__array__", "numpy"})
_ARRAYS = frozenset({"np", "numpy"})
#: Exceptions that such a failure is none of.
_OTHERS = frozenset(
    [
        "FileNotFoundError",
        "ImportError",
        "KeyboardInterrupt",
        "ModuleNotFoundError",
        "OSError",
        "OutOfMemoryError",
        "SystemExit",
    ]
)
#: What writes an object down, and what reads one again.
_WRITING = frozenset({"dump", "dumps", "save"})
_READING = frozenset({"load", "loads"})


class Needs(ByName):
    """What values reach, and whether their graph matters there."""

    #: What takes a graph or asks for one, by any name.
    _asking = BACKWARDS
    #: Whether it may be written to a file, or a text.
    _written = False

    def run(self) -> str:
        """Where a graph is needed; "" where nothing is seen to need one."""
        self.spread()
        self._asking = BACKWARDS.union(*map(_other_names, self.files))
        self._written = any(
            self._any(source, given_to(call))
            for source in self.files
            for name in _WRITING
            for call in source.calls.get(name, ())
        )
        return self._first(self._needs_graph)

    def compared(self) -> str:
        """Where it is asked whether something is the very object that is
        kept, after ``run``; "" nowhere."""
        return self._first(self._is_compared)

    def _is_compared(self, source: Source, node: ast.AST) -> bool:
        if not isinstance(node, ast.Compare):
            return False
        sides = [node.left, *node.comparators]
        same = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        return any(
            isinstance(op, same)
            and not any(map(is_constant, pair))
            and self._any(source, pair)
            for op, pair in zip(node.ops, pairwise(sides), strict=True)
        )

    def _needs_graph(self, source: Source, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return self._asks_attribute(source, node) or self._gives_by_name(
                source, node
            )
        if isinstance(node, ast.Return):
            return self._is_given_to_library(source, node)
        if isinstance(node, ast.MatchClass):
            return not _OF_GRAPHS.isdisjoint(node.kwd_attrs) and any(
                isinstance(one, ast.Match) and self._holds(source, one.subject)
                for one in source.up(node)
            )
        if isinstance(node, ast.Call) and self._asks_by_call(source, node):
            return True
        return self._gives_by_name(source, node) or self._uses_text(
            source, node
        )

    def _asks_attribute(self, source: Source, node: ast.Attribute) -> bool:
        if node.attr in _ASKING:
            return self._holds(source, node.value) or (
                self._written
                and self._is_read_again(source, node.value, set())
            )
        return (
            node.attr in _FAILING
            and self._holds(source, node.value)
            and is_caught(self.files, source, node)
        )

    def _is_read_again(
        self, source: Source, value: ast.AST, known: set[Variable]
    ) -> bool:
        """Whether it is of what was read from where all that is kept may have
        been written to: whether it needs a gradient is written with it.
        ``known``: variables that were looked at."""
        while isinstance(value, (ast.Attribute, ast.Subscript)):
            value = value.value
        if isinstance(value, ast.Call):
            return name_of(value.func) in _READING
        if not isinstance(value, ast.Name):
            return False
        variable = source.variable(value)
        if variable in known:
            return False
        known.add(variable)
        return any(
            self._is_read_again(source, one, known)
            for one in self.callees.values.get(variable, ())
            if one in source.scopes
        )

    def _asks_by_call(self, source: Source, call: ast.Call) -> bool:
        given = given_to(call)
        if any(map(self._is_asker, (call.func, *given))):
            return self._any(source, given)
        name = name_of(call.func)
        if name in ("attrgetter", "getattr"):
            return self._asks_by_name(source, call) or self._gets_by_name(
                source, call
            )
        if name in RUNNING and name_of(getattr(call.func, "value", None)) in (
            "",
            "builtins",
        ):
            return self._runs(source, call)
        if name in ("format", "format_map") and _asks_in_fields(call.func):
            return self._any(source, given)
        return (
            _is_of_arrays(source, call.func)
            and self._any(source, given)
            and is_caught(self.files, source, call)
        )

    def _is_asker(self, node: ast.AST) -> bool:
        return name_of(node) in self._asking or _asks_when_called(node)

    def _asks_by_name(self, source: Source, call: ast.Call) -> bool:
        """``getattr(loss, "backward")``, or by a name that is not known."""
        return (
            name_of(call.func) == "getattr"
            and len(call.args) > 1
            and self._holds(source, call.args[0])
            and _is_asked_for(call.args[1])
        )


def is_caught(files: Iterable[Source], source: Source, node: ast.AST) -> bool:
    """Whether the program goes on, as far as the source shows it, where a
    node fails: there, or where the function around it is called."""
    known: set[str] = set()
    todo = [(source, node)]
    while todo:
        home, one = todo.pop()
        if _is_caught_within(home, one):
            return True
        around = home.function(one)
        if around is not None and around.name not in known:
            known.add(around.name)
            todo += [
                (file, call)
                for file in files
                for call in file.calls.get(around.name, ())
            ]
    return False


def _is_caught_within(source: Source, node: ast.AST) -> bool:
    """The same, within its function."""
    inner = node
    for outer in source.up(node):
        if isinstance(outer, FUNCTIONS):
            return False
        if isinstance(outer, (ast.Try, ast.TryStar)) and inner in outer.body:
            if any(map(_catches, outer.handlers)):
                return True
        elif isinstance(outer, (ast.With, ast.AsyncWith)) and any(
            name_of(getattr(one.context_expr, "func", None))
            in ("raises", "suppress")
            for one in outer.items
        ):
            return True
        inner = outer
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    types = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(name_of(one) not in _OTHERS for one in types)


def _is_of_arrays(source: Source, func: ast.expr) -> bool:
    """Whether a function is one of NumPy's: ``np.array``, or ``asarray`` that
    was imported from there."""
    names = [name_of(func)] if isinstance(func, ast.Name) else []
    while isinstance(func, ast.Attribute):
        func = func.value
        names.append(name_of(func))
    of = [o for o in source.imports if o.of.partition(".")[0] == "numpy"]
    return not _ARRAYS.union(one.here for one in of).isdisjoint(names)


def _asks_in_fields(func: ast.expr) -> bool:
    """``"{0.grad_fn}".format``."""
    template = text_of(getattr(func, "value", None)) or ""
    fields = re.findall(r"\{([^{}!:]*)", template)
    asked = {name for one in fields for name in re.findall(r"\.(\w+)", one)}
    return not asked.isdisjoint(_ASKING)


def _is_asked_for(name: ast.expr) -> bool:
    text = text_of(name)
    return text is None or text in _ASKING


def _asks_when_called(node: ast.AST) -> bool:
    """``methodcaller("backward")``."""
    return (
        isinstance(node, ast.Call)
        and name_of(node.func) in _ASKERS
        and any(map(_is_asked_for, node.args[:1]))
    )


def _other_names(source: Source) -> set[str]:
    """What a file calls those that take a graph, or ask for one."""
    names = {one.here for one in source.imports if one.name in BACKWARDS}
    for node in source.nodes:
        if isinstance(node, ast.Assign) and (
            name_of(node.value) in BACKWARDS or _asks_when_called(node.value)
        ):
            names.update(map(name_of, node.targets))
    return names - {""}
