"""How the source itself may end what a statement grows.

``if len(self.items) < self.capacity: self.items.append(item)``: how long it
gets is the program's own decision.  By what number, the source does not say:
it may be more than memory holds.  Nor does it say whether the line that
empties a container is ever reached, or how many keys there are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from ...base.records import dataclass
from ...core.sources import site_at
from ...knowledge.containers import ANY
from ...model.finding import Site
from .endings import ending, replacing, taken_from
from .source_file import (
    FUNCTIONS,
    Names,
    Source,
    bare,
    code_of,
    line_of,
    name_of,
    parsed,
)
from .syntax import are_apart, loops_around, pairs, stores
from .unparsed import mentions

#: What leads past the rest of a block.
_LEAVING = (ast.Return, ast.Continue, ast.Break, ast.Raise)
#: Operators by which a length on their left is short, and long, and what
#: says so of one on their right.
_SHORT, _LONG = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE, ast.Eq)
_LONGER, _SHORTER = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE, ast.Eq)


@dataclass(frozen=True)
class End:
    """By a test of its length, by another statement that empties it, or for
    want of new keys; where that stands, None where its type does it."""

    kind: Literal["length", "emptied", "keys"]
    site: Site | None


@lru_cache(maxsize=256)
def ends(
    file: str,
    line: int,
    attribute: str | None = None,
    owners: tuple[str, ...] = (),
    dictionary: str | None = None,
) -> End | None:
    """How the source may end the growth of what the statement there adds to,
    which is an attribute of that name elsewhere, in an object that attributes
    named ``owners`` lead to, or the ``dictionary`` of that name; None where it
    says nothing of that."""
    source = parsed(file)
    if source is None:
        return None
    grown = _grown_at(source, line)
    limited = _limit(source, grown)
    if limited is None and dictionary is None:
        limited = _limit(source, _put_there(grown))
    if limited is not None:
        return limited
    names = [(node, code_of(target)) for node, target in grown]
    there = grown[0][0] if grown else _innermost(source, line)
    if attribute is not None and there is not None:
        # Named so here, or where the line's call leads to.
        named = ast.Attribute(ast.Name("_", ast.Load()), attribute, ast.Load())
        grown.append((there, named))
    for node, target in grown:
        emptying = ending(source, node, target)
        if emptying is not None:
            return End("emptied", _site(source, emptying))
    for owner in owners if grown else ():
        replaced = replacing(source, owner)
        if replaced is not None:
            return End("emptied", _site(source, replaced))
    for node, name in names:
        asking = _asking(source, node, name) or _missing(source, node, name)
        if asking is not None:
            return End("keys", _site(source, asking))
    filling = _filling_in(source, line, dictionary) if dictionary else None
    return End("keys", _site(source, filling)) if filling else None


@lru_cache(maxsize=256)
def limit(file: str, line: int) -> End | None:
    """A test of its own length that decides on whether the statement there
    runs, or drops some of what it adds to."""
    source = parsed(file)
    if source is None:
        return None
    return _limit(source, _grown_at(source, line))


def is_set_elsewhere(file: str, line: int) -> bool:
    """Whether the loop in which a line makes a variable grow sets that anew in
    branches alone that are never taken beside it, in a function that no loop
    of the file calls."""
    source = parsed(file)
    return source is not None and any(
        isinstance(it, ast.Name) and _is_set_apart(source, grows, it)
        for grows, it in _grown_at(source, line)
    )


def _is_set_apart(source: Source, grows: ast.stmt, it: ast.Name) -> bool:
    variable, function = source.variable(it), source.function(grows)
    sets = [
        node
        for node in source.nodes
        if isinstance(node, ast.stmt) and any(loops_around(source, node))
        for target, _value in pairs(node)
        if isinstance(target, ast.Name) and source.variable(target) == variable
    ]
    calls = source.calls.get(function.name, ()) if function else ()
    return (
        bool(sets)
        and all(are_apart(source, node, grows) for node in sets)
        and not any(any(loops_around(source, call)) for call in calls)
    )


def names_grown(file: str, line: int) -> Names:
    """What the statement there calls what it adds to."""
    source, names = parsed(file), Names()
    if source is None:
        return names
    for node, target in _grown_at(source, line):
        called = bare(target)
        name = name_of(called)
        if isinstance(called, ast.Attribute):
            names |= Names(attributes=frozenset({name}))
        else:
            scope = source.scope(node).rpartition(".")[2] or "module"
            names |= Names(variables=frozenset({(scope, name)}))
    return names


def _grown_at(source: Source, line: int) -> list[tuple[ast.stmt, ast.expr]]:
    """The statements of a line, and what each of them adds to."""
    return [
        (node, target)
        for node in source.nodes
        if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign))
        if _stands_at(node, line)
        for target in _grown(node)
    ]


def _limit(
    source: Source, grown: list[tuple[ast.stmt, ast.expr]]
) -> End | None:
    for node, target in grown:
        if _is_kept_short(source, node, code_of(target)):
            return End("length", _site(source, grown[0][0]))
    return None


def _put_there(
    grown: list[tuple[ast.stmt, ast.expr]],
) -> list[tuple[ast.stmt, ast.expr]]:
    """``self.rows[name] = column``: what is there then is what that is."""
    return [
        (node, node.value)
        for node, _target in grown
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
    ]


@lru_cache(maxsize=256)
def taken_out(file: str, line: int, registries: tuple[str, ...]) -> End | None:
    """Where else the source takes something out of the containers that
    attributes of those names have, as ``del self.sessions[name]`` does: what
    grows at the line there, in one of their items, may go with it."""
    source = parsed(file)
    there = None if source is None else _innermost(source, line)
    if source is None or there is None:
        return None
    return _taken_from(source, there, registries)


@lru_cache(maxsize=256)
def taken_out_elsewhere(
    files: tuple[str, ...], registries: tuple[str, ...]
) -> End | None:
    """The same in other files, which mention one of those names."""
    for file in files:
        source = parsed(file) if mentions(file, registries) else None
        if source is None:
            continue
        end = _taken_from(source, ast.Pass(), registries)
        if end is not None:
            return end
    return None


def _taken_from(
    source: Source, there: ast.stmt, registries: tuple[str, ...]
) -> End | None:
    for name in registries:
        registry = ast.Attribute(ast.Name("_", ast.Load()), name, ast.Load())
        emptying = ending(source, there, registry)
        if emptying is not None:
            return End("emptied", _site(source, emptying))
    return None


def _innermost(source: Source, line: int) -> ast.stmt | None:
    """The statement of a line."""
    around = (
        node
        for node in source.nodes
        if isinstance(node, ast.stmt) and _stands_at(node, line)
    )
    return max(around, key=line_of, default=None)


def _stands_at(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _site(source: Source, node: ast.stmt | ast.expr) -> Site:
    function = source.scope(node).removeprefix("module").lstrip(".")
    return site_at(source.file, node.lineno, function or "<module>")


def _grown(statement: ast.stmt) -> Iterator[ast.expr]:
    """What the statement adds to."""
    if isinstance(statement, ast.AugAssign):
        yield statement.target
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                yield target.value
            elif _is_made_of(statement.value, target):
                yield target
    yield from _added_to(statement)


def _added_to(statement: ast.stmt) -> Iterator[ast.expr]:
    """By calls."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in ANY:
            yield node.func.value
        if name_of(node.func) == "heappush" and node.args:
            yield node.args[0]


def _is_made_of(value: ast.expr, target: ast.expr) -> bool:
    """``x = cat([x, y])``."""
    name = code_of(target)
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and code_of(part) == name
        for part in ast.walk(value)
    )


def _is_kept_short(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether a test stands around the statement, or beside it or what it
    stands in, so that it is made whenever the statement runs."""
    inner: ast.AST = statement
    for outer in source.up(statement):
        if isinstance(outer, ast.If) and _is_short_in(
            source, outer, inner, name
        ):
            return True
        for block in ("body", "orelse", "finalbody"):
            beside = getattr(outer, block, [])
            if isinstance(beside, list) and inner in beside:
                at = beside.index(inner)
                if any(
                    _leads_past(source, one, name) for one in beside[:at]
                ) or any(_shortens(source, one, name) for one in beside):
                    return True
        if isinstance(outer, FUNCTIONS):
            return False
        inner = outer
    return False


def _is_short_in(
    source: Source, test: ast.If, inner: ast.AST, name: str
) -> bool:
    """``if len(x) < n:`` and ``if len(x) >= n: ... else:`` around it."""
    if inner in test.body:
        return _holds_where(source, test.test, name, short=True)
    return inner in test.orelse and _holds_where(
        source, test.test, name, short=False
    )


def _leads_past(source: Source, test: ast.stmt, name: str) -> bool:
    """``if len(x) >= n: return`` before it."""
    return (
        isinstance(test, ast.If)
        and isinstance(test.body[-1], _LEAVING)
        and _holds_where(source, test.test, name, short=False)
    )


def _shortens(source: Source, statement: ast.stmt, name: str) -> bool:
    """``while len(x) > n: x.pop()``, or a cut in any case."""
    if isinstance(statement, (ast.If, ast.While)):
        return _holds_where(source, statement.test, name, short=False) and any(
            _drops(part, name) for part in statement.body
        )
    return _cuts(statement, name)


def _holds_where(
    source: Source, test: ast.expr, name: str, *, short: bool
) -> bool:
    """Whether the test holds only where the named is short, or wherever it is
    long."""
    if isinstance(test, ast.BoolOp):
        wanted = ast.And if short else ast.Or
        return isinstance(test.op, wanted) and any(
            _holds_where(source, part, name, short=short)
            for part in test.values
        )
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    (operator,), (right,) = test.ops, test.comparators
    rises = _rises(source, test.left, name) - _rises(source, right, name)
    if rises > 0:
        return isinstance(operator, _SHORT if short else _LONG)
    if rises < 0:
        return isinstance(operator, _LONGER if short else _SHORTER)
    return False


def _rises(source: Source, node: ast.expr, name: str) -> int:
    """1 where a number rises with the length of the named, -1 where it
    falls, as ``room`` after ``room = most - len(x)`` does; 0: neither."""
    if isinstance(node, ast.Name):
        value = _set_beside(source, node)
        return _goes_with(value, name) if value is not None else 0
    return _goes_with(node, name)


def _goes_with(node: ast.expr, name: str) -> int:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left, right = (_goes_with(n, name) for n in (node.left, node.right))
        return left + (right if isinstance(node.op, ast.Add) else -right)
    return int(_is_length(node, name))


def _set_beside(source: Source, name: ast.Name) -> ast.expr | None:
    """What a variable is set to by the one statement that does, where each
    turn of a loop that asks for it sets it."""
    found = stores(source, name)
    setting = source.parents[found[0]] if len(found) == 1 else None
    if not isinstance(setting, ast.Assign) or setting.targets != found:
        return None
    same_turn = [*loops_around(source, setting)] == [
        *loops_around(source, name)
    ]
    return setting.value if same_turn else None


def _is_length(node: ast.expr, name: str) -> bool:
    """``len(x)``, and of a tensor ``x.shape[0]`` or ``x.size(0)``."""
    if isinstance(node, ast.Subscript):
        return code_of(node.value) == f"{name}.shape"
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return False
    if name_of(node.func) == "size":
        return code_of(node.func) == f"{name}.size"
    return name_of(node.func) == "len" and code_of(node.args[0]) == name


def _drops(statement: ast.stmt, name: str) -> bool:
    """Whether some of it goes, or it becomes another."""
    if any(_cuts(n, name) for n in ast.walk(statement)):
        return True
    return any(
        (isinstance(n, ast.Assign) and name in map(code_of, n.targets))
        or (isinstance(n, ast.Call) and _removes(n, name))
        for n in ast.walk(statement)
    )


def _removes(call: ast.Call, name: str) -> bool:
    taken = taken_from(call)
    return taken is not None and code_of(taken) == name


def _cuts(node: ast.AST, name: str) -> bool:
    """``del x[:-n]`` or ``x = x[-n:]``."""
    if isinstance(node, ast.Delete):
        return any(_is_slice(target, name) for target in node.targets)
    return (
        isinstance(node, ast.Assign)
        and _is_slice(node.value, name)
        and any(
            code_of(target) in (name, f"{name}[:]") for target in node.targets
        )
    )


def _is_slice(node: ast.expr, name: str) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Slice)
        and code_of(node.value) == name
    )


# -- keys ---------------------------------------------------------------------


def _asking(
    source: Source, grows: ast.stmt, name: str
) -> ast.Compare | ast.Call | ast.Try | None:
    """What asks, in its function, whether it has the key that is set, or
    whether another has that key, around the statement or before it."""
    keys = (
        {
            code_of(target.slice)
            for target in grows.targets
            if isinstance(target, ast.Subscript)
            and code_of(target.value) == name
        }
        if isinstance(grows, ast.Assign)
        else set()
    )
    if not keys:
        return None
    scope = source.scope(grows)
    return next(
        (
            node
            for node in source.nodes
            if isinstance(node, (ast.Compare, ast.Call, ast.Try))
            and source.scope(node) == scope
            and (
                _asks_for_key(node, grows, name)
                or _asks_elsewhere(source, node, grows, keys)
            )
        ),
        None,
    )


def _asks_elsewhere(
    source: Source, node: ast.expr | ast.stmt, grows: ast.stmt, keys: set[str]
) -> bool:
    """Whether another has one of the keys."""
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.In, ast.NotIn))
        and code_of(node.left) in keys
        and _keeps_away(source, node, grows)
    )


def _missing(
    source: Source, grows: ast.stmt, name: str
) -> ast.FunctionDef | None:
    """A dict's ``__missing__`` that sets the key it is asked for."""
    return next(
        (
            outer
            for outer in source.up(grows)
            if isinstance(outer, ast.FunctionDef)
            and outer.name == "__missing__"
            and [name] == [one.arg for one in outer.args.args[:1]]
        ),
        None,
    )


def _filling_in(
    source: Source, line: int, dictionary: str
) -> ast.Call | ast.Subscript | None:
    """``x.setdefault(key, [])``, or ``x[key].append(row)`` where that makes
    ``x`` grow: it adds a key that is missing."""
    there = [node for node in source.nodes if line_of(node) == line]
    of_its = [
        node
        for node in there
        if isinstance(node, ast.Subscript)
        and name_of(node.value) == dictionary
    ]
    if any(isinstance(node.ctx, ast.Store) for node in of_its):
        return None
    called = (
        node
        for node in there
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "setdefault"
        and name_of(node.func.value) == dictionary
    )
    return next(called, None) or next(iter(of_its), None)


def _keeps_away(source: Source, asks: ast.Compare, grows: ast.stmt) -> bool:
    """``if key not in ids:`` around it, or ``if key in ids: return`` before
    it, where ``ids`` gets that key too: what is kept beside each other is
    asked for once."""
    test = source.parents[asks]
    if not isinstance(test, ast.If):
        return False
    absent = isinstance(asks.ops[0], ast.NotIn)
    around = test.body if absent else test.orelse
    leads_past = not absent and isinstance(test.body[-1], _LEAVING)
    if not leads_past and not any(grows in ast.walk(one) for one in around):
        return False
    asked, key = code_of(asks.comparators[0]), code_of(asks.left)
    return any(
        _gets(node, asked, key)
        for node in source.nodes
        if source.scope(node) == source.scope(grows)
    )


def _gets(node: ast.AST, asked: str, key: str) -> bool:
    """``ids[key] = n``, or ``ids.add(key)``."""
    if isinstance(node, ast.Assign):
        return f"{asked}[{key}]" in map(code_of, node.targets)
    return isinstance(node, ast.Call) and code_of(node) == (
        f"{asked}.add({key})"
    )


def _asks_for_key(
    node: ast.Compare | ast.Call | ast.Try, grows: ast.stmt, name: str
) -> bool:
    """``key in x``, ``x.get(key)``, or a KeyError that leads to it."""
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], (ast.In, ast.NotIn)) and (
            code_of(node.comparators[0]) == name
        )
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and code_of(node.func.value) == name
        )
    return any(
        handler.type is not None
        and name_of(handler.type) == "KeyError"
        and grows in ast.walk(handler)
        for handler in node.handlers
    )
