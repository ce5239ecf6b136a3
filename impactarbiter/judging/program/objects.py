"""What may be the very tensor that a statement keeps, and who asks for it.

``flow`` follows what is computed of a value as well; here only what may be
the same object, have it, or show its memory is followed.  A patch keeps
another object: it may not be done where the object is asked for its identity,
its attributes or its lifetime.  A doubt counts.
"""

from __future__ import annotations

import ast
from functools import cached_property

from ...knowledge.objects import (
    APART,
    ASKING,
    ASKING_ATTRIBUTES,
    COLLECTING,
    FINDING,
    FRESH_METHODS,
    MAKING,
    MAPPINGS,
    MODULES,
    PASSING,
    PLAIN_CALLS,
    PLAIN_METHODS,
    TAKING,
    VIEWS,
    WEAK,
)
from .needs import is_caught
from .origins import Origins, span
from .owners import Owners, owners_of
from .sides import is_constant, is_side_by_side, turns
from .source_file import Names, Source, given_to, name_of, variable_of

_DISPLAYS = (
    ast.Dict,
    ast.DictComp,
    ast.GeneratorExp,
    ast.List,
    ast.ListComp,
    ast.Set,
    ast.SetComp,
)
_FRESH_CALLS = (PLAIN_CALLS | {"abs", "round", "sum"}) - {"print"}
_FRESH_METHODS = FRESH_METHODS | (PLAIN_METHODS - {"detach", "numpy"})


class Objects(Origins):
    """What may be the objects that some values are, to a fixed point."""

    def __init__(
        self,
        files: list[Source],
        names: Names,
        plain: frozenset[str],
        *,
        single: bool,
    ) -> None:
        super().__init__(files, names)
        self.plain = plain
        self.single = single

    # -- what may be it -------------------------------------------------------

    def _holds(self, source: Source, node: ast.AST | None) -> bool:
        """Whether an expression's value may be the object, have it or show
        its memory."""
        if isinstance(node, ast.UnaryOp):
            return False
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            return isinstance(node.op, ast.Add) and any(
                self._is_container(source, one) and self._holds(source, other)
                for one, other in (sides, sides[::-1], (sides[0],) * 2)
            )
        if isinstance(node, ast.Attribute) and not self.names.has(
            source, node
        ):
            if node.attr in APART:
                return False
            if node.attr in VIEWS:
                return self._holds(source, node.value)
        if isinstance(node, ast.Subscript) and self._is_plain_part(
            source, node
        ):
            return False
        return super()._holds(source, node)

    def _is_plain_part(self, source: Source, node: ast.Subscript) -> bool:
        key = node.slice
        return (
            isinstance(key, ast.Constant)
            and isinstance(key.value, str)
            and repr(key.value) in self.plain
            and self._may_be_items(source, node.value)
        )

    def _may_be_items(self, source: Source, node: ast.AST | None) -> bool:
        """Whether its value may be the holder's items, or one of them: no
        other that is known."""
        return node is not None and (
            not self._known_values(source, node)
            or any(self.names.has(source, one) for one in ast.walk(node))
        )

    def _call_holds(self, source: Source, call: ast.Call) -> bool:
        name = name_of(call.func)
        if (
            isinstance(call.func, ast.Attribute)
            and name in VIEWS | TAKING
            and self._holds(source, call.func.value)
        ):
            return True  # whatever else has a method of this name
        if self.callees.by_name(call) is not None:
            # An object has what it is made of.
            return name in self.returns or (
                name in self.callees.classes
                and self._any(source, given_to(call))
            )
        if isinstance(call.func, ast.Attribute):
            if is_of_module(call.func):
                given = self._any(source, given_to(call))
                return given and name in VIEWS
            if name in PLAIN_METHODS - VIEWS:
                return False
            if self._holds(source, call.func.value):
                return name not in _FRESH_METHODS
        elif name in _FRESH_CALLS:
            return False
        elif name in PASSING - {"dict"}:  # of a mapping they take its keys
            return any(
                self._holds(source, one)
                for one in given_to(call)
                if not self._is_mapping(source, one)
            )
        return self._any(source, given_to(call)) or self._gives_by_value(
            source, call
        )

    def _spread(self, source: Source, node: ast.AST) -> None:
        if not isinstance(node, ast.AugAssign):
            super()._spread(source, node)
        elif self._is_container(source, node.value) and self._holds(
            source, node.value
        ):
            self._reach(source, node.target)

    def _take_turns(
        self, source: Source, target: ast.expr, iterated: ast.expr
    ) -> None:
        items = self._may_be_items(source, iterated)
        for part, value in turns(target, iterated):
            if self._gives_keys(source, part, value):
                continue
            if self._holds(source, value) or self._gives_items(source, value):
                for one in self._parts(part, items=items):
                    self._reach(source, one)

    def _gives_keys(
        self, source: Source, part: ast.expr, value: ast.expr
    ) -> bool:
        """Whether one name goes through a mapping: that has its keys."""
        return not isinstance(
            part, (ast.List, ast.Tuple)
        ) and self._is_mapping(source, value)

    def _parts(self, target: ast.expr, *, items: bool) -> list[ast.expr]:
        """What gets it of a target that gets one of the holder's items."""
        if not (items and is_side_by_side(target)):
            return [target]
        return [
            one
            for at, part in enumerate(target.elts)
            if str(at) not in self.plain
            for one in self._parts(part, items=items)
        ]

    def _pass(self, source: Source, call: ast.Call) -> None:
        super()._pass(source, call)
        if name_of(call.func) in self.callees.classes:
            for keyword in call.keywords:
                if keyword.arg and self._holds(source, keyword.value):
                    self.reached.setdefault(("", keyword.arg), [call])

    # -- whether it is the tensor, no container of it -------------------------

    def _is_item(self, source: Source, node: ast.AST | None) -> bool:
        """Whether it may be the tensor itself, or show its memory."""
        if not self._holds(source, node) or isinstance(node, _DISPLAYS):
            return False
        if isinstance(node, ast.Tuple):
            return any(self._is_item(source, one) for one in node.elts)
        if node is None or self.names.has(source, node):
            return self.single
        if isinstance(node, ast.expr):
            made = self.callees.made_of(source, node)
            if made and not any(map(self._may_be_tensor, made)):
                return False
        return not self._is_container(source, node)

    def _may_be_tensor(self, made: str) -> bool:
        """Whether what a call of that name makes may be one."""
        if made in self.callees.classes:
            return self._is_tensor_class(made)
        return not made[:1].isupper() or "Tensor" in made

    def _is_container(self, source: Source, node: ast.AST) -> bool:
        if self.names.has(source, node):
            return not self.single
        known = self._known_values(source, node)
        return bool(known) and all(
            isinstance(one, (*_DISPLAYS, ast.Tuple))
            or (isinstance(one, ast.Call) and name_of(one.func) in MAKING)
            or (
                isinstance(one, ast.Subscript)
                and isinstance(one.slice, ast.Slice)
            )
            for one in known
        )

    def _is_mapping(self, source: Source, node: ast.AST) -> bool:
        known = self._known_values(source, node)
        return bool(known) and all(
            isinstance(one, (ast.Dict, ast.DictComp))
            or (isinstance(one, ast.Call) and name_of(one.func) in MAPPINGS)
            for one in known
        )

    def _known_values(self, source: Source, node: ast.AST) -> list[ast.expr]:
        """What it is set to, where it is a variable, else itself."""
        variable = variable_of(source, node)
        if variable is None:
            return [node] if isinstance(node, ast.expr) else []
        values = self.callees.values.get(variable, [])
        return [one for one in values if not is_constant(one)]

    # -- what is asked of it --------------------------------------------------

    def asked(self) -> str:
        """Where the object itself is asked for; "" nowhere."""
        return self._first(self._asks)

    def _asks(self, source: Source, node: ast.AST) -> bool:
        if isinstance(node, ast.Compare):
            return self._is_compared(source, node)
        if isinstance(node, ast.Attribute):
            return self._asks_attribute(source, node)
        if isinstance(node, ast.Call):
            return self._asks_by_call(source, node)
        if isinstance(node, ast.Name):
            return self._is_weak(source, node)
        return self._is_key(source, node)

    def _is_compared(self, source: Source, node: ast.AST) -> bool:
        if not isinstance(node, ast.Compare):
            return False
        sides = [node.left, *node.comparators]
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if is_constant(left) or is_constant(right):
                continue
            if isinstance(op, (ast.Is, ast.IsNot)):
                asked = self._is_item(source, left) or self._is_item(
                    source, right
                )
            else:
                asked = isinstance(op, (ast.In, ast.NotIn)) and self._is_item(
                    source, left
                )
            if asked:
                return True
        return False

    def _asks_attribute(self, source: Source, node: ast.Attribute) -> bool:
        stored = not isinstance(node.ctx, ast.Load)
        if stored and node.attr not in ("grad", "requires_grad"):
            return self._is_item(source, node.value)
        if node.attr in ASKING_ATTRIBUTES:
            return self._is_item(source, node.value)
        return self._is_weak(source, node)

    def _is_weak(self, source: Source, node: ast.Name | ast.Attribute) -> bool:
        """Whether it is a container that has it only while it lives."""
        return self._holds(source, node) and any(
            isinstance(one, ast.Call) and name_of(one.func) in WEAK
            for one in self._known_values(source, node)
        )

    def _asks_by_call(self, source: Source, call: ast.Call) -> bool:
        name, given = name_of(call.func), given_to(call)
        if not given or self.callees.by_name(call) is not None:
            return False
        first = given[0]
        if name in COLLECTING:
            return self._holds(source, first)
        if name == "deepcopy":
            return self._holds(source, first) or self._is_copied_within(
                source, call, first
            )
        if name in ASKING or (
            name in FINDING and isinstance(call.func, ast.Attribute)
        ):
            return self._is_item(source, first)
        if name == "dict" and isinstance(first, ast.Call):
            keys = first.args[:1] if name_of(first.func) == "zip" else []
            return self._any(source, keys)
        return not ASKING.isdisjoint(map(name_of, given)) and self._any(
            source, given
        )

    def _is_copied_within(
        self, source: Source, call: ast.Call, copied: ast.expr
    ) -> bool:
        """Whether it is copied as a part of what leads to it.  Of a tensor
        with a graph that fails: unless the program catches it, or is seen to
        come to it with something kept, it was done while nothing was."""
        kept = self._leaves.get((source.file, source.scope(call)), ())
        comes = any(span(call)[0] >= place for place in kept)
        return (
            comes or is_caught(self.files, source, call)
        ) and self._owners.has(source, copied)

    @cached_property
    def _owners(self) -> Owners:
        return owners_of(self)

    def _is_key(self, source: Source, node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript):
            return self._is_item(source, node.slice) and self._may_map(
                source, node.value
            )
        if isinstance(node, ast.Dict):
            return any(self._is_item(source, one) for one in node.keys)
        if isinstance(node, ast.Set):
            return any(self._is_item(source, one) for one in node.elts)
        if isinstance(node, ast.DictComp):
            return self._is_item(source, node.key)
        return isinstance(node, ast.SetComp) and self._is_item(
            source, node.elt
        )

    def _may_map(self, source: Source, node: ast.AST) -> bool:
        """Whether it may be a mapping: what a library's call makes is a
        tensor or a list."""
        known = self._known_values(source, node)
        return not known or any(
            isinstance(one, (ast.Dict, ast.DictComp, ast.Name, ast.Attribute))
            or (
                isinstance(one, ast.Call)
                and (
                    name_of(one.func) in MAPPINGS
                    or self.callees.by_name(one) is not None
                )
            )
            for one in known
        )


def is_of_module(func: ast.expr) -> bool:
    """``torch.nn.functional.relu``: a function that changes only what it is
    told to."""
    names: list[str] = []
    while isinstance(func, ast.Attribute):
        names.append(func.attr)
        func = func.value
    return (
        isinstance(func, ast.Name)
        and func.id in MODULES
        and "distributed" not in names
        and bool(names)
    )
