"""The statement that grows a holder, as libcst has it: what it adds to what,
and the source with less of each value added.

libcst comes with the extra "fix"; everything here raises ImportError without.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..knowledge.containers import ADDING
from .offer import NoPatchError, Seen, Taking, part_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import libcst as cst

#: What takes a holder, or an object, as its first argument and a value last.
_ADDERS = frozenset({"heappush", "register_buffer", "setattr"})
#: What makes a longer tensor of two: it grows with or without a graph.
_JOINS = re.compile(r"\b(cat|concat|concatenate|[hvd]?stack|pad)\(")
_TORCH = re.compile(r"^\s*import torch\s*(#.*)?$", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Addition:
    """One place that adds values to something.

    ``receiver`` is its last name ("" unknown), with a dot before it where it
    is an attribute, ``target`` the whole of it; ``single``: the value takes
    the old one's place, it is no item.  ``operand``: the value is added to
    the old one, and was not seen itself.
    """

    receiver: str
    values: tuple[cst.BaseExpression, ...]
    target: cst.BaseExpression | None = None
    single: bool = False
    operand: bool = False


def _parsed(text: str) -> cst.Module:
    """libcst's tree; SyntaxError, or RuntimeError where its parser gave up.

    The parser is in Rust.  What goes wrong there, as where memory runs out,
    is no Exception, and would end the program that is watched.
    """
    import libcst as cst

    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(str(error)) from None
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise RuntimeError(f"libcst: {error}") from None


class Source:
    """A file's source with the positions of what is in it."""

    def __init__(self, text: str) -> None:
        from libcst.metadata import MetadataWrapper, PositionProvider

        wrapper = MetadataWrapper(_parsed(text))
        self.module = wrapper.module
        self.knows_torch = bool(_TORCH.search(text))
        self._positions = wrapper.resolve(PositionProvider)

    def additions(self, line: int) -> list[Addition]:
        """What the statements on a line add, in their order."""
        return [
            addition
            for node in _nodes(self.module)
            if self._is_on(node, line)
            for addition in _additions(node)
        ]

    def _is_on(self, node: cst.CSTNode, line: int) -> bool:
        where = self._positions.get(node)
        return where is not None and where.start.line == line

    def code(self, node: cst.CSTNode) -> str:
        """An expression as it is written."""
        return self.module.code_for_node(node)

    def has_operand(
        self, value: cst.BaseExpression, holds: Callable[[str], bool]
    ) -> bool:
        """Whether something holds for it, or for what it is computed of."""
        import libcst as cst

        if isinstance(value, cst.BinaryOperation):
            return self.has_operand(value.left, holds) or self.has_operand(
                value.right, holds
            )
        return holds(self.code(value))

    def is_for(self, addition: Addition, expression: str) -> bool:
        """Whether that adds to what the expression ends in, keys and all."""
        if addition.target is None:
            return False
        text = ast.unparse(ast.parse(self.code(addition.target)))
        return expression.endswith(text.removeprefix("self"))

    def with_values(
        self, new: Mapping[cst.CSTNode, cst.BaseExpression]
    ) -> str:
        """The source with other expressions in place of some."""
        import libcst as cst

        class Replacer(cst.CSTTransformer):
            def on_leave(  # type: ignore[override]
                self, original_node: cst.CSTNode, updated_node: cst.CSTNode
            ) -> cst.CSTNode:
                return new.get(original_node, updated_node)

        made = self.module.visit(Replacer())
        assert isinstance(made, cst.Module)
        return made.code


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)


# -- what a statement adds ----------------------------------------------------


def _additions(node: cst.CSTNode) -> Iterator[Addition]:
    import libcst as cst

    if isinstance(node, cst.Call):
        yield from _of_call(node)
    elif isinstance(node, cst.AugAssign):
        yield _of_augmented(node)
    elif isinstance(node, cst.Assign):
        for target in node.targets:
            yield _of_assignment(target.target, node.value)
    elif isinstance(node, cst.AnnAssign) and node.value is not None:
        yield _of_assignment(node.target, node.value)


def _of_call(call: cst.Call) -> Iterator[Addition]:
    import libcst as cst

    name = _name(call.func).lstrip(".")
    args = [arg for arg in call.args if not arg.star]
    if not args or len(args) < len(call.args):
        return
    last = args[-1].value
    if name in _ADDERS and len(args) > 1:
        receiver, text = _name(args[0].value), args[-2].value
        if name != "heappush":
            receiver = f".{_unquoted(text) or ''}"
        yield Addition(receiver, (last,), single=name != "heappush")
    elif isinstance(call.func, cst.Attribute) and name in ADDING:
        receiver = _name(call.func.value)
        if name in ("put", "put_nowait"):
            last = args[0].value
        if name in ("extend", "extendleft", "update"):
            yield from _elements(call.func.value, last)
        elif name != "setdefault" or not _is_empty(last):
            yield Addition(receiver, (last,), call.func.value)


def _is_empty(value: cst.BaseExpression) -> bool:
    """``[]``, ``{}``, ``list()``: the container that a default is."""
    import libcst as cst

    if isinstance(value, (cst.List, cst.Dict)):
        return not value.elements
    return isinstance(value, cst.Call) and not value.args


def _elements(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[Addition]:
    """The items of a literal that a holder is extended by."""
    import libcst as cst

    plain = False
    if isinstance(value, (cst.List, cst.Tuple)):
        plain = not any(
            isinstance(e, cst.StarredElement) for e in value.elements
        )
    elif isinstance(value, cst.Dict):
        plain = not any(
            isinstance(e, cst.StarredDictElement) for e in value.elements
        )
    if plain:
        assert isinstance(value, (cst.List, cst.Tuple, cst.Dict))
        values = tuple(e.value for e in value.elements)
        yield Addition(_name(target), values, target)


def _of_augmented(node: cst.AugAssign) -> Addition:
    for addition in _elements(node.target, node.value):
        return addition
    return Addition(
        _name(node.target),
        (node.value,),
        node.target,
        single=True,
        operand=True,
    )


def _of_assignment(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Addition:
    """``d[k] = v`` adds an item, ``x = x + [v]`` and ``[*x, v]`` too."""
    import libcst as cst

    receiver = _name(target)
    if isinstance(target, cst.Subscript):
        return Addition(receiver, (value,), target.value)
    if isinstance(value, cst.BinaryOperation) and isinstance(
        value.operator, cst.Add
    ):
        for side, other in (
            (value.right, value.left),
            (value.left, value.right),
        ):
            if _name(other) == receiver:
                for addition in _elements(target, side):
                    return addition
    if isinstance(value, (cst.List, cst.Tuple)):
        kept = [
            e for e in value.elements if not isinstance(e, cst.StarredElement)
        ]
        if len(kept) < len(value.elements):
            return Addition(receiver, tuple(e.value for e in kept), target)
    return Addition(receiver, (value,), target, single=True)


def _name(node: cst.CSTNode) -> str:
    """The last name of what is added to: ``a.b[0]`` is about ``.b``."""
    import libcst as cst

    while True:
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(
            node.func, cst.Attribute
        ):
            node = node.func.value  # d.setdefault(k, [])
        else:
            break
    if isinstance(node, cst.Attribute):
        return f".{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _unquoted(node: cst.CSTNode) -> str | None:
    import libcst as cst

    value = (
        node.evaluated_value if isinstance(node, cst.SimpleString) else None
    )
    return value if isinstance(value, str) else None


# -- with less of it ----------------------------------------------------------


@dataclass
class Thinning:
    """Works out what of each value is kept; NoPatchError where it can't.

    ``take`` decides about one value, from its expression and what was seen in
    its place.  ``new`` are the new expressions, ``stays`` what they keep.
    """

    source: Source
    take: Callable[[cst.BaseExpression, Seen], Taking]
    new: dict[cst.CSTNode, cst.BaseExpression]
    stays: float = 0.0
    methods: frozenset[str] = frozenset()

    def value(self, value: cst.BaseExpression, seen: Seen) -> None:
        """Takes what is needed of one value that is added."""
        import libcst as cst

        sort = _literal(value)
        if sort:
            for key, element in _parts(value):
                self.value(element, part_of(seen, sort, key))
            return
        taking = self.take(value, seen)
        self.stays += taking.stays
        if not taking.method:
            return
        if isinstance(value, (cst.Lambda, cst.BaseComp, cst.BaseString)):
            raise NoPatchError("what passes the statement is not plain")
        self.methods |= {taking.method}
        self.new[value] = self._taken(value, taking)

    def _taken(
        self, value: cst.BaseExpression, taking: Taking
    ) -> cst.BaseExpression:
        import libcst as cst

        primary = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
        if not taking.guarded:
            if not isinstance(value, primary) and not value.lpar:
                value = value.with_changes(
                    lpar=[cst.LeftParen()], rpar=[cst.RightParen()]
                )
            return cst.Call(cst.Attribute(value, cst.Name(taking.method)))
        plain = _is_plain_name(value)
        if not plain or not self.source.knows_torch:
            raise NoPatchError(
                "other things than tensors may pass the statement"
            )
        text = self.source.code(value)
        return cst.parse_expression(
            f"{text}.{taking.method}() if isinstance({text}, torch.Tensor)"
            f" else {text}"
        )

    def is_joined(self, value: cst.BaseExpression) -> bool:
        """Whether a tensor is made longer."""
        return bool(_JOINS.search(self.source.code(value)))


def _is_plain_name(value: cst.BaseExpression) -> bool:
    """A name or attributes of one: reading it twice changes nothing."""
    import libcst as cst

    while isinstance(value, cst.Attribute):
        value = value.value
    return isinstance(value, cst.Name)


def _literal(value: cst.BaseExpression) -> str:
    """ "tuple", "list", "dict" for what is written as one, else ""."""
    import libcst as cst

    if isinstance(value, cst.Call):
        plain = isinstance(value.func, cst.Name) and bool(value.args)
        return "dict" if plain and _name(value.func) == "dict" else ""
    if isinstance(value, (cst.Tuple, cst.List, cst.Dict)):
        return type(value).__name__.lower()
    return ""


def _parts(
    value: cst.BaseExpression,
) -> Iterable[tuple[str, cst.BaseExpression]]:
    """Elements of a literal by index or key as the census has them."""
    import libcst as cst

    if isinstance(value, cst.Call):
        for arg in value.args:
            if arg.keyword is None:
                raise NoPatchError("its keys are not written in the statement")
            yield repr(arg.keyword.value), arg.value
        return
    assert isinstance(value, (cst.Tuple, cst.List, cst.Dict))
    for at, element in enumerate(value.elements):
        if isinstance(element, cst.Element):
            yield str(at), element.value
        elif isinstance(element, cst.DictElement) and isinstance(
            element.key, cst.SimpleString
        ):
            yield repr(element.key.evaluated_value), element.value
        else:
            raise NoPatchError("its keys are not written in the statement")
