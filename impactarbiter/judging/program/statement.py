"""The statement that may grow a holder, found in the user's source: a guess.

The holder's expression ends in a name (``trainer.history``): a statement
that adds to something of that name is a candidate.  One candidate is an
answer, several are none.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from ...base.files import own_prefix
from ...base.imports import names_of
from ...core.ledger import is_library
from ...core.sources import site_at
from ...knowledge.containers import ANY, GROWING, MAPPINGS, REMOVING, VALUES
from ...model.finding import Cycle, Finding, Site
from .source_file import (
    FUNCTIONS,
    Names,
    Source,
    bare,
    code_of,
    given_to,
    name_of,
    own_of_method,
    parsed,
)
from .unparsed import defines, mentions

#: User modules whose source is searched.
MOST_FILES = 200

_LAST_NAME = re.compile(r"\.?<?(?:closure>\.|locals>\.)?(\w+)$")
_SUBSCRIPTS = re.compile(r"(\[[^\[\]]*\])+$")


def maybe_grown_at(finding: Finding) -> Site | None:
    """A guess, by name, at where the holder grows; None without one."""
    found = _all_candidates(finding)
    here = finding.allocated_at
    near = {(f.file, _last(f.function)) for f in finding.stack}
    for chosen in (
        [s for s in found if (s.file, s.line) == (here.file, here.line)],
        found,
        [s for s in found if (s.file, _last(s.function)) in near],
    ):
        if len(chosen) == 1:
            return chosen[0]
    if finding.cycle is not None and not found:
        return _closes(finding, finding.cycle)
    return None


def remakes(finding: Finding, seen: Site | None) -> bool:
    """Whether the holder's value is made from the one before it.

    ``seen`` is the statement that was seen to grow it, if one was.
    """
    if seen is None:
        return maybe_grown_at(finding) is not None
    return _renews_from_before(seen.file, seen.line) or any(
        (s.file, s.line) == (seen.file, seen.line)
        for s in _all_candidates(finding)
    )


#: Variables that lead from what a statement puts somewhere to what was there.
MOST_VARIABLES = 3


@lru_cache(maxsize=256)
def _renews_from_before(file: str, line: int) -> bool:
    """Whether a statement there reads what it replaces, by whatever name:
    ``setattr(self, name, torch.cat([getattr(self, name), x]))``."""
    source = parsed(file)
    if source is None:
        return False
    return any(
        _makes(source, value, place, MOST_VARIABLES)
        for node in source.nodes
        if isinstance(node, (ast.Expr, ast.Assign))
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        for place, value in _replaced(node)
    )


def _replaced(node: ast.Expr | ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """Where a statement puts something, as it would be read, and what."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield code_of(target), node.value
    elif isinstance(node.value, ast.Call):
        call = node.value
        if name_of(call.func) == "setattr" and len(call.args) == 3:
            owner, name, value = call.args
            yield _attribute(owner, name), value


def _attribute(owner: ast.expr, name: ast.expr) -> str:
    """``self.keys``, by a name that the source has or one that is made up."""
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return f"{code_of(owner)}.{name.value}"
    return f"getattr({code_of(owner)}, {code_of(name)})"


def _makes(source: Source, value: ast.expr, place: str, steps: int) -> bool:
    """Whether something is made from what stands there: what is read and put
    back is what it was."""
    if isinstance(value, ast.Name):
        return steps > 0 and any(
            _makes(source, made, place, steps - 1)
            for made in _values_of(source, value)
        )
    return not _is_moved(value) and _reads(source, value, place, steps)


def _reads(source: Source, value: ast.expr, place: str, steps: int) -> bool:
    """Whether what stands there is read for a value, by way of at most so
    many variables of its function."""
    for node in ast.walk(value):
        read = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        if read and code_of(node) == place:
            return True
        if (
            isinstance(node, ast.Call)
            and name_of(node.func) == "getattr"
            and len(node.args) > 1
            and _attribute(node.args[0], node.args[1]) == place
        ):
            return True
        if (
            steps
            and isinstance(node, ast.Name)
            and any(
                _reads(source, made, place, steps - 1)
                for made in _values_of(source, node)
            )
        ):
            return True
    return False


def _values_of(source: Source, name: ast.Name) -> Iterator[ast.expr]:
    """What a variable is set to, in the function that it stands in."""
    variable = source.variable(name)
    for node in source.nodes:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name)
            and source.variable(target) == variable
            for target in node.targets
        ):
            yield node.value


def _last(function: str) -> str:
    return function.rpartition(".")[2]


def _closes(finding: Finding, cycle: Cycle) -> Site | None:
    """Where a cycle is closed: the one statement that may have set, or filled,
    the last attribute on it."""
    edges = cycle.path.edges
    named = [i for i, edge in enumerate(edges) if edge.kind == "attribute"]
    if not named:
        return None
    # Before the first edge stands what the last one leads to.
    name, owner = edges[named[-1]].name, edges[named[-1] - 1].type
    files = user_files(finding)
    line = _line_of(owner, files)
    found = [
        one
        for file in files
        if mentions(file, (name,))
        for one in _setting(file, name, line)
    ]
    site, is_new = found[0] if len(found) == 1 else (None, False)
    return None if is_new else site


def _line_of(name: str, files: Iterable[str]) -> frozenset[str]:
    """A class, and those that it derives from as far as the files say."""
    files, line, todo = list(files), set(), [name]
    while todo:
        one = todo.pop()
        if one not in line:
            line.add(one)
            todo += [
                name_of(base)
                for file in files
                if defines(file, (one,)) and (source := parsed(file))
                for node in source.nodes
                if isinstance(node, ast.ClassDef) and node.name == one
                for base in node.bases
            ]
    return frozenset(line)


def _all_candidates(finding: Finding) -> list[Site]:
    if finding.holder is None:
        return []
    name = last_name(finding.holder.expression)
    if name is None:
        return []
    kind = finding.holder.type
    return [
        site
        for file in user_files(finding)
        if mentions(file, (name,))
        for site in _candidates(file, name, kind)
    ]


def last_name(expression: str) -> str | None:
    """The name that an expression ends in, without its subscripts."""
    text = _SUBSCRIPTS.sub("", expression)
    match = _LAST_NAME.search(text)
    return match.group(1) if match else None


def name_of_holder(finding: Finding) -> str:
    """Its last name, "" where it has none."""
    holder = finding.holder
    return (last_name(holder.expression) if holder else None) or ""


def names_of_holder(finding: Finding) -> Names:
    """What the program calls a holder: a variable, or an attribute."""
    name = name_of_holder(finding)
    if finding.path is None or not name:
        return Names()
    edges = list(finding.path.edges[: finding.holder_depth])
    while edges and edges[-1].is_item:
        edges.pop()
    if len(edges) > 1 and "<" not in edges[-1].text:
        return Names(attributes=frozenset({name}))
    root = finding.path.root
    if root.endswith("()"):
        function = root[:-2].rpartition(".")[2]
        return Names(variables=frozenset({(function, name)}))
    if root == "__main__":
        return Names(variables=frozenset({("module", name)}))
    return Names(frozenset({name}), frozenset({("", name)}))


def user_files(finding: Finding) -> list[str]:
    """Source files of the user's code, those on the stack first."""
    files = dict.fromkeys(f.file for f in finding.stack)
    for module in list(sys.modules.values()):
        file = names_of(module).get("__file__")
        if type(file) is str and file.endswith(".py"):
            files[file] = None
    own = own_prefix()
    user = [
        f for f in files if f and not f.startswith(own) and not is_library(f)
    ]
    return user[:MOST_FILES]


@lru_cache(maxsize=256)
def _candidates(file: str, name: str, kind: str) -> tuple[Site, ...]:
    source = parsed(file)
    if source is None:
        return ()
    return tuple(
        site_at(file, node.lineno, _function(source, node))
        for node in source.nodes
        if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign))
        and name in _grown_names(node, kind)
    )


@lru_cache(maxsize=256)
def _setting(
    file: str, name: str, line: frozenset[str]
) -> tuple[tuple[Site, bool], ...]:
    """Statements that put something into an attribute of an object of one of
    the classes, or into what that has; and whether it is a new object."""
    source = parsed(file)
    if source is None:
        return ()
    found = {
        statement.lineno: statement
        for node in source.nodes
        if _sets(source, node, name, line)
        if (statement := _statement(source, node)) is not None
    }
    return tuple(
        (site_at(file, at, _function(source, one)), _makes_new(one))
        for at, one in found.items()
    )


def _makes_new(statement: ast.stmt) -> bool:
    """``self.child = Child()``: what is given nothing leads to nothing yet."""
    value = getattr(statement, "value", None)
    return (
        isinstance(statement, (ast.Assign, ast.AnnAssign))
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and not given_to(value)
    )


def _sets(
    source: Source, node: ast.AST, name: str, line: frozenset[str]
) -> bool:
    """Whether it sets the attribute to what may lead anywhere: to no constant,
    nor to a container that has nothing yet."""
    if isinstance(node, ast.Call):
        if name_of(node.func) in ("setattr", "__setattr__"):
            named = [o for o in node.args if isinstance(o, ast.Constant)]
            return any(one.value == name for one in named) and (
                _may_be_of(source, node.args[0], line)
            )
        return name in _grown_by(node, ANY)
    if not isinstance(node, ast.Attribute) or node.attr != name:
        return False
    by = source.parents.get(node)
    if isinstance(by, (ast.Assign, ast.AnnAssign)) and (
        by.value is None or _is_bare(by.value)
    ):
        return False
    return isinstance(node.ctx, ast.Store) and (
        _may_be_of(source, node.value, line)
    )


def _may_be_of(source: Source, value: ast.expr, line: frozenset[str]) -> bool:
    """Whether it may be an object of one of the classes: not a method's own
    object, where another class defines the method."""
    method = source.function(value)
    of, own = own_of_method(source, method)
    return (
        method is None
        or not own
        or "staticmethod" in map(name_of, method.decorator_list)
        or name_of(value) != own
        or of in line
    )


def _statement(source: Source, node: ast.AST) -> ast.stmt | None:
    return next((o for o in source.up(node) if isinstance(o, ast.stmt)), None)


def _is_bare(value: ast.expr) -> bool:
    """Whether it leads to nothing yet: a constant, an empty container."""
    if isinstance(value, ast.Call):
        kinds = [value.func, *given_to(value)]
        return all(name_of(one) in GROWING for one in kinds)
    return not any(
        isinstance(part, (ast.Name, ast.Attribute, ast.Call))
        for part in ast.walk(value)
    )


def _function(source: Source, node: ast.AST) -> str:
    """The function that it stands in, named as Python names one."""
    names: list[str] = []
    for outer in source.up(node):
        if isinstance(outer, (*FUNCTIONS, ast.ClassDef)):
            if names and isinstance(outer, FUNCTIONS):
                names.append("<locals>")
            names.append(outer.name)
    return ".".join(reversed(names)) or "<module>"


def _grown_names(node: ast.stmt, kind: str) -> set[str]:
    """Names of what a statement adds to, given the holder's type."""
    if isinstance(node, ast.AugAssign):
        return _names_of(node.target)
    names = _assigned(node, kind) if isinstance(node, ast.Assign) else set()
    methods = GROWING.get(kind, ANY)
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            names |= _grown_by(call, methods)
    return names


def _grown_by(call: ast.Call, methods: Collection[str]) -> set[str]:
    """Names of what a call adds to, where these methods do."""
    func, names = call.func, _named(call)
    if isinstance(func, ast.Attribute) and func.attr in methods:
        names |= _names_of(func.value)
    return names


def _named(call: ast.Call) -> set[str]:
    """``register_buffer("mem", cat([self.mem, x]))``, ``setattr`` alike."""
    function = _names_of(call.func)
    if not function & {"register_buffer", "setattr"}:
        return set()
    texts = [
        arg.value
        for arg in call.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    used = {
        n
        for arg in call.args
        for part in ast.walk(arg)
        for n in _names_of(part)
    }
    return {text for text in texts if text in used}


def _assigned(node: ast.Assign, kind: str) -> set[str]:
    """``x[key] = ...`` adds to a dict; ``x = f(x)`` makes x longer, and
    ``x[key] = f(x[key])`` one value in it."""
    names: set[str] = set()
    used = {n for part in ast.walk(node.value) for n in _names_of(part)}
    if _is_moved(node.value):
        used.clear()
    for target in node.targets:
        if not isinstance(target, ast.Subscript):
            names |= _names_of(target) & used
        elif kind in VALUES:
            names |= _names_of(target.value) & used
        elif kind in MAPPINGS or kind not in GROWING:
            names |= _names_of(target.value)
    return names


def _is_moved(value: ast.expr) -> bool:
    """Whether it was there before: ``x[key] = x.pop(key)``."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Attribute) and (
            value.func.attr in REMOVING
        )
    return isinstance(value, (ast.Name, ast.Attribute, ast.Subscript))


def _names_of(node: ast.AST) -> set[str]:
    """The last name of an expression: ``a.b[0]`` is about ``b``."""
    return {name_of(bare(node))} - {""}
