"""Texts of what is kept, where more is done with them than to show them.

The text of a tensor says whether it has a graph: ``grad_fn=<...>``.  That
matters to nobody where it is only printed, logged or written; where anything
else becomes of the text, a doubt counts.  A number's format does not say it.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Iterable

from ...knowledge.texts import (
    MAKING_TEXT,
    OF_TEXT,
    OF_TYPES,
    PERCENT,
    SHOWING,
    TEXT_OF_ITS_OWN,
)
from .flow import Flow
from .source_file import (
    Function,
    Names,
    Source,
    Variable,
    given_to,
    name_of,
)

#: What a text is part of, and goes on with.
_AROUND = (
    ast.Await,
    ast.BinOp,
    ast.BoolOp,
    ast.Dict,
    ast.FormattedValue,
    ast.GeneratorExp,
    ast.IfExp,
    ast.JoinedStr,
    ast.List,
    ast.ListComp,
    ast.Starred,
    ast.Tuple,
    ast.keyword,
)


class Texts(Flow):
    """What values reach, and what is made of their texts.

    ``zero_dim``: they have no dimension, and are formatted as numbers;
    ``single``: the names are theirs, not those of a container.
    """

    def __init__(
        self,
        files: list[Source],
        names: Names,
        *,
        zero_dim: bool = False,
        single: bool = False,
    ) -> None:
        super().__init__(files, names)
        self.zero_dim = zero_dim
        self.single = single

    def _uses_text(self, source: Source, node: ast.AST) -> bool:
        """Whether it makes a text that says of a graph, for more than to be
        shown."""
        return self._makes_text(source, node) and not self._is_shown(
            source, node, set()
        )

    # -- what makes one -------------------------------------------------------

    def _makes_text(self, source: Source, node: ast.AST) -> bool:
        if isinstance(node, ast.FormattedValue):
            if node.conversion != -1:
                return self._holds(source, node.value)
            return node.format_spec is None and self._is_no_number(
                source, node.value
            )
        if isinstance(node, ast.BinOp):
            return _puts_text_in(node) and self._holds(source, node.right)
        return isinstance(node, ast.Call) and self._call_makes_text(
            source, node
        )

    def _call_makes_text(self, source: Source, call: ast.Call) -> bool:
        name, given = name_of(call.func), given_to(call)
        if self.callees.by_name(call) is not None or name in OF_TYPES:
            return False
        if name in TEXT_OF_ITS_OWN and isinstance(call.func, ast.Attribute):
            return self._holds(source, call.func.value)
        if name == "format":
            return self._formats(source, call)
        handed = {name, *map(name_of, given)}
        return not handed.isdisjoint(MAKING_TEXT) and self._any(source, given)

    def _formats(self, source: Source, call: ast.Call) -> bool:
        given = given_to(call)
        if not isinstance(call.func, ast.Attribute):
            return len(given) == 1 and self._is_no_number(source, given[0])
        template = text_of(call.func.value)
        fields = _fields(template) if template is not None else [("", None)]
        if any(kind for _spec, kind in fields):
            return self._any(source, given)
        return any(not spec for spec, _kind in fields) and any(
            self._is_no_number(source, one) for one in given
        )

    def _is_no_number(self, source: Source, value: ast.expr) -> bool:
        """Whether ``format()`` may make of it what ``str()`` does."""
        if not self._holds(source, value):
            return False
        if self.names.has(source, value):
            return not (self.single and self.zero_dim)
        item = isinstance(value, ast.Subscript) and not isinstance(
            value.slice, ast.Slice
        )
        return not (item and self.zero_dim)

    # -- what becomes of it ---------------------------------------------------

    def _is_shown(
        self, source: Source, node: ast.AST, known: set[Variable]
    ) -> bool:
        """Whether nothing but showing it is done with a text."""
        parent = source.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in OF_TEXT:
            node, parent = parent, source.parents.get(parent)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return False
            return self._is_shown(source, parent, known)
        if isinstance(parent, (ast.Expr, ast.Raise, ast.Assert)):
            return True
        if isinstance(parent, _AROUND):
            if node in getattr(parent, "keys", ()):
                return False
            return self._is_shown(source, parent, known)
        if isinstance(parent, ast.Call):
            return self._is_shown_by(source, parent, node, known)
        if isinstance(parent, (ast.Assign, ast.AugAssign)):
            return all(
                isinstance(one, ast.Name)
                and self._all_shown(source, source.variable(one), known)
                for one in _targets(parent)
            )
        return isinstance(parent, ast.Return) and self._given_is_shown(
            source, parent, known
        )

    def _given_is_shown(
        self, source: Source, node: ast.Return, known: set[Variable]
    ) -> bool:
        """What a function gives back, where that is called by its name
        alone."""
        name = source.scope(node).rpartition(".")[2]
        functions = self.callees.named.get(name, ())
        if ("", name) in known:
            return True
        if name in TEXT_OF_ITS_OWN or any(
            one in self.callees.loose for one in functions
        ):
            return False
        known.add(("", name))
        return bool(functions) and all(
            self._is_shown(home, call, known)
            for home in self.files
            for call in home.calls.get(name, ())
        )

    def _is_shown_by(
        self,
        source: Source,
        call: ast.Call,
        node: ast.AST,
        known: set[Variable],
    ) -> bool:
        name = name_of(call.func)
        functions = self.callees.by_name(call)
        if functions:
            return all(
                self._parameter_shown(function, call, node, known)
                for function in functions
            )
        if name in SHOWING or isinstance(source.parents.get(call), ast.Raise):
            return True
        return name in OF_TEXT | MAKING_TEXT and self._is_shown(
            source, call, known
        )

    def _parameter_shown(
        self,
        function: Function,
        call: ast.Call,
        node: ast.AST,
        known: set[Variable],
    ) -> bool:
        home = self._home(function)
        parts: Iterable[tuple[str, ast.expr]] = self.callees.parameters(
            function, call
        )
        return all(
            self._all_shown(home, home.named(function, name), known)
            for name, value in parts
            if value in (node, getattr(node, "value", None))
        )

    def _all_shown(
        self, source: Source, variable: Variable, known: set[Variable]
    ) -> bool:
        if variable in known:
            return True
        known.add(variable)
        return all(
            self._is_shown(source, node, known)
            for node in source.nodes
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and source.variable(node) == variable
        )


def text_of(node: ast.AST | None) -> str | None:
    """The text that an expression is made up of, where all of it stands
    there: ``"his" + "tory"``."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.JoinedStr):
        parts = [
            part.value
            if isinstance(part, ast.FormattedValue) and not part.format_spec
            else part
            for part in node.values
        ]
    texts = [text_of(part) for part in parts]
    known = [text for text in texts if text is not None]
    return "".join(known) if parts and len(known) == len(texts) else None


def _targets(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _puts_text_in(node: ast.BinOp) -> bool:
    """Whether it is ``"%s" % x``."""
    if not isinstance(node.op, ast.Mod):
        return False
    text = text_of(node.left)
    if text is None:
        return isinstance(node.left, ast.JoinedStr)
    return bool(PERCENT.search(text))


def _fields(template: str) -> list[tuple[str, str | None]]:
    """(specification, conversion) of each place in a template."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        return []
    return [
        (spec or "", kind) for _, name, spec, kind in parts if name is not None
    ]
