"""Objects that lead to what is kept by an attribute, however deep: what copies
one whole copies that too."""

from __future__ import annotations

import ast

from ...knowledge.objects import TAKING
from .flow import Flow
from .source_file import (
    FUNCTIONS,
    Names,
    Source,
    given_to,
    name_of,
    own_of_method,
)


class Owners(Flow):
    """What may be such an object, or have one, to a fixed point.

    ``attributes`` have what is kept, or an owner.
    """

    def __init__(self, files: list[Source], attributes: set[str]) -> None:
        super().__init__(files, Names(frozenset(attributes)))
        #: Classes whose objects are owners.
        self._classes: set[str] = set()

    def has(self, source: Source, node: ast.AST) -> bool:
        """Whether an expression may be one, or have one."""
        return self._holds(source, node)

    def _size(self) -> int:
        return super()._size() + len(self._classes)

    def _holds(self, source: Source, node: ast.AST | None) -> bool:
        if isinstance(node, ast.Attribute):
            # What else an owner has is its own.
            return self._is_owning(source, node)
        return super()._holds(source, node)

    def _is_owning(self, source: Source, node: ast.Attribute) -> bool:
        reached = ("", node.attr) in self.reached
        return reached or self.names.has(source, node)

    def _call_holds(self, source: Source, call: ast.Call) -> bool:
        name = name_of(call.func)
        if self.callees.by_name(call) is not None:
            return self._may_be_owner(name) or name in self.returns
        if isinstance(call.func, ast.Attribute):
            return name in TAKING and self._holds(source, call.func.value)
        return self._any(source, given_to(call))

    def _spread(self, source: Source, node: ast.AST) -> None:
        super()._spread(source, node)
        if isinstance(node, ast.Attribute):
            if self._is_owning(source, node):
                self._own(source, node.value)
        elif isinstance(node, ast.Call):
            self._own_what_is_given(source, node)
        elif isinstance(node, FUNCTIONS):
            name, own = own_of_method(source, node)
            if own and self._may_be_owner(name):
                self._reach_parameter(node, own)

    def _may_be_owner(self, name: str) -> bool:
        """Whether an object of that class may be one: of a class that derives
        from it, too."""
        line = self.callees.line_of
        return name in line(self._classes) or not self._classes.isdisjoint(
            line([name])
        )

    def _own(self, source: Source, owner: ast.expr) -> None:
        self._reach(source, owner)
        name, own = own_of_method(source, source.function(owner))
        if own and name_of(owner) == own:
            self._classes.add(name)

    def _own_what_is_given(self, source: Source, call: ast.Call) -> None:
        """A function may make an owner of what it is given."""
        for function in self.callees.by_name(call) or ():
            home = self._home(function)
            for name, given in self.callees.parameters(function, call):
                if home.named(function, name) in self.reached:
                    self._reach(source, given)


def owners_of(values: Flow) -> Owners:
    """Of what a flow has followed so far."""
    owners = Owners(values.files, values.attributes())
    owners.spread()
    return owners
