"""Options of a command: ``--name value``, ``--name=value``, flags.

Parsing ends at the first argument that is no option, so that everything
after a script's name belongs to the script.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from ..base.errors import UsageError
from ..base.records import dataclass
from ..reports.text import Detail


@dataclass(frozen=True)
class Option:
    """``convert`` makes a value of the text; None: a flag without value.

    ``optional``: it may be left out; a word that this accepts is one.
    """

    convert: Callable[[str], Any] | None = None
    many: bool = False
    optional: Callable[[str], bool] | None = None


#: How much is said; every command that shows a report takes these.
QUIET = {
    "--quiet": Option(),
    "-q": Option(),
    "--verbose": Option(),
    "-v": Option(),
}


def detail(given: dict[str, Any]) -> Detail:
    """How much is asked for."""
    if "-q" in given or "--quiet" in given:
        return "short"
    return "full" if "-v" in given or "--verbose" in given else "usual"


def parse(
    command: str,
    table: dict[str, Option],
    args: list[str],
    stop_at: tuple[str, ...] = (),
    interleave: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """(values by option name, what is left); UsageError for the unknown.

    An argument in ``stop_at`` ends the options and is left; ``--`` ends
    them and is dropped.  With ``interleave`` options may also follow the
    other arguments.
    """
    values: dict[str, Any] = {}
    left: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        if word in stop_at or word == "--":
            left += args[at + (word == "--") :]
            break
        if not word.startswith("-") or word == "-":
            if not interleave:
                left += args[at:]
                break
            left.append(word)
            at += 1
            continue
        name, equals, text = word.partition("=")
        option = table.get(name)
        if option is None:
            raise UsageError(_unknown(command, table, name))
        at += 1
        if option.convert is None:
            if equals:
                raise UsageError(f"{name} takes no value: expected {name}")
            values[name] = True
            continue
        if not equals and not _follows(option, args[at:]):
            values[name] = None
            continue
        if not equals:
            if at == len(args):
                raise UsageError(f"{name} needs a value: {_see(command)}")
            text = args[at]
            at += 1
        _store(values, name, option, text)
    return values, left


def _follows(option: Option, words: list[str]) -> bool:
    """Whether the option's value is the next word, or has to be."""
    if option.optional is None:
        return True
    return bool(words) and option.optional(words[0])


def _store(
    values: dict[str, Any], name: str, option: Option, text: str
) -> None:
    assert option.convert is not None
    try:
        value = option.convert(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    if option.many:
        values.setdefault(name, []).append(value)
    else:
        values[name] = value


def _unknown(command: str, table: dict[str, Option], name: str) -> str:
    close = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"unknown option {name} of `{command}`; {hint}{_see(command)}"


def _see(command: str) -> str:
    return f"see `impactarbiter {command} --help`"
