"""Where the memory of what a statement keeps may be written once it is kept.

A number shows no memory: it may not be kept in the place of a tensor that is
written later, by whatever name.  A doubt counts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ...knowledge.containers import ANY
from ...knowledge.objects import BACKWARDS, PASSING, PLAIN_CALLS, VIEWS
from .objects import Objects, is_of_module
from .origins import Value, bindings, is_in_place, span
from .source_file import (
    LOOPS,
    Names,
    Source,
    bare,
    code_of,
    given_to,
    name_of,
    read_further,
    source_of,
)
from .unparsed import defines, mentions

#: Calls that read what they are given.
_READING = (
    frozenset({"format", "isfinite", "isinf", "isnan", "scale"})
    | PLAIN_CALLS
    | PASSING
    | ANY
    | BACKWARDS
)


def asked_of(
    values: Sequence[Value],
    names: Names,
    files: Sequence[str],
    plain: frozenset[str] = frozenset(),
    *,
    single: bool = False,
) -> tuple[str, str]:
    """Where the object itself is asked for that a statement keeps in what
    goes by these names, and where its memory may be written once it is kept;
    "" nowhere.

    ``plain``: indices and keys of an item's parts that are no tensors;
    ``single``: the holder is the tensor itself.
    """
    here = {value.file for value in values}
    read = {
        file: one
        for file in dict.fromkeys([*here, *files])
        if (file in here or mentions(file, names.words))
        and (one := source_of(file))
    }

    def once(
        sources: list[Source],
    ) -> tuple[Writes, Callable[[str], bool]]:
        objects = Writes(sources, names, plain, single=single)
        for value in values:
            objects.follow(value)
        objects.spread()
        return (
            objects,
            lambda file: (
                defines(file, objects.elsewhere)
                or mentions(file, objects.callers())
            ),
        )

    objects, unread = read_further(read, files, once)
    asked = objects.asked() or (unread and f"what is done {unread}")
    return asked, objects.written()


class Writes(Objects):
    """What changes the objects that some values are."""

    def written(self) -> str:
        """Where what is kept may be changed in place once it is; ""
        nowhere."""
        return self._first(self._is_written)

    def _is_written(self, source: Source, node: ast.AST) -> bool:
        what = self._changed_by(source, node)
        return what is not None and self._is_later(source, node, what)

    def _changed_by(self, source: Source, node: ast.AST) -> ast.AST | None:
        """The expression of it that a node changes, or may."""
        changed: list[ast.AST] = []
        if isinstance(node, ast.AugAssign):
            changed = [bare(node.target)]
        elif isinstance(node, ast.Subscript):
            if isinstance(node.ctx, ast.Store):
                changed = [node.value]
        elif isinstance(node, ast.Attribute):
            if is_in_place(node.attr):
                changed = [node.value]
        elif isinstance(node, ast.Call):
            changed = self._changed_by_call(source, node)
        elif (
            isinstance(node, ast.Return)
            and node.value
            and self._is_given_to_library(source, node)
        ):
            changed = [node.value]
        return next((o for o in changed if self._is_item(source, o)), None)

    def _changed_by_call(
        self, source: Source, call: ast.Call
    ) -> list[ast.AST]:
        name = name_of(call.func)
        given: list[ast.AST] = []
        for one in given_to(call):
            parts = isinstance(one, (ast.List, ast.Tuple))
            given += one.elts if parts else [one]  # type: ignore[attr-defined]
        if self.callees.by_name(call) is not None:
            return []  # their own source says
        if is_in_place(name) or _is_told_to_change(call):
            return given
        if is_of_module(call.func):
            return [k.value for k in call.keywords if k.arg == "out"]
        return [] if name in _READING else list(given_to(call))

    def _is_later(self, source: Source, node: ast.AST, what: ast.AST) -> bool:
        """Whether it may come after what is kept was."""
        where = source.file, source.scope(node)
        root = _root(what)
        if where in self._leaves:
            here = span(node)[0]
            if any(here >= place for place in self._leaves[where]):
                return True
        elif (
            where not in self._makers
            or not isinstance(root, ast.Name)
            or source.variable(root)[0] != where[1]
        ):
            return True
        return not _is_anew(source, node, code_of(root))


def _root(node: ast.AST) -> ast.AST:
    """``a.b`` of ``a.b.view(-1)[0]``."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Attribute) and node.attr in VIEWS
        ):
            node = node.value
        else:
            return node


def _is_told_to_change(call: ast.Call) -> bool:
    """Whether it may be to change what it is given first."""
    return any(
        keyword.arg == "inplace"
        and getattr(keyword.value, "value", True) is not False
        for keyword in call.keywords
    )


def _is_anew(source: Source, node: ast.AST, code: str) -> bool:
    """Whether a loop around what changes it gives the name another value in
    each turn, or there is no loop: it was changed before it was kept."""
    loops = [one for one in source.up(node) if isinstance(one, LOOPS)]
    return not loops or any(
        code == code_of(part)
        for one in ast.walk(loops[0])
        if not isinstance(one, ast.comprehension)
        for target, _value in bindings(one)
        for part in ast.walk(target)
        if isinstance(getattr(part, "ctx", None), ast.Store)
    )
