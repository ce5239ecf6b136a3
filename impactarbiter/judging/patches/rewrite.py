"""The statement that grows a holder: what it adds to what, and the source with
less of each value added.

Positions are Python's own parser's; what is not replaced stays as it is
written, to the byte.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from ...base.records import dataclass
from ...base.source_text import tree_of
from ...knowledge.containers import ADDING
from ..program.source_file import FUNCTIONS, code_of, given_to
from .offer import NoPatchError, Seen, Taking, part_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: What takes a holder, or an object, as its first argument and a value last.
_ADDERS = frozenset({"heappush", "register_buffer", "setattr"})
#: What makes a longer tensor of two: it grows with or without a graph.
_JOINS = re.compile(r"\b(cat|concat|concatenate|[hvd]?stack|pad)\(")
#: A line as the parser counts them: a form feed ends none.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


@dataclass(frozen=True, eq=False)
class Addition:
    """One place that adds values to something.

    ``receiver`` is its last name ("" unknown), with a dot before it where it
    is an attribute, ``target`` the whole of it; ``single``: the value takes
    the old one's place, it is no item.  ``operand``: the value is added to
    the old one, and was not seen itself.
    """

    receiver: str
    values: tuple[ast.expr, ...]
    target: ast.expr | None = None
    single: bool = False
    operand: bool = False


class Source:
    """A file's source with the positions of what is in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.module: ast.Module = tree_of(text)
        self._lines = _LINE.findall(text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def knows_torch(self, value: ast.expr) -> bool:
        """Whether ``torch`` is the module's name where a value stands: its
        file, or a function around it, imports that in no condition."""
        around = (
            node
            for node in ast.walk(self.module)
            if isinstance(node, FUNCTIONS)
            if node.lineno <= value.lineno <= (node.end_lineno or 0)
        )
        return any(
            _imports_torch(statement)
            for one in (self.module, *around)
            for statement in one.body
        )

    def additions(self, line: int) -> list[Addition]:
        """What the statements on a line add, in their order."""
        return [
            addition
            for node in _nodes(self.module)
            if getattr(node, "lineno", 0) == line
            for addition in _additions(node)
        ]

    def _offset(self, line: int, column: int) -> int:
        """Of a place in the text; columns count bytes of UTF-8."""
        before = self._lines[line - 1].encode()[:column]
        return self._starts[line - 1] + len(before.decode())

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno, node.end_col_offset),
        )

    def code(self, node: ast.expr) -> str:
        """An expression as it is written."""
        start, end = self._span(node)
        return self.text[start:end]

    def has_operand(
        self, value: ast.expr, holds: Callable[[str], bool]
    ) -> bool:
        """Whether something holds for it, or for what it is computed of."""
        if isinstance(value, ast.BinOp):
            return self.has_operand(value.left, holds) or self.has_operand(
                value.right, holds
            )
        return holds(self.code(value))

    def is_for(self, addition: Addition, expression: str) -> bool:
        """Whether that adds to what the expression ends in, keys and all."""
        if addition.target is None:
            return False
        text = code_of(addition.target)
        return expression.endswith(text.removeprefix("self"))

    def with_values(self, new: Mapping[ast.expr, str]) -> str:
        """The source with other expressions in place of some."""
        text = self.text
        spans = {self._span(node): code for node, code in new.items()}
        for (start, end), code in sorted(spans.items(), reverse=True):
            text = text[:start] + code + text[end:]
        return text


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All of them but what stands in an f-string, which Python before 3.12
    does not place."""
    if isinstance(node, ast.JoinedStr):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child)


# -- what a statement adds ----------------------------------------------------


def _additions(node: ast.AST) -> Iterable[Addition]:
    if isinstance(node, ast.Call):
        return _of_call(node)
    if isinstance(node, ast.AugAssign):
        return [_of_augmented(node)]
    if isinstance(node, ast.Assign):
        each = [_of_assignment(one, node.value) for one in node.targets]
        return chain.from_iterable(each)
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return _of_assignment(node.target, node.value)
    return ()


def _of_call(call: ast.Call) -> Iterable[Addition]:
    name = _name(call.func).lstrip(".")
    args = given_to(call)
    starred = any(isinstance(arg, ast.Starred) for arg in call.args)
    if not args or starred or any(k.arg is None for k in call.keywords):
        return ()
    last = args[-1]
    if name in _ADDERS and len(args) > 1:
        receiver, text = _name(args[0]), args[-2]
        if name != "heappush":
            receiver = f".{_unquoted(text) or ''}"
        return [Addition(receiver, (last,), single=name != "heappush")]
    if isinstance(call.func, ast.Attribute) and name in ADDING:
        receiver = _name(call.func.value)
        if name in ("put", "put_nowait"):
            last = args[0]
        if name in ("extend", "extendleft", "update"):
            return _elements(call.func.value, last)
        if name != "setdefault" or not _is_empty(last):
            return [Addition(receiver, (last,), call.func.value)]
    return ()


def _is_empty(value: ast.expr) -> bool:
    """``[]``, ``{}``, ``list()``: the container that a default is."""
    if isinstance(value, ast.List):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.values
    return isinstance(value, ast.Call) and not (value.args or value.keywords)


def _elements(target: ast.expr, value: ast.expr) -> Iterator[Addition]:
    """The items of a literal that a holder is extended by."""
    values = None
    if isinstance(value, (ast.List, ast.Tuple)):
        if not any(isinstance(e, ast.Starred) for e in value.elts):
            values = tuple(value.elts)
    elif isinstance(value, ast.Dict) and None not in value.keys:
        values = tuple(value.values)
    if values is not None:
        yield Addition(_name(target), values, target)


def _of_augmented(node: ast.AugAssign) -> Addition:
    for addition in _elements(node.target, node.value):
        return addition
    return Addition(
        _name(node.target),
        (node.value,),
        node.target,
        single=True,
        operand=True,
    )


def _of_assignment(target: ast.expr, value: ast.expr) -> Iterator[Addition]:
    """``d[k] = v`` adds an item, ``x[i:] = [v]`` what is in the literal;
    ``x = x + [v]`` and ``[*x, v]`` too."""
    if not isinstance(target, ast.Subscript):
        yield _of_name(target, value)
    elif isinstance(target.slice, ast.Slice):
        yield from _elements(target.value, value)
    else:
        yield Addition(_name(target), (value,), target.value)


def _of_name(target: ast.expr, value: ast.expr) -> Addition:
    receiver = _name(target)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        for side, other in (
            (value.right, value.left),
            (value.left, value.right),
        ):
            if _name(other) == receiver:
                for addition in _elements(target, side):
                    return addition
    if isinstance(value, (ast.List, ast.Tuple)):
        kept = [e for e in value.elts if not isinstance(e, ast.Starred)]
        if len(kept) < len(value.elts):
            return Addition(receiver, tuple(kept), target)
    return Addition(receiver, (value,), target, single=True)


def _name(node: ast.AST) -> str:
    """The last name of what is added to: ``a.b[0]`` is about ``.b``."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(
            node.func, ast.Attribute
        ):
            node = node.func.value  # d.setdefault(k, [])
        else:
            break
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _unquoted(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


# -- with less of it ----------------------------------------------------------

#: What is none of these needs parentheses before a method of it is called.
_PRIMARY = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
#: What no method of a tensor can be called of.
_NOT_PLAIN = (
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.JoinedStr,
)


_NO_KEYS = "its keys are not written in the statement"


@dataclass
class Thinning:
    """Works out what of each value is kept; NoPatchError where it can't.

    ``take`` decides about one value, from its expression and what was seen in
    its place.  ``new`` are the new expressions, ``stays`` what they keep.
    """

    source: Source
    take: Callable[[ast.expr, Seen], Taking]
    new: dict[ast.expr, str]
    stays: float = 0.0
    methods: frozenset[str] = frozenset()

    def value(self, value: ast.expr, seen: Seen) -> None:
        """Takes what is needed of one value that is added."""
        sort = _literal(value)
        if sort:
            for key, element in _parts(value):
                self.value(element, part_of(seen, sort, key))
            return
        taking = self.take(value, seen)
        self.stays += taking.stays
        if not taking.method:
            return
        if isinstance(value, _NOT_PLAIN) or (
            isinstance(value, ast.Constant)
            and isinstance(value.value, (str, bytes))
        ):
            raise NoPatchError("what passes the statement is not plain")
        self.methods |= {taking.method}
        self.new[value] = self._taken(value, taking)

    def _taken(self, value: ast.expr, taking: Taking) -> str:
        text = self.source.code(value)
        if not taking.guarded:
            if not isinstance(value, _PRIMARY):
                text = f"({text})"
            return f"{text}.{taking.method}()"
        plain = _is_plain_name(value)
        if not plain or not self.source.knows_torch(value):
            raise NoPatchError(
                "other things than tensors may pass the statement"
            )
        return (
            f"{text}.{taking.method}() if isinstance({text}, torch.Tensor)"
            f" else {text}"
        )

    def is_joined(self, value: ast.expr) -> bool:
        """Whether a tensor is made longer."""
        return bool(_JOINS.search(self.source.code(value)))


def _imports_torch(statement: ast.stmt) -> bool:
    """Whether a statement makes ``torch`` known in all that it stands in."""
    return isinstance(statement, ast.Import) and any(
        one.asname is None and one.name.partition(".")[0] == "torch"
        for one in statement.names
    )


def _is_plain_name(value: ast.expr) -> bool:
    """A name or attributes of one: reading it twice changes nothing."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, ast.Name)


def _literal(value: ast.expr) -> str:
    """ "tuple", "list", "dict" for what is written as one, else ""."""
    if isinstance(value, ast.Call):
        plain = isinstance(value.func, ast.Name) and bool(
            value.args or value.keywords
        )
        return "dict" if plain and _name(value.func) == "dict" else ""
    if isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
        return type(value).__name__.lower()
    return ""


def _parts(value: ast.expr) -> Iterable[tuple[str, ast.expr]]:
    """Elements of a literal by index or key as the census has them."""
    if isinstance(value, ast.Call):
        if value.args or any(k.arg is None for k in value.keywords):
            raise NoPatchError(_NO_KEYS)
        return [(repr(k.arg), k.value) for k in value.keywords]
    if isinstance(value, ast.Dict):
        return _items(value)
    assert isinstance(value, (ast.Tuple, ast.List))
    return _numbered(value)


def _items(value: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    for key, element in zip(value.keys, value.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(
            key.value, (str, bytes)
        ):
            raise NoPatchError(_NO_KEYS)
        yield repr(key.value), element


def _numbered(value: ast.Tuple | ast.List) -> Iterator[tuple[str, ast.expr]]:
    for at, element in enumerate(value.elts):
        if isinstance(element, ast.Starred):
            raise NoPatchError(_NO_KEYS)
        yield str(at), element
