"""What is asked of the very tensor that a statement keeps, by whatever name.

``flow`` follows what is computed of a value as well; here only what may be
the same object, have it, or show its memory is followed: to what it is used
for, and back to what else the value is called where it comes from.  A patch
keeps another object.  So it may not be done where the object is asked for
its identity, its attributes or its lifetime; and a number, which shows no
memory, not where that may be written once it is kept.  A doubt counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from ..base.records import dataclass
from ..knowledge.containers import ANY
from ..knowledge.objects import (
    APART,
    ASKING,
    COLLECTING,
    FINDING,
    FRESH_METHODS,
    IN_PLACE,
    MAKING,
    MAPPINGS,
    MODULES,
    OF_OBJECTS,
    PASSING,
    TAKING,
    VIEWS,
    WEAK,
)
from .flow import BACKWARDS, PLAIN_CALLS, PLAIN_METHODS, Flow, is_constant
from .source_file import (
    LOOPS,
    Function,
    Names,
    Source,
    Variable,
    bare,
    defines,
    given_to,
    line_of,
    mentions,
    name_of,
    shown,
    source_of,
)

#: Where a node or value begins.
Place = tuple[int, int]

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
#: Calls that read what they are given.
_READING = (
    frozenset({"format", "isfinite", "isinf", "isnan", "scale"})
    | PLAIN_CALLS
    | PASSING
    | ANY
    | BACKWARDS
)
_ANYWHERE = ast.Pass()


@dataclass(frozen=True)
class Value:
    """An expression of a statement: where it stands in which file."""

    file: str
    start: Place
    end: Place

    @classmethod
    def of(cls, file: str, node: ast.expr) -> Value:
        """The one that a node of another parse is."""
        return cls(file, *_span(node))


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
    while True:
        objects = Objects(list(read.values()), names, plain, single=single)
        for value in values:
            objects.follow(value)
        objects.spread()
        more = {
            file: one
            for file in files
            if file not in read
            and (
                defines(file, objects.elsewhere)
                or mentions(file, objects.callers())
            )
            and (one := source_of(file))
        }
        if not more:
            return objects.asked(), objects.written()
        read |= more


class Objects(Flow):
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
        #: Whether what is unpacked just now may be an item of the holder.
        self._unpacks_items = False
        #: Functions that are given what is kept by those that call them.
        self._given: set[str] = set()
        #: By file and function: where what is kept leaves for the statement.
        self._leaves: dict[tuple[str, str], list[Place]] = {}
        #: Functions that make it, and are done with it before it is kept.
        self._makers: set[tuple[str, str]] = set()
        self._bound: dict[Variable, list[tuple[Source, ast.AST, bool]]] = {}
        for source in files:
            for node in source.nodes:
                self._note_bound(source, node)

    # -- where it comes from --------------------------------------------------

    def _note_bound(self, source: Source, node: ast.AST) -> None:
        for target, value in _bindings(node):
            for one in ast.walk(target):
                if not isinstance(getattr(one, "ctx", None), ast.Store):
                    continue
                if isinstance(one, ast.Attribute):
                    self._bind(("", one.attr), source, value)
                elif isinstance(one, ast.Name):
                    self._bind(source.variable(one), source, value)
        if not isinstance(node, ast.Call):
            return
        for function in self.callees.by_name(node) or ():
            home = self._home(function)
            for name, given in self.callees.parameters(function, node):
                parameter = home.named(function, name)
                self._bind(parameter, source, given, passed=True)
        if name_of(node.func) in self.callees.classes:
            for keyword in node.keywords:
                self._bind(("", keyword.arg or ""), source, keyword.value)

    def _bind(
        self,
        variable: Variable,
        source: Source,
        value: ast.AST,
        *,
        passed: bool = False,
    ) -> None:
        self._bound.setdefault(variable, []).append((source, value, passed))

    def _home(self, function: Function) -> Source:
        return next(one for one in self.files if function in one.scopes)

    def follow(self, value: Value) -> None:
        """To where it comes from: what else it is called there."""
        todo: list[tuple[Source, ast.AST]] = []
        for source in self.files:
            for node in source.nodes if source.file == value.file else ():
                if isinstance(node, ast.expr) and _span(node) == (
                    value.start,
                    value.end,
                ):
                    todo.append((source, node))
                    self._leave(source, node)
        known: set[ast.AST] = set()
        while todo:
            source, node = todo.pop()
            if node not in known:
                known.add(node)
                todo += self._before(source, node)

    def _leave(self, source: Source, node: ast.AST) -> None:
        where = source.file, source.scope(node)
        self._leaves.setdefault(where, []).append(_span(node)[1])

    def callers(self) -> set[str]:
        """Functions whose callers have it as well: before it is kept, or as
        what the call gives."""
        keep = {scope.rpartition(".")[2] for _file, scope in self._leaves}
        return self._given | (keep & self.returns.keys())

    def _before(
        self, source: Source, node: ast.AST
    ) -> Iterable[tuple[Source, ast.AST]]:
        """Expressions that the value of one may come from."""
        if isinstance(node, ast.Name):
            return self._values_of(source.variable(node))
        if isinstance(node, ast.Attribute):
            if node.attr in VIEWS:
                return [(source, node.value)]
            if source.is_option(node):
                return []
            got = list(self._values_of(("", node.attr)))
            if node.attr in self.callees.properties:
                got += self._given_by(self.callees.named[node.attr])
            return got
        if isinstance(node, ast.Call):
            return self._made_by(source, node)
        if isinstance(node, (ast.DictComp, ast.Subscript)):
            return [(source, node.value)]
        if isinstance(node, ast.IfExp):
            return [(source, node.body), (source, node.orelse)]
        if isinstance(node, ast.Dict):
            return [(source, one) for one in node.values]
        if isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp)):
            return []
        children = ast.iter_child_nodes(node)
        return [(source, c) for c in children if isinstance(c, ast.expr)]

    def _values_of(
        self, variable: Variable
    ) -> Iterator[tuple[Source, ast.AST]]:
        self.reached.setdefault(variable, []).append(_ANYWHERE)
        bound = self._bound.get(variable, [])
        scope = variable[0].rpartition(".")[2]
        if all(passed for *_value, passed in bound):  # by its callers
            self._given |= {scope} - {"", "lambda", "module"}
        for source, value, passed in bound:
            if passed:
                self._leave(source, value)
            yield source, value

    def _made_by(
        self, source: Source, call: ast.Call
    ) -> Iterable[tuple[Source, ast.AST]]:
        name = name_of(call.func)
        functions = self.callees.by_name(call)
        if name in self.callees.classes:
            made = self.callees.methods_of([name], ("__new__", "__init__"))
            if self._is_tensor_class(name):
                for one in made:
                    first = next(iter(one.args.args), None)
                    if first is not None:
                        self._reach_parameter(one, first.arg)
            return self._given_by(made)
        if functions is not None:
            return self._given_by(functions)
        given = given_to(call) if name in PASSING | VIEWS else []
        if isinstance(call.func, ast.Attribute) and (
            name in VIEWS | TAKING or _is_in_place(name)
        ):
            given = [*given, call.func.value]
        got: list[tuple[Source, ast.AST]] = [(source, one) for one in given]
        if self.callees.is_variable(source, call.func):
            got += self._given_by(self.callees.by_value(source, call))
        self.elsewhere |= {name} - {""}
        return got

    def _given_by(
        self, functions: Iterable[Function]
    ) -> list[tuple[Source, ast.AST]]:
        return [
            (home, one)
            for function in functions
            for home in [self._home(function)]
            for one in self._parts_given(home, function)
        ]

    def _parts_given(
        self, home: Source, function: Function
    ) -> Sequence[ast.AST]:
        if isinstance(function, ast.Lambda):
            return [function.body]
        scope = home.scope(function)
        parts = [
            one
            for one in ast.walk(function)
            if isinstance(one, (ast.Return, ast.Yield, ast.YieldFrom))
            and one.value is not None
            and home.scope(one) == scope
        ]
        if all(isinstance(one, ast.Return) for one in parts):
            self._makers.add((home.file, scope))
        return parts

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
            if _is_of_module(call.func):
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
        if isinstance(node, ast.AugAssign):
            if self._is_container(source, node.value) and (
                self._holds(source, node.value)
            ):
                self._reach(source, node.target)
            return
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._unpacks_items = self._may_be_items(source, node.iter)
            if self._goes_apart(source, node.target, node.iter):
                return
        else:
            value = getattr(node, "value", None)
            self._unpacks_items = self._may_be_items(source, value)
        super()._spread(source, node)

    def _goes_apart(
        self, source: Source, target: ast.expr, iterated: ast.expr
    ) -> bool:
        """Whether each turn's values are known to come from different places;
        those that may be it are reached."""
        if not isinstance(target, (ast.List, ast.Tuple)):
            return self._is_mapping(source, iterated)  # its keys
        sides = _sides_of(iterated, len(target.elts))
        for part, values in zip(target.elts, sides, strict=False):
            apart = len(values) == 1 and self._goes_apart(
                source, part, values[0]
            )
            if not apart and self._any(source, values):
                self._reach(source, part)
        return bool(sides)

    def _reach(self, source: Source, target: ast.AST) -> None:
        if not (
            isinstance(target, (ast.Tuple, ast.List))
            and self.plain
            and self._unpacks_items
        ):
            super()._reach(source, target)
            return
        for at, one in enumerate(target.elts):
            if str(at) not in self.plain:
                super()._reach(source, one)

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

    def _is_tensor_class(self, name: str) -> bool:
        bases = self.callees.line_of([name])
        return any("Tensor" in one or one == "Parameter" for one in bases)

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
        variable: Variable | None = None
        if isinstance(node, ast.Attribute):
            variable = ("", node.attr)
        elif isinstance(node, ast.Name):
            variable = source.variable(node)
        elif isinstance(node, ast.expr):
            return [node]
        values = self.callees.values.get(variable, []) if variable else []
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
        if node.attr in OF_OBJECTS:
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
        if name in COLLECTING or name == "deepcopy":
            return self._holds(source, first)
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

    # -- where its memory is written ------------------------------------------

    def written(self) -> str:
        """Where what is kept may be changed in place once it is; ""
        nowhere."""
        for source in self.files:
            for node in source.nodes:
                what = self._changed_by(source, node)
                if what is not None and self._is_later(source, node, what):
                    return shown(source, node)
        return ""

    def _changed_by(self, source: Source, node: ast.AST) -> ast.AST | None:
        """The expression of it that a node changes, or may."""
        changed: list[ast.AST] = []
        if isinstance(node, ast.AugAssign):
            changed = [bare(node.target)]
        elif isinstance(node, ast.Subscript):
            if isinstance(node.ctx, ast.Store):
                changed = [node.value]
        elif isinstance(node, ast.Attribute):
            if _is_in_place(node.attr):
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
        if _is_in_place(name) or _is_told_to_change(call):
            return given
        if _is_of_module(call.func):
            return [k.value for k in call.keywords if k.arg == "out"]
        return [] if name in _READING else list(given_to(call))

    def _is_later(self, source: Source, node: ast.AST, what: ast.AST) -> bool:
        """Whether it may come after what is kept was."""
        where = source.file, source.scope(node)
        root = _root(what)
        if where in self._leaves:
            here = _span(node)[0]
            if any(here >= place for place in self._leaves[where]):
                return True
        elif (
            where not in self._makers
            or not isinstance(root, ast.Name)
            or source.variable(root)[0] != where[1]
        ):
            return True
        return not _is_anew(source, node, ast.unparse(root))


def _bindings(node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Targets, and what they are set to or get of."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return [(node.target, node.value)] if node.value is not None else []
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        return [(node.target, node.iter)]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [(node.optional_vars, node.context_expr)]
    return []


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


def _span(node: ast.AST) -> tuple[Place, Place]:
    start = line_of(node), getattr(node, "col_offset", 0)
    end = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
    return start, end


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


def _is_of_module(func: ast.expr) -> bool:
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


def _is_told_to_change(call: ast.Call) -> bool:
    """Whether it may be to change what it is given first."""
    return any(
        keyword.arg == "inplace"
        and getattr(keyword.value, "value", True) is not False
        for keyword in call.keywords
    )


def _is_in_place(name: str) -> bool:
    """``add_``, ``__iadd__``, ``__setitem__``."""
    if name.startswith("__"):
        return name in IN_PLACE
    return name.endswith("_") and name != "requires_grad_"


def _is_anew(source: Source, node: ast.AST, code: str) -> bool:
    """Whether a loop around what changes it gives the name another value in
    each turn, or there is no loop: it was changed before it was kept."""
    loops = [one for one in source.up(node) if isinstance(one, LOOPS)]
    return not loops or any(
        code == ast.unparse(part)
        for one in ast.walk(loops[0])
        if not isinstance(one, ast.comprehension)
        for target, _value in _bindings(one)
        for part in ast.walk(target)
        if isinstance(getattr(part, "ctx", None), ast.Store)
    )
