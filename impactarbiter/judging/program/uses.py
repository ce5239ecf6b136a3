"""How a program uses what a holder keeps: what a patch may not disturb.

Reads the user's source with ``ast``, never the program: where a graph is
needed (``flow``), and where a number would not do instead of a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ...base.records import dataclass
from ...knowledge.containers import ANY, REMOVING
from ...knowledge.objects import BACKWARDS, SHARED
from .needs import Needs
from .source_file import (
    Names,
    Source,
    code_of,
    name_of,
    read_further,
    shown,
    source_of,
)
from .unparsed import asks, defines, made_of, mentions, reads_of

#: Calls that give the same for a tensor of one number and for that number.
_NUMBERS = frozenset({"float", "int"})
#: Calls that look at a container, and at nothing in it.
_LOOKING = frozenset({"bool", "id", "isinstance", "len", "type"})
#: Methods that add to a container, and that no tensor has.
_ADDS = ANY - {"add", "put"}
#: Methods that take one item of many.
_OF_ONE = ANY | REMOVING | {"get"}


@dataclass(frozen=True)
class Uses:
    """What the program does with what is kept, as far as it is understood.

    ``graph`` says where a graph is needed ("" nowhere); ``number`` why a
    number would not do instead of a tensor of one ("" it would); ``same``
    where it is asked for as the object that it is; ``unread`` where a graph
    may be needed besides, in files that are too much to be read.
    """

    graph: str = ""
    number: str = ""
    same: str = ""
    unread: str = ""


def uses_of(
    names: Names,
    files: Iterable[str],
    *,
    zero_dim: bool = True,
    single: bool = False,
    parts: bool = False,
) -> Uses:
    """How variables and attributes of these names are used in the files.

    ``zero_dim``: what is kept prints like a number in an f-string;
    ``single``: the holder is the tensor itself; ``parts``: its items are no
    tensors, but have some.
    """
    wanted = names.words
    files = list(files)
    read = {
        file: one
        for file in files
        if mentions(file, wanted)
        and (one := source_of(file))
        and not wanted.isdisjoint(one.words)
    }
    once = partial(_followed, names, zero_dim and not parts, single, files)
    (graph, needs), unread = read_further(read, files, once)
    reads = [_inexact(one, names, zero_dim, parts) for one in read.values()]
    number = next((why for why in reads if why), "")
    return Uses(graph, number, needs.compared(), unread)


def _followed(
    names: Names,
    zero_dim: bool,
    single: bool,
    files: Sequence[str],
    read: list[Source],
) -> tuple[tuple[str, Needs], Callable[[str], bool]]:
    """Where a graph is needed; and which files know what is kept by another
    name: where a function that gets it is defined, or where one that gives it
    is called."""
    needs = Needs(read, names, zero_dim=zero_dim, single=single)
    graph = needs.run()
    if graph:
        return (graph, needs), lambda _file: False
    given = needs.attributes().union(needs.returns)
    modules, variables = needs.modules, needs.globals()
    made = [made_of(file, modules.classes) for file in files]
    owners = modules.owners.union(*made)
    return (
        (graph, needs),
        lambda file: (
            defines(file, needs.elsewhere)
            or asks(file, given, SHARED, owners)
            or reads_of(file, variables, modules.names)
        ),
    )


def is_tensor(file: str, function: str, code: str) -> bool:
    """Whether the function gives a name to a backward: so it is one."""
    source = source_of(file)
    if source is None:
        return False
    here = function.rpartition(".")[2].strip("<>")
    return any(
        isinstance(node, ast.Call)
        and name_of(node.func) in BACKWARDS
        and source.scope(node).rpartition(".")[2] == here
        and any(
            isinstance(part, (ast.Name, ast.Attribute))
            and code_of(part) == code
            for part in ast.walk(node)
        )
        for node in source.nodes
    )


def goes_through(names: Names, files: Iterable[str], depth: int = 0) -> bool:
    """Whether what goes by one of these names is read as a whole anywhere:
    gone through, handed on or given another name.  What is filled, asked for
    its length or for one item is not; items of items, so ``depth``, are
    themselves what is asked about."""
    return any(
        isinstance(getattr(node, "ctx", None), ast.Load)
        and names.has(source, node)
        and _is_of_all(source, _item_of(source, node, depth))
        for file in files
        if mentions(file, names.words) and (source := source_of(file))
        for node in source.nodes
    )


def _item_of(source: Source, node: ast.AST, depth: int) -> ast.AST:
    """``a.b[i][j]`` around ``a.b``, with so many subscripts at most."""
    for _ in range(depth):
        outer = source.parents.get(node)
        if not isinstance(outer, ast.Subscript) or outer.value is not node:
            break
        node = outer
    return node


def _is_of_all(source: Source, node: ast.AST) -> bool:
    parent = source.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _OF_ONE
    if isinstance(parent, ast.Subscript):
        return parent.value is not node or isinstance(parent.slice, ast.Slice)
    if isinstance(parent, ast.Call):
        # A function's own name is none of what it is called with.
        return parent.func is not node and (
            name_of(parent.func) not in _LOOKING
        )
    return not isinstance(
        parent,
        (ast.Compare, ast.BoolOp, ast.If, ast.IfExp, ast.While, ast.UnaryOp),
    )


# -- where a number would not do ----------------------------------------------


def _inexact(source: Source, names: Names, zero_dim: bool, parts: bool) -> str:
    """The first use of the names for which it matters that a tensor of one
    number is none; "" where there is none."""
    for node in source.nodes:
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        if not names.has(source, node):
            continue
        printed = any(
            isinstance(outer, ast.FormattedValue) for outer in source.up(node)
        )
        exact = _is_exact(source, node, zero_dim, parts)
        if not exact or (printed and not zero_dim):
            return shown(source, node)
    return ""


def _is_exact(
    source: Source, node: ast.AST, zero_dim: bool, parts: bool
) -> bool:
    """Whether a use gives the same, bit by bit, for numbers."""
    parent = source.parents.get(node)
    if isinstance(parent, ast.Attribute) and isinstance(
        source.parents.get(parent), ast.Call
    ):
        if parent.attr == "setdefault":  # .setdefault(k, []).append(x)
            call = source.parents[source.parents[parent]]
            return isinstance(call, ast.Attribute) and call.attr in ANY
        return parent.attr in ANY or parent.attr == "clear"
    if isinstance(parent, ast.Call):
        return name_of(parent.func) in ("heappush", "len")
    if isinstance(parent, (ast.BinOp, ast.Starred)):
        return _makes_longer(source, node, parent)
    if isinstance(parent, (ast.If, ast.While, ast.UnaryOp, ast.Delete)):
        return not isinstance(parent, ast.UnaryOp) or isinstance(
            parent.op, ast.Not
        )
    if isinstance(parent, ast.Compare):
        return all(
            isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops
        ) and all(
            one is node or (isinstance(one, ast.Constant) and not one.value)
            for one in (parent.left, *parent.comparators)
        )
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node and _all_numbers(source, parent, parts)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        if isinstance(parent.ctx, (ast.Store, ast.Del)):
            return True
        return _is_number(source, parent, parts) or _is_exact_item(
            source, parent, zero_dim, parts
        )
    return False


def _is_exact_item(
    source: Source, item: ast.AST, zero_dim: bool, parts: bool
) -> bool:
    """The same of what a subscript gives.  It is a container where it is used
    as one, unless what is kept has items as well: a tensor of shape (1,)."""
    parent = source.parents.get(item)
    return (
        zero_dim
        or (isinstance(parent, ast.Attribute) and parent.attr in _ADDS)
    ) and _is_exact(source, item, zero_dim, parts)


def _makes_longer(
    source: Source, node: ast.AST, parent: ast.BinOp | ast.Starred
) -> bool:
    """``x = x + [y]`` or ``x = [*x, y]``."""
    value: ast.AST = parent
    if isinstance(parent, ast.Starred):
        value = source.parents[parent]
    elif not isinstance(parent.right, (ast.List, ast.Tuple)):
        return False
    around = source.parents.get(value)
    return isinstance(around, ast.Assign) and any(
        name_of(target) == name_of(node) for target in around.targets
    )


def _is_number(source: Source, node: ast.AST, parts: bool) -> bool:
    """Whether it is turned into a number at once: ``float(x)``."""
    parent = source.parents.get(node)
    if isinstance(parent, ast.FormattedValue):
        # What has parts has no format of its own: it prints theirs.
        whole = parts and parent.format_spec is None
        return parent.conversion == -1 and not whole
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id in _NUMBERS
    )


def _all_numbers(
    source: Source, loop: ast.For | ast.comprehension, parts: bool
) -> bool:
    """Whether each item that a loop takes is turned into a number."""
    if not isinstance(loop.target, ast.Name):
        return False
    around = (
        source.parents[loop] if isinstance(loop, ast.comprehension) else loop
    )
    return all(
        _is_number(source, node, parts)
        for node in ast.walk(around)
        if isinstance(node, ast.Name)
        and node.id == loop.target.id
        and isinstance(node.ctx, ast.Load)
    )
