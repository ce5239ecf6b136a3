"""What may be kept: rules for findings, blocks, and objects."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from .errors import UsageError
from .findings import Finding

#: A glob over a site or a path, a type of holder, or a predicate.
Rule = str | type | Callable[[Finding], bool]

_labels: list[str] = [""]


@contextmanager
def allow(name: str) -> Iterator[None]:
    """Storages born inside, on this thread, are kept on purpose.

    ``name`` says why, for the report.  Up to 65,535 names are told apart.
    """
    from . import _core

    before = _core.set_allowed(_label(name))
    try:
        yield
    finally:
        _core.set_allowed(before)


def _label(name: str) -> int:
    if not isinstance(name, str) or not name:
        raise UsageError(f"allow({name!r}): expected a name that says why")
    if name not in _labels:
        if len(_labels) > 0xFFFF:
            return 1
        _labels.append(name)
    return _labels.index(name)


# -- objects ---------------------------------------------------------------

#: id -> weak reference, or None where the type has none.
_objects: dict[int, weakref.ref[object] | None] = {}


def allow_object(obj: object) -> None:
    """What this object holds is kept on purpose.

    The object is remembered weakly; one whose type knows no weak references
    (a list, a dict) by its address, for as long as the program runs.
    """
    try:
        _objects[id(obj)] = weakref.ref(obj)
    except TypeError:
        _objects[id(obj)] = None


def is_allowed_object(address: int) -> bool:
    """Whether the object at this address was passed to ``allow_object``."""
    if address not in _objects:
        return False
    reference = _objects[address]
    return reference is None or reference() is not None


# -- rules -----------------------------------------------------------------


class AllowList:
    """The ``allow`` rules of one arbiter, and whether each ever matched."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        if isinstance(rules, (str, type)) or callable(rules):
            rules = (rules,)
        self._rules = tuple(rules)
        for rule in self._rules:
            if not isinstance(rule, str) and not callable(rule):
                raise UsageError(
                    f"allow has {rule!r}: expected a glob, a type or a"
                    " function of a finding"
                )
        self._used = [False] * len(self._rules)

    def covers(self, finding: Finding, types: Sequence[str] = ()) -> bool:
        """Whether a rule allows this finding.

        ``types`` are the names of the types on its path.
        """
        found = False
        for i, rule in enumerate(self._rules):
            if _matches(rule, finding, types):
                self._used[i] = found = True
        return found

    def dead(self) -> list[str]:
        """Rules that have matched nothing so far, in words."""
        return [
            _describe(rule)
            for rule, used in zip(self._rules, self._used, strict=True)
            if not used
        ]


def _matches(rule: Rule, finding: Finding, types: Sequence[str]) -> bool:
    if isinstance(rule, type):
        return rule.__name__ in types
    if isinstance(rule, str):
        return _glob(rule, finding)
    return bool(rule(finding))


def _glob(rule: str, finding: Finding) -> bool:
    if finding.path is not None and fnmatchcase(finding.path.expression, rule):
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


def _describe(rule: Rule) -> str:
    if isinstance(rule, str):
        return repr(rule)
    return getattr(rule, "__qualname__", None) or type(rule).__name__
