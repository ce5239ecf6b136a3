"""What is handed in to be analyzed, one thing after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..base.errors import WrongTypeError

_Row = TypeVar("_Row")


def rows_of(
    given: Iterable[Any], kind: str, row: Callable[[Any], _Row]
) -> Iterator[_Row]:
    """``row()`` of each; WrongTypeError where that has not what it reads.

    ``kind`` says what they are to be.
    """
    try:
        things = iter(given)
    except TypeError:
        raise _wrong(type(given).__name__, kind) from None
    for thing in things:
        try:
            made = row(thing)
        except AttributeError as error:
            found = f"a list with {type(thing).__name__} in it"
            raise _wrong(found, kind) from error
        yield made


def _wrong(found: str, kind: str) -> WrongTypeError:
    return WrongTypeError(
        f"got {found}: expected a list of {kind}, or of what has their"
        " attributes"
    )
