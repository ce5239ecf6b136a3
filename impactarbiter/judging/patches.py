"""Patches: the statement that grows a holder, keeping numbers or values only.

A patch is offered where the source leaves no choice: the tensor that is kept
brings a graph, or is a single number, and one expression of the statement is
what is kept: ``history.append(loss)`` becomes
``history.append(loss.item())``.  Rewriting is libcst's (extra "fix"); without
it there are no patches.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import tokenize
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..knowledge.containers import GROWING
from ..model.finding import Finding
from ..model.path import Edge
from .offer import Description, objection

if TYPE_CHECKING:
    import libcst as cst

_METHODS = frozenset().union(*GROWING.values()) - {"extend", "update"}
#: What already keeps a number, or a tensor without its graph.
_THIN = frozenset({"item", "detach", "tolist", "numpy"})
_PLAIN = frozenset({"dict", "list", "tuple", "Tensor", "Parameter"})


def with_patch(
    finding: Finding, census: Mapping[Description, int] | None
) -> Finding:
    """The finding with a unified diff, or with why there is none.

    Reads the file of ``finding.grown_at`` and nothing else; ``census`` says
    what the holder holds.  None too where that line is no longer what it was.
    """
    site, method = finding.grown_at, _method(finding)
    if site is None or method is None:
        return finding
    inner = _inside_item(finding)
    if inner is None:
        return finding
    keys = tuple(edge.text.strip("[]") for edge in inner)
    reason = objection(finding, method, keys, census)
    if reason is not None:
        return replace(finding, patch_note=reason)
    try:
        before, _encoding = read_source(site.file)
        after = rewritten(before, finding)
        made = None if after is None else diff(site.file, before, after)
    except Exception:
        # Whatever libcst makes of a program's source, the report goes on.
        return finding
    return replace(finding, patch=made)


def read_source(file: str) -> tuple[str, str]:
    """A file's text with its own line ends, and its encoding.

    Raises OSError, SyntaxError (of the encoding's name) or UnicodeError.
    """
    with open(file, "rb") as stream:
        encoding, _lines = tokenize.detect_encoding(stream.readline)
        stream.seek(0)
        return stream.read().decode(encoding), encoding


def lines_of(source: str) -> list[str]:
    """Lines with their ends, as Python counts them."""
    return list(io.StringIO(source, newline=""))


def diff(file: str, before: str, after: str) -> str:
    """A unified diff that ``patch -p1`` takes in the current folder."""
    name = os.path.relpath(file) if _is_below(file) else file.lstrip("/")
    return "".join(
        difflib.unified_diff(
            lines_of(before),
            lines_of(after),
            f"a/{name}",
            f"b/{name}",
        )
    )


def _is_below(file: str) -> bool:
    return os.path.abspath(file).startswith(os.getcwd() + os.sep)


def rewritten(source: str, finding: Finding) -> str | None:
    """The source with the finding's statement mended; None if it can't be.

    Raises ImportError without libcst, SyntaxError for what is no Python.
    """
    site, method = finding.grown_at, _method(finding)
    lines = lines_of(source)
    if (
        site is None
        or method is None
        or not 0 < site.line <= len(lines)
        or lines[site.line - 1].strip() != site.source.strip()
    ):
        return None
    inner = _inside_item(finding)
    return (
        None if inner is None else _rewrite(source, site.line, method, inner)
    )


def _method(finding: Finding) -> str | None:
    """What takes the number, or the value without its graph."""
    shapes = [t.shape for t in finding.tensors]
    if shapes and all(
        s is not None and all(n == 1 for n in s) for s in shapes
    ):
        return "item"
    return "detach" if finding.graph is not None else None


def _inside_item(finding: Finding) -> list[Edge] | None:
    """Edges from an item of the holder to the tensor; None: through more
    than plain data, or through the graph."""
    below = list(finding.below_holder)
    if finding.holder is not None and finding.holder.length is not None:
        below = below[1:]
    if any(edge.type not in _PLAIN or "[" not in edge.text for edge in below):
        return None
    return below


# -- libcst -------------------------------------------------------------------


def _rewrite(
    source: str, line: int, method: str, inner: list[Edge]
) -> str | None:
    import libcst as cst
    from libcst.metadata import MetadataWrapper, PositionProvider

    class Rewriter(cst.CSTTransformer):
        """Changes the one statement that starts on the line."""

        METADATA_DEPENDENCIES = (PositionProvider,)
        changed = 0

        def is_here(self, node: cst.CSTNode) -> bool:
            where = self.get_metadata(PositionProvider, node)
            return bool(where.start.line == line)

        def thin(self, value: cst.BaseExpression) -> cst.BaseExpression:
            new = _thinned(value, method, inner)
            self.changed += new is not None
            return value if new is None else new

        def leave_Expr(self, old: cst.Expr, new: cst.Expr) -> cst.Expr:
            call = new.value
            if not self.is_here(old) or not _adds(call):
                return new
            assert isinstance(call, cst.Call)
            last = call.args[-1].with_changes(
                value=self.thin(call.args[-1].value)
            )
            return new.with_changes(
                value=call.with_changes(args=[*call.args[:-1], last])
            )

        def leave_Assign(self, old: cst.Assign, new: cst.Assign) -> cst.Assign:
            if not self.is_here(old):
                return new
            return new.with_changes(value=self.thin(new.value))

        def leave_AugAssign(
            self, old: cst.AugAssign, new: cst.AugAssign
        ) -> cst.AugAssign:
            if not self.is_here(old):
                return new
            return new.with_changes(value=self.thin(new.value))

    try:
        tree = MetadataWrapper(cst.parse_module(source))
    except cst.ParserSyntaxError as error:
        raise SyntaxError(str(error)) from None
    rewriter = Rewriter()
    made = tree.visit(rewriter)
    return made.code if rewriter.changed == 1 else None


def _adds(call: cst.BaseExpression) -> bool:
    """Whether this is a call such as ``history.append(x)``."""
    import libcst as cst

    return (
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value in _METHODS
        and len(call.args) > 0
        and not call.args[-1].star
    )


def _thinned(
    value: cst.BaseExpression, method: str, inner: list[Edge]
) -> cst.BaseExpression | None:
    """The expression that keeps less, None where it is not plain."""
    import libcst as cst

    if isinstance(value, (cst.Dict, cst.Tuple, cst.List)):
        return _thinned_element(value, method, inner)
    if inner or isinstance(value, (cst.Lambda, cst.BaseComp, cst.BaseString)):
        return None
    if (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in _THIN
    ):
        return None
    primary = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
    if not isinstance(value, primary) and not value.lpar:
        value = value.with_changes(
            lpar=[cst.LeftParen()], rpar=[cst.RightParen()]
        )
    return cst.Call(cst.Attribute(value, cst.Name(method)))


def _thinned_element(
    value: cst.Dict | cst.Tuple | cst.List, method: str, inner: list[Edge]
) -> cst.BaseExpression | None:
    """``{"loss": loss}`` with its one element that leads to the tensor."""
    if not inner:
        return None
    elements = list(value.elements)
    key = inner[0].text.strip("[]")
    for at, element in enumerate(elements):
        if _key_of(element, at) != key:
            continue
        new = _thinned(element.value, method, inner[1:])
        if new is None:
            return None
        elements[at] = element.with_changes(value=new)
        return value.with_changes(elements=elements)
    return None


def _key_of(element: object, at: int) -> str | None:
    import libcst as cst

    if isinstance(element, cst.Element):
        return str(at)
    if isinstance(element, cst.DictElement) and isinstance(
        element.key, cst.SimpleString
    ):
        return re.sub(r'^"(.*)"$', r"'\1'", element.key.value)
    return None
