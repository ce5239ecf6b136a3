"""What an assignment sets, and what stands around a statement, and before."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .source_file import FUNCTIONS, LOOPS, Source, name_of


def is_in_init(source: Source, node: ast.AST) -> bool:
    return source.scope(node).endswith(".__init__")


def pairs(node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets of an assignment with what each of them is set to."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _paired(target, node.value)


def _paired(
    target: ast.expr, value: ast.expr
) -> Iterable[tuple[ast.expr, ast.expr]]:
    several = getattr(target, "elts", None)
    values = getattr(value, "elts", ())
    if several is None:
        return [(target, value)]
    if len(several) != len(values):
        values = [value] * len(several)
    return zip(several, values, strict=True)


def stores(source: Source, name: ast.Name) -> list[ast.Name]:
    """Wherever the variable that a name means is set."""
    variable = source.variable(name)
    return [
        node
        for node in source.nodes
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and source.variable(node) == variable
    ]


def is_first(source: Source, node: ast.stmt, name: str) -> bool:
    """``if not hasattr(self, "rows"):`` or ``if self.rows is None:`` around
    it."""
    inner: ast.AST = node
    for outer in source.up(node):
        if (
            isinstance(outer, ast.If)
            and inner in outer.body
            and _asks_for_none(outer.test)
            and any(
                name in (name_of(part), getattr(part, "value", None))
                for part in ast.walk(outer.test)
            )
        ):
            return True
        inner = outer
    return False


def _asks_for_none(test: ast.expr) -> bool:
    """``not x``, ``x is None``, or ``key not in x``."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and any(
        isinstance(one, (ast.Is, ast.NotIn)) for one in test.ops
    )


def class_around(source: Source, node: ast.AST) -> ast.AST | None:
    return next(
        (one for one in source.up(node) if isinstance(one, ast.ClassDef)), None
    )


def loops_around(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """The loops around a node, in its function."""
    for outer in source.up(node):
        if isinstance(outer, FUNCTIONS):
            return
        if isinstance(outer, LOOPS):
            yield outer


def over_before(source: Source, node: ast.stmt) -> Iterator[ast.stmt]:
    """Statements of its function that are over when it begins: no other
    branch of what it stands in."""
    inner: ast.AST = node
    for outer in source.up(node):
        for block in ("body", "orelse", "finalbody"):
            beside = getattr(outer, block, [])
            if isinstance(beside, list) and inner in beside:
                yield from beside[: beside.index(inner)]
        if isinstance(outer, FUNCTIONS):
            return
        inner = outer


_PARTS = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Constant)


def are_apart(source: Source, node: ast.AST, other: ast.AST) -> bool:
    """Whether both stand in branches of one test that comes out the same all
    through a run: ``if KEEP: rows.append(row)``, ``else: rows = [row]``."""
    branches = dict(_branches(source, other))
    return any(
        branches.get(test, branch) != branch and _is_settled(source, test)
        for test, branch in _branches(source, node)
    )


def _branches(
    source: Source, node: ast.AST
) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that it is under, and whether where they do not hold."""
    inner = node
    for outer in source.up(node):
        if isinstance(outer, ast.If) and inner is not outer.test:
            yield outer.test, inner in outer.orelse
        inner = outer


def _is_settled(source: Source, test: ast.expr) -> bool:
    """Of constants, what the command line gave, and variables of the module's
    that are set once."""
    if isinstance(test, ast.Name):
        return _is_set_once(source, test)
    if isinstance(test, ast.Attribute):
        return source.is_option(test)
    return isinstance(test, _PARTS) and all(
        _is_settled(source, part)
        for part in ast.iter_child_nodes(test)
        if isinstance(part, ast.expr)
    )


def _is_set_once(source: Source, name: ast.Name) -> bool:
    where = stores(source, name)
    return (
        source.variable(name)[0] == "module"
        and len(where) == 1
        and not any(loops_around(source, where[0]))
        and source.scope(where[0]) == "module"
    )
