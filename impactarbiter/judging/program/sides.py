"""Values side by side: of a tuple, and those that the turns of a loop give."""

from __future__ import annotations

import ast
from typing import TypeGuard

from ...knowledge.objects import PASSING
from .source_file import name_of


def is_side_by_side(
    node: ast.AST | None,
) -> TypeGuard[ast.Tuple | ast.List]:
    """Whether it is several values side by side, each in its place."""
    return isinstance(node, (ast.Tuple, ast.List)) and not any(
        isinstance(one, ast.Starred) for one in node.elts
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
