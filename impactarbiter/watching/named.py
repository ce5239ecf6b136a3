"""Objects by the name that a person types, and who holds them.

``trainer.history[0]``, ``mypackage.model.Block``: a name of the program's
main module, of any module, or of a function that runs, then attributes and
items with plain keys; ``main().trainer``, as reports have it, is a variable of
that function.  They are read where they lie: what the program would
compute by code of its own, such as a property, is refused.
"""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from ..base.errors import UsageError
from ..base.files import own_prefix
from ..model.retention import Instances, Retention
from .explain import explain
from .stored import COMPUTED, MISSING, attribute, item

_WANTED = "expected a name, attributes and items, such as trainer.history[0]"


def answer_about(expression: str) -> Retention | Instances:
    """Who holds what the expression names."""
    found: Retention | Instances = explain(resolve(expression))
    return found


def resolve(expression: str) -> Any:
    """The object; UsageError for what is no such name, or is not there."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        return _value(tree, expression)
    except (SyntaxError, ValueError):
        raise UsageError(f"{expression!r} is no name: {_WANTED}") from None
    except (RecursionError, MemoryError):
        raise UsageError(f"the name is too long: {_WANTED}") from None


def _value(node: ast.expr, expression: str) -> Any:
    if isinstance(node, ast.Name):
        return _root(node.id)
    if isinstance(node, ast.Attribute):
        module = sys.modules.get(ast.unparse(node))
        if module is not None and not _is_shadowed(node):
            return module
        if isinstance(node.value, ast.Call) and _is_bare(node.value):
            return _variable(ast.unparse(node.value.func), node.attr)
        return _attribute(node, _value(node.value, expression))
    if isinstance(node, ast.Subscript):
        return _item(node, _value(node.value, expression), expression)
    raise _no_name(expression)


def _is_bare(call: ast.Call) -> bool:
    return not call.args and not call.keywords


def _variable(function: str, name: str) -> Any:
    """One of a call that runs; nothing is called."""
    for frame in _frames():
        if frame.f_code.co_qualname == function:
            found = _local(frame, name)
            if found:
                return found[0]
    raise UsageError(
        f"{function}().{name} is not there: no call of {function} that runs"
        " has it"
    )


def _no_name(expression: str) -> UsageError:
    return UsageError(f"{expression!r} is no name: {_WANTED}")


def _attribute(node: ast.Attribute, value: Any) -> Any:
    found = attribute(value, node.attr)
    if found is COMPUTED:
        raise _computed(node)
    if found is MISSING:
        raise UsageError(
            f"{ast.unparse(node.value)} has no attribute {node.attr!r}"
        )
    return found


def _item(node: ast.Subscript, value: Any, expression: str) -> Any:
    try:
        key = ast.literal_eval(node.slice)
    except (ValueError, TypeError):
        raise _no_name(expression) from None
    found = item(value, key)
    if found is COMPUTED:
        raise _computed(node)
    if found is MISSING:
        raise UsageError(f"{ast.unparse(node)} is not there")
    return found


def _computed(node: ast.expr) -> UsageError:
    return UsageError(
        f"{ast.unparse(node)} is computed, by code that is not run: expected"
        " an attribute or item that is there"
    )


def _is_shadowed(node: ast.expr) -> bool:
    """Whether the program's main module uses the first name for its own."""
    while isinstance(node, ast.Attribute):
        node = node.value
    main = sys.modules.get("__main__")
    if not isinstance(node, ast.Name):
        return True
    value = attribute(main, node.id)
    return value is not MISSING and not issubclass(
        type(value), types.ModuleType
    )


def _root(name: str) -> Any:
    found = attribute(sys.modules.get("__main__"), name)
    if found is not MISSING and found is not COMPUTED:
        return found
    for frame in _frames():
        found = _local(frame, name)
        if found:
            return found[0]
    if name in sys.modules:
        return sys.modules[name]
    for frame in _frames():
        if name in frame.f_globals:
            return frame.f_globals[name]
    raise UsageError(
        f"{name!r} is not there: expected a name of the main module, of a"
        " module, or of a function that runs"
    )


def _frames() -> Iterator[types.FrameType]:
    """Frames of the program, each thread's innermost first."""
    for top in sys._current_frames().values():
        frame: types.FrameType | None = top
        while frame is not None:
            if not frame.f_code.co_filename.startswith(own_prefix()):
                yield frame
            frame = frame.f_back


def _local(frame: types.FrameType, name: str) -> tuple[Any] | tuple[()]:
    """A variable of a frame, if it has it.

    Before Python 3.13 reading them makes a dict that the frame keeps, and
    everything in it: it is emptied again, unless the program has it.
    """
    code = frame.f_code
    names = code.co_varnames + code.co_cellvars + code.co_freevars
    if name not in names or not code.co_flags & inspect.CO_OPTIMIZED:
        return ()
    before = set(map(id, gc.get_referents(frame)))
    variables = frame.f_locals
    found = (variables[name],) if name in variables else ()
    if sys.version_info < (3, 13) and id(variables) not in before:
        variables.clear()
    return found
