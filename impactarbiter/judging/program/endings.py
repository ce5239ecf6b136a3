"""Which other statement takes something out of what one adds to, or puts
another in its place.

``self.rows.clear()``, ``self.rows = []``, ``rows[:] = rows[-9:]``: the source
says that this may happen, not that it does.
"""

from __future__ import annotations

import ast

from ...knowledge.containers import PUTTING, REMOVING, TAKING
from .aliases import Aliases
from .source_file import FUNCTIONS, Defined, Source, name_of
from .syntax import (
    are_apart,
    class_around,
    is_first,
    is_in_init,
    loops_around,
    over_before,
    pairs,
)

_NEW = (ast.Call, ast.List, ast.Dict, ast.Set)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def ending(
    source: Source, grows: ast.stmt, it: ast.AST
) -> ast.stmt | ast.expr | None:
    """The first statement or call but ``grows`` that empties ``it``, a name
    or an attribute; that is known by its name alone."""
    inside = set(ast.walk(grows))
    reader = _Reader(source, grows, _as_item(it))
    return next(
        (
            node
            for node in source.nodes
            if isinstance(node, (ast.stmt, ast.Call)) and node not in inside
            if reader.is_emptied_by(node)
            and not are_apart(source, node, grows)
        ),
        None,
    )


def _as_item(it: ast.AST) -> ast.AST:
    """``rows.setdefault(key, [])`` is ``rows[key]``."""
    if (
        isinstance(it, ast.Call)
        and isinstance(it.func, ast.Attribute)
        and it.func.attr in ("get", "setdefault")
        and it.args
    ):
        return ast.Subscript(it.func.value, it.args[0], ast.Load())
    return it


def replacing(source: Source, name: str) -> ast.stmt | None:
    """The first statement that puts a new object in the place of one that its
    function has used, or that was made with its owner: ``self.seen = Seen()``.
    What an attribute of that name has goes with it."""
    return next(
        (
            node
            for node in source.nodes
            if isinstance(node, ast.stmt)
            for target, value in pairs(node)
            if isinstance(target, ast.Attribute)
            and target.attr == name
            and isinstance(value, _NEW)
            and _is_used_before(source, node, value, name)
        ),
        None,
    )


def _is_used_before(
    source: Source, node: ast.stmt, value: ast.expr, name: str
) -> bool:
    if is_first(source, node, name) or is_in_init(source, node):
        return False
    inside = set(ast.walk(value))
    used = [
        one
        for one in source.nodes
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Load)
        and (one.attr, source.scope(one)) == (name, source.scope(node))
    ]
    return inside.isdisjoint(used) and (
        any(one.lineno < node.lineno for one in used)
        or any(
            isinstance(target, ast.Attribute)
            and target.attr == name
            and isinstance(made, _NEW)
            for one in source.nodes
            if isinstance(one, ast.stmt) and is_in_init(source, one)
            for target, made in pairs(one)
        )
    )


def taken_from(call: ast.Call) -> ast.expr | None:
    """What a call takes something out of; None where it takes nothing."""
    called, name = call.func, name_of(call.func)
    if isinstance(called, ast.Attribute) and name in REMOVING:
        return called.value
    return call.args[0] if name == "heappop" and call.args else None


def _taken_from_queue(call: ast.Call) -> ast.expr | None:
    """The same of a queue, where it is one: a key is asked for by position."""
    called = call.func
    is_key = any(not isinstance(arg, ast.Constant) for arg in call.args)
    if isinstance(called, ast.Attribute) and called.attr in TAKING:
        return None if is_key else called.value
    return None


def _is_put(grows: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Call) and name_of(node.func) in PUTTING
        for node in ast.walk(grows)
    )


class _Reader:
    def __init__(
        self,
        source: Source,
        grows: ast.stmt,
        it: ast.AST,
        *,
        inside: bool = False,
    ) -> None:
        self._source, self._grows = source, grows
        self._key = _key_of(it)
        self._aliases = Aliases(source, grows, it)
        self._is, self._name = self._aliases.stand_for, self._aliases.name
        self._inside = inside  # of a function that it is handed to
        self._is_queue = _is_put(grows)

    def is_emptied_by(self, node: ast.stmt | ast.Call) -> bool:
        if isinstance(node, ast.Call):
            return self._is_emptied_by_call(node)
        if isinstance(node, ast.Delete):
            return any(
                isinstance(target, ast.Subscript) and self._is(target)
                for target in node.targets
            )
        return any(
            self._is_put_anew(node, target, value)
            for target, value in pairs(node)
        )

    def _is_emptied_by_call(self, call: ast.Call) -> bool:
        """By a method, a function that it is handed to, or one that puts
        another in its place."""
        taken = taken_from(call)
        if taken is None and self._is_queue:
            taken = _taken_from_queue(call)
        if taken is not None:
            return self._is(taken)
        called, name = call.func, name_of(call.func)
        if name == "__init__":
            return name_of(getattr(called, "value", call)) == "self" and (
                self._is_made_in_init_of(class_around(self._source, call))
            )
        if name == "setattr" and len(call.args) == 3:
            key = call.args[1]
            named = isinstance(key, ast.Constant) and key.value == self._name
            return (
                self._aliases.is_attribute
                and named
                and self._loses(call.args[2])
            )
        if name in ("replace", "_replace"):
            return self._aliases.is_attribute and any(
                one.arg == self._name and self._loses(one.value)
                for one in call.keywords
            )
        return not self._inside and self._is_handed_to_one_that_empties(call)

    def _is_handed_to_one_that_empties(self, call: ast.Call) -> bool:
        handed = [at for at, one in enumerate(call.args) if self._is(one)]
        if not handed:
            return False
        return any(
            self._empties_its(function, at)
            for function in self._source.nodes
            if isinstance(function, FUNCTIONS)
            if function.name == name_of(call.func)
            for at in handed
        )

    def _empties_its(self, function: Defined, at: int) -> bool:
        """Whether a function empties what it is handed there."""
        names = [one.arg for one in function.args.args]
        at += names[:1] in (["self"], ["cls"])
        inside = list(ast.walk(function))
        for one in inside:
            if isinstance(one, ast.Name) and one.id in names[at : at + 1]:
                reader = _Reader(self._source, function, one, inside=True)
                return any(
                    reader.is_emptied_by(node)
                    for node in inside
                    if isinstance(node, (ast.stmt, ast.Call))
                )
        return False

    def _is_put_anew(
        self, node: ast.stmt, target: ast.expr, value: ast.expr
    ) -> bool:
        """``self.rows = []`` where it is not set for the first time,
        ``rows["loss"] = []`` likewise, ``rows[key] = []`` where what had that
        key was used before, and ``rows[:] = rows[-9:]``."""
        if not self._is(target) or not self._loses(value):
            return False
        name = self._name
        if isinstance(target, ast.Subscript):
            if _is_all(target):
                return True
            name = _key_of(target) or ""
            if not name:
                return self._is_used_by_its_key(node, target)
            if self._key != name:
                return False
            target = target.value
        if isinstance(target, ast.Name):
            return (
                target.id == self._name
                and not _is_anothers(value)
                and self._is_of_one_loop(node)
                and not is_first(self._source, node, name)
                and not is_first(self._source, node, target.id)
            )
        scope = self._source.scope(node)
        if scope == "module" or is_in_init(self._source, node):
            return any(loops_around(self._source, node))
        return not is_first(self._source, node, name)

    def _is_used_by_its_key(
        self, node: ast.stmt, target: ast.Subscript
    ) -> bool:
        """Whether what it puts another in the place of is read there by it, or
        by a statement before, or it goes through all keys."""
        source, text = self._source, ast.unparse(target)
        key = ast.dump(target.slice)
        if isinstance(target.slice, ast.Constant) or is_in_init(source, node):
            return False
        return any(
            isinstance(one, ast.Subscript)
            and isinstance(one.ctx, ast.Load)
            and ast.unparse(one) == text
            for read in (*over_before(source, node), node)
            for one in ast.walk(read)
        ) or any(
            isinstance(loop, ast.For)
            and any(self._is(part) for part in ast.walk(loop.iter))
            and any(
                ast.dump(part).replace("Store()", "Load()") == key
                for part in ast.walk(loop.target)
            )
            for loop in loops_around(source, node)
        )

    def _is_of_one_loop(self, node: ast.stmt) -> bool:
        """Whether a loop makes it anew and fills it in each turn."""
        around = set(loops_around(self._source, self._grows))
        return any(loop in around for loop in loops_around(self._source, node))

    def _is_made_in_init_of(self, owner: ast.AST | None) -> bool:
        source = self._source
        return any(
            isinstance(target, ast.Attribute) and self._is(target)
            for node in source.nodes
            if isinstance(node, ast.stmt)
            and is_in_init(source, node)
            and class_around(source, node) is owner
            for target, _value in pairs(node)
        )

    def _loses(self, value: ast.expr) -> bool:
        """Whether such a value has less of it: it has none, a slice, or what
        a condition lets through."""
        if not any(self._is(part) for part in ast.walk(value)):
            return True
        return any(
            any(self._is(inner) for inner in ast.walk(part))
            for part in ast.walk(value)
            if _is_part(part)
        )


def _is_anothers(value: ast.expr) -> bool:
    """Whether it is there already, and somebody else's: ``self.state[p]``,
    ``made.setdefault(key, [])``.  A name for it takes nobody's place."""
    if isinstance(value, ast.Call):
        called = value.func
        of_key = isinstance(called, ast.Attribute) and bool(value.args)
        return of_key and name_of(called) in ("get", "setdefault")
    if isinstance(value, ast.Subscript):
        return not isinstance(value.slice, ast.Slice)
    return isinstance(value, (ast.Attribute, ast.Name))


def _is_part(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and not _is_all(node)
    return isinstance(node, _COMPREHENSIONS) and any(
        one.ifs for one in node.generators
    )


def _key_of(node: ast.AST) -> str | None:
    """``rows["loss"]``: a key that is written there."""
    key = getattr(node, "slice", None)
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return key.value
    return None


def _is_all(node: ast.Subscript) -> bool:
    """``rows[:]``."""
    cut = node.slice
    return isinstance(cut, ast.Slice) and cut.lower is cut.upper is None
