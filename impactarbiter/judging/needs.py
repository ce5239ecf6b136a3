"""Where a program needs the graph of what it keeps, or asks whether there is
one, as its source says: a doubt counts as a use."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from .flow import BACKWARDS, is_constant
from .source_file import (
    FUNCTIONS,
    Source,
    given_to,
    name_of,
    variable_of,
)
from .texts import Texts, text_of

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
#: What runs a text, and what gives variables by their names.
_RUNNING = frozenset({"eval", "exec"})
_NAMESPACES = frozenset({"globals", "locals", "vars"})
#: What writes an object down, and what reads one again.
_WRITING = frozenset({"dump", "dumps", "save"})
_READING = frozenset({"load", "loads"})


class Needs(Texts):
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
            isinstance(node, ast.Call)
            and name_of(node.func) in _WRITING
            and self._any(source, given_to(node))
            for source in self.files
            for node in source.nodes
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
            return self._asks_attribute(source, node)
        if isinstance(node, ast.Return):
            return self._is_given_to_library(source, node)
        if isinstance(node, ast.MatchClass):
            return not _OF_GRAPHS.isdisjoint(node.kwd_attrs) and any(
                isinstance(one, ast.Match) and self._holds(source, one.subject)
                for one in source.up(node)
            )
        if isinstance(node, ast.Subscript) and self._is_any_name(source, node):
            return True
        if isinstance(node, ast.Call) and self._asks_by_call(source, node):
            return True
        text = text_of(node)
        if text is not None and self._is_named_by_text(source, node, text):
            return True
        return self._uses_text(source, node)

    def _asks_attribute(self, source: Source, node: ast.Attribute) -> bool:
        if node.attr in _ASKING:
            return self._holds(source, node.value) or (
                self._written and self._is_read_again(source, node.value, [])
            )
        return (
            node.attr in _FAILING
            and is_caught(source, node)
            and self._holds(source, node.value)
        )

    def _is_read_again(
        self, source: Source, value: ast.AST, known: list[ast.AST]
    ) -> bool:
        """Whether it is of what was read from where all that is kept may have
        been written to: whether it needs a gradient is written with it."""
        while isinstance(value, (ast.Attribute, ast.Subscript)):
            value = value.value
        if isinstance(value, ast.Call):
            return name_of(value.func) in _READING
        if not isinstance(value, ast.Name) or value in known:
            return False
        values = self.callees.values.get(source.variable(value), ())
        return any(
            self._is_read_again(source, one, [*known, value])
            for one in values
            if one in source.scopes
        )

    def _asks_by_call(self, source: Source, call: ast.Call) -> bool:
        given = given_to(call)
        if any(map(self._is_asker, (call.func, *given))):
            return self._any(source, given)
        name = name_of(call.func)
        if name == "getattr":
            return self._asks_by_name(source, call)
        if name in _RUNNING and isinstance(call.func, ast.Name):
            return self._runs(source, call)
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and name_of(func.value) in _ARRAYS
            and is_caught(source, call)
            and self._any(source, given)
        )

    def _is_asker(self, node: ast.AST) -> bool:
        return name_of(node) in self._asking or _asks_when_called(node)

    def _asks_by_name(self, source: Source, call: ast.Call) -> bool:
        """``getattr(loss, "backward")``, or by a name that is not known."""
        if len(call.args) < 2 or not self._holds(source, call.args[0]):
            return False
        return _is_asked_for(call.args[1])

    # -- by their names -------------------------------------------------------

    def _is_named_by_text(
        self, source: Source, node: ast.AST, text: str
    ) -> bool:
        """``globals()["history"]``, ``getattr(run, "history")``: what becomes
        of it is not followed."""
        if text not in self.names.words:
            return False
        around = source.parents.get(node)
        if isinstance(around, ast.Call):
            called = name_of(around.func) in ("attrgetter", "getattr")
            return called and text in self.names.attributes
        owner = getattr(around, "value", None)
        name = name_of(getattr(owner, "func", owner))
        return name in _NAMESPACES | {"__dict__"}

    def _is_any_name(self, source: Source, node: ast.Subscript) -> bool:
        """``globals()[name]``, where a variable of it may be meant."""
        owner = node.value
        return (
            isinstance(owner, ast.Call)
            and isinstance(node.ctx, ast.Load)
            and not owner.args
            and name_of(owner.func) in _NAMESPACES
            and text_of(node.slice) is None
            and self._is_in_sight(source, node)
        )

    def _runs(self, source: Source, call: ast.Call) -> bool:
        """Whether a text that is run may name it."""
        if not call.args or self.callees.by_name(call) is not None:
            return False
        run = call.args[0]
        if isinstance(run, ast.Call) and name_of(run.func) == "compile":
            run = next(iter(run.args), run)
        text = text_of(run)
        if text is None:
            return not self._has_own_names(source, call) and self._is_in_sight(
                source, call
            )
        named = {name for _scope, name in self.reached} | self.names.words
        return not named.isdisjoint(re.findall(r"\w+", text))

    def _has_own_names(self, source: Source, call: ast.Call) -> bool:
        """Whether it runs with names of a dict that has nothing of it."""
        if len(call.args) < 2:
            return False
        given = call.args[1]
        variable = variable_of(source, given)
        values = self.callees.values.get(variable, []) if variable else [given]
        made_here = [isinstance(one, ast.Dict) for one in values]
        return (
            any(made_here)
            and all(made_here)
            and not self._holds(source, given)
        )

    def _is_in_sight(self, source: Source, node: ast.AST) -> bool:
        """Whether a variable that has it is known where a node stands, and
        may be bound by then."""
        here = source.scope(node)
        return any(
            isinstance(one, ast.Name)
            and isinstance(one.ctx, ast.Store)
            and source.variable(one)[0] in (here, "module")
            and self._is_reached(source, one)
            and self._may_run_after(source, one, node, [])
            for one in source.nodes
        )

    def _may_run_after(
        self,
        source: Source,
        by: ast.AST,
        node: ast.AST,
        known: list[ast.AST],
    ) -> bool:
        """Whether a node may run after another one has: in a function, where
        a call of that does."""
        if source.scope(by) == source.scope(node):
            return self._may_follow(source, by, node)
        around = next(
            (o for o in source.up(node) if isinstance(o, FUNCTIONS)), None
        )
        if around is None or around in known or around in self.callees.loose:
            return True
        calls = [
            one
            for one in source.nodes
            if isinstance(one, ast.Call) and name_of(one.func) == around.name
        ]
        return not calls or any(
            self._may_run_after(source, by, one, [*known, around])
            for one in calls
        )


def is_caught(source: Source, node: ast.AST) -> bool:
    """Whether the program goes on, as far as the source shows it, where a
    node fails."""
    inner = node
    for outer in source.up(node):
        if isinstance(outer, FUNCTIONS):
            return False
        if isinstance(outer, ast.Try) and inner in outer.body:
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
    return name_of(handler.type) not in ("KeyboardInterrupt", "SystemExit")


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
    names: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.alias) and node.name in BACKWARDS:
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Assign) and (
            name_of(node.value) in BACKWARDS or _asks_when_called(node.value)
        ):
            names.update(map(name_of, node.targets))
    return names - {""}
