"""What may be kept: rules for findings, blocks, and objects."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..base.errors import UsageError
from ..base.signals import Tolerated
from ..core import hooks

if TYPE_CHECKING:
    from ..model.finding import Finding

#: A glob over a site or a path, a type of holder, or a predicate.
AllowRule = str | type | Callable[["Finding"], bool]

_labels: list[str] = [""]


@contextmanager
def allow(name: str) -> Iterator[None]:
    """Storages born inside, on this thread, are kept on purpose.

    ``name`` says why, for the report.  Up to 65,535 names are told apart.
    """
    before = hooks.set_allowed(_label(name))
    try:
        yield
    finally:
        hooks.set_allowed(before)


def _label(name: str) -> int:
    if not isinstance(name, str) or not name:
        raise UsageError(f"allow({name!r}): expected a name that says why")
    if name not in _labels:
        if len(_labels) > 0xFFFF:
            return 1
        _labels.append(name)
    return _labels.index(name)


# -- objects ---------------------------------------------------------------


#: By address; None where its type knows no weak reference (a list, a dict):
#: the core knows whether another object has its place.
_objects: dict[int, weakref.ref[object] | None] = {}


def allow_object(obj: object) -> None:
    """What this object holds, itself or deeper, is kept on purpose."""
    try:
        _objects[id(obj)] = weakref.ref(obj)
    except TypeError:
        hooks.note_same(obj)
        _objects[id(obj)] = None


def is_allowed_object(addresses: Sequence[int]) -> bool:
    """Whether one of these, alive, was allowed."""
    return any(map(_is_allowed, addresses))


def _is_allowed(address: int) -> bool:
    if address not in _objects:
        return False
    reference = _objects[address]
    if reference is None:
        stands = hooks.still_stands(address)
    else:
        stands = reference() is not None
    if not stands:
        del _objects[address]
    return stands


# -- rules -----------------------------------------------------------------


class AllowList:
    """The ``allow`` rules of one arbiter, and whether each ever matched."""

    def __init__(self, rules: Sequence[AllowRule] = ()) -> None:
        if isinstance(rules, (str, type)) or callable(rules):
            rules = (rules,)
        if not isinstance(rules, Iterable):
            raise UsageError(
                f"allow is {rules!r}: expected globs, types or functions of a"
                " finding"
            )
        self._rules = tuple(rules)
        for rule in self._rules:
            if not isinstance(rule, str) and not callable(rule):
                raise UsageError(
                    f"allow has {rule!r}: expected a glob, a type or a"
                    " function of a finding"
                )
        self._used = [False] * len(self._rules)
        #: AllowRule -> what it raised when it was asked last.
        self.failed: dict[str, str] = {}

    def covers(self, finding: Finding, types: Sequence[str] = ()) -> bool:
        """Whether a rule allows this finding.

        ``types`` are the names of the types on its path.  A function that
        raises allows nothing; the report says so.
        """
        found = False
        for i, rule in enumerate(self._rules):
            with Tolerated() as failure:
                if _matches(rule, finding, types):
                    self._used[i] = found = True
            if failure.error is not None:
                self.failed[_describe(rule)] = failure.said
        return found

    def allows(self, owners: Sequence[int], finding: Finding) -> bool:
        """Whether a rule allows it, or one of its objects is allowed."""
        edges = finding.path.edges if finding.path is not None else ()
        return is_allowed_object(owners) or self.covers(
            finding, [edge.type for edge in edges]
        )

    def warnings(self) -> Iterator[str]:
        """Rules that raised, or have matched nothing so far."""
        for said, error in self.failed.items():
            yield f"allow rule {said} raised {error}"
        for rule, used in zip(self._rules, self._used, strict=True):
            if not used:
                yield f"allow rule {_describe(rule)} matched nothing"


def _matches(rule: AllowRule, finding: Finding, types: Sequence[str]) -> bool:
    if isinstance(rule, type):
        return rule.__name__ in types
    if isinstance(rule, str):
        return _glob(rule, finding)
    return bool(hooks.call_theirs(rule, finding))


def _glob(rule: str, finding: Finding) -> bool:
    for held in (finding.path, finding.holder):
        # As a report has it, too: to a glob, [0] is the character 0.
        if held is not None and (
            rule == held.expression or fnmatchcase(held.expression, rule)
        ):
            return True
    for site in (finding.allocated_at, finding.grown_at):
        if site is None:
            continue
        file = site.file.replace(os.sep, "/")
        names = (site.function, site.function.rpartition(".")[2], site.line)
        for name in names:
            if fnmatchcase(f"{file}:{name}", rule) or fnmatchcase(
                f"{os.path.basename(file)}:{name}", rule
            ):
                return True
    return False


def _describe(rule: AllowRule) -> str:
    if isinstance(rule, str):
        return repr(rule)
    return getattr(rule, "__qualname__", None) or type(rule).__name__
