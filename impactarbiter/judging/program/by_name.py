"""Where a program asks for what it keeps by its name as a text: what becomes
of it is not followed then, and a doubt counts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

from ...knowledge.objects import SHARED
from .callees import defaults_of
from .owners import Owners, owners_of
from .source_file import Source, Variable, name_of, parameters_of, variable_of
from .texts import Texts, text_of

#: What runs a text, and what gives variables by their names.
RUNNING = frozenset({"eval", "exec"})
_NAMESPACES = frozenset({"globals", "locals", "vars"})
#: What takes out of a mapping by a key, and what takes nothing out of it.
_BY_KEY = frozenset({"__getitem__", "get", "pop"})
_GIVING_NONE = frozenset({"__contains__", "clear", "keys", "update"})
#: In a pattern: what is not known of a text.
_UNKNOWN = ".*"


class ByName(Texts):
    """What values reach, and what is asked for by its name."""

    @cached_property
    def _named(self) -> set[str]:
        return {name for _scope, name in self.reached} | self.names.words

    def _leads_to_it(self, source: Source, owner: ast.AST) -> bool:
        """Whether an object may have it in an attribute."""
        return bool(self._attributes) and self._owners.has(source, owner)

    @cached_property
    def _attributes(self) -> set[str]:
        return self.attributes()

    @cached_property
    def _owners(self) -> Owners:
        return owners_of(self)

    def _gets_by_name(self, source: Source, call: ast.Call) -> bool:
        """``getattr(run, "history")``: what becomes of it is not followed."""
        name, names = name_of(call.func), self.names.attributes
        if name == "attrgetter" and call.args:
            pattern = self._pattern(source, call.args[0])
            return _UNKNOWN not in pattern and _fits(pattern, names)
        if name != "getattr" or len(call.args) < 2:
            return False
        given = self._given(source, call.args[1])
        if not names.isdisjoint(given):
            return True
        pattern = self._pattern(source, call.args[1])
        if _UNKNOWN not in pattern and _fits(pattern, names):
            return True
        return _fits(pattern, self._attributes) and self._leads_to_it(
            source, call.args[0]
        )

    def _gives_by_name(self, source: Source, node: ast.AST) -> bool:
        """Whether a namespace gives what has a name of it:
        ``globals()["history"]``, or of a name that is not known, where a
        variable of it may be meant."""
        space = self._namespace(source, node)
        if space is None or self._only_names(source, node):
            return False
        key = _key_of(source, node)
        if key is None:
            return not self._is_shown(source, node, set()) and self._has_it(
                source, node, space
            )
        pattern = self._pattern(source, key)
        return _fits(pattern, self._named) and (
            _UNKNOWN not in pattern or self._has_it(source, node, space)
        )

    def _namespace(self, source: Source, node: ast.AST) -> ast.AST | None:
        """What gives the namespace that an expression is: itself, or what a
        variable is set to."""
        if _is_namespace(node):
            return node
        spaces = self._spaces.get(source.file)
        if not spaces or not isinstance(getattr(node, "ctx", None), ast.Load):
            return None
        variable = variable_of(source, node)
        return spaces.get(variable) if variable else None

    @cached_property
    def _spaces(self) -> dict[str, dict[Variable, ast.AST]]:
        """By file: variables that are set to namespaces there."""
        spaces: dict[str, dict[Variable, ast.AST]] = {}
        for variable, values in self.callees.values.items():
            for value in filter(_is_namespace, values):
                for source in self.files:
                    if value in source.scopes:
                        known = spaces.setdefault(source.file, {})
                        known[variable] = value
        return spaces

    def _only_names(self, source: Source, node: ast.AST) -> bool:
        """Whether nothing is taken out of a namespace where it stands."""
        parent = source.parents.get(node)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return not isinstance(parent.ctx, ast.Load)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _GIVING_NONE
        if isinstance(parent, ast.Assign):
            return all(variable_of(source, one) for one in parent.targets)
        if isinstance(parent, ast.Call):
            name = name_of(parent.func)
            return name in RUNNING or parent.func is node
        return isinstance(parent, (ast.Compare, ast.Expr))

    def _has_it(self, source: Source, node: ast.AST, space: ast.AST) -> bool:
        """Whether a namespace may have it: that of a function or a file, or
        an object's."""
        of = [getattr(space, "value", None), *getattr(space, "args", ())]
        owner = next((one for one in of if one is not None), None)
        if owner is None:
            return self._is_in_sight(source, node)
        return self._leads_to_it(source, owner)

    def _pattern(self, source: Source, node: ast.AST) -> str:
        """What the texts that an expression may be look like."""
        text = text_of(node)
        if text is not None:
            return re.escape(text)
        parts: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            parts = node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Name):
            return "|".join(map(re.escape, _texts_of(source, node))) or (
                _UNKNOWN
            )
        made = [re.escape(text_of(part) or "") or _UNKNOWN for part in parts]
        return "".join(made) or _UNKNOWN

    def _given(self, source: Source, name: ast.expr) -> list[str]:
        """Texts that a parameter is known to be given, or to have by default;
        there may be others.  Of a function whose name others have who calls
        it is not known."""
        around = source.function(name)
        if (
            not isinstance(name, ast.Name)
            or around is None
            or name.id not in parameters_of(around)
        ):
            return []
        named = () if around.name in SHARED else self.files
        calls = [c for s in named for c in s.calls.get(around.name, ())]
        values = [
            *defaults_of(around),
            *(g for c in calls for g in self.callees.parameters(around, c)),
        ]
        texts = (text_of(value) for of, value in values if of == name.id)
        return [text for text in texts if text is not None]

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
        return not self._named.isdisjoint(re.findall(r"\w+", text))

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
            and self._may_run_after(source, one, node)
            for one in source.nodes
        )

    def _may_run_after(
        self, source: Source, by: ast.AST, node: ast.AST
    ) -> bool:
        """Whether a node may run after another one has: in a function, where
        a call of that does."""
        known: set[ast.AST] = set()
        todo, comes_by = [node], False
        while todo:
            one = todo.pop()
            if source.scope(by) == source.scope(one):
                if self._may_follow(source, by, one):
                    return True
                comes_by = True
                continue
            around = source.function(one)
            if around is None or around in self.callees.loose:
                return True
            if around not in known:
                known.add(around)
                calls = source.calls.get(around.name)
                if not calls:
                    return True
                todo += calls
        # Who else calls those that only call one another is not seen.
        return not comes_by


def _is_namespace(node: ast.AST) -> bool:
    """``globals()``, ``vars(run)``, ``run.__dict__``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__dict__" and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Call) and name_of(node.func) in _NAMESPACES


def _key_of(source: Source, mapping: ast.AST) -> ast.expr | None:
    """The key that is taken out of a mapping where it stands; None: it is
    used as a whole."""
    parent = source.parents.get(mapping)
    if isinstance(parent, ast.Subscript):
        return parent.slice
    call = source.parents.get(parent) if parent is not None else None
    if (
        isinstance(parent, ast.Attribute)
        and parent.attr in _BY_KEY
        and isinstance(call, ast.Call)
        and call.func is parent
    ):
        return next(iter(call.args), None)
    return None


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for name in names)


def _texts_of(source: Source, name: ast.Name) -> list[str]:
    """All texts that a variable may be; none: they are not known."""
    around = source.function(name)
    if around is not None and name.id in parameters_of(around):
        return []
    texts: list[str | None] = []
    variable = source.variable(name)
    for node in source.nodes:
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and source.variable(node) == variable
        ):
            texts += _texts_set(node, source.parents[node])
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else []


def _texts_set(target: ast.Name, by: ast.AST) -> list[str | None]:
    """What a statement or a loop sets a variable to; None: no known text."""
    if isinstance(by, ast.Assign):
        return [text_of(by.value)]
    if (
        isinstance(by, (ast.For, ast.comprehension))
        and by.target is target
        and isinstance(by.iter, (ast.Tuple, ast.List, ast.Set))
    ):
        return [text_of(one) for one in by.iter.elts]
    return [None]
