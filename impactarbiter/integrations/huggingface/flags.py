"""``--detect_memory_leaks`` and its kin: options that no script declares.

The launcher takes them out of a script's arguments and keeps them here; a
script that trains with the Hugging Face Trainer gets them as fields of its
TrainingArguments, with what was asked for as their defaults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any

from ...base.errors import UsageError

DETECT = "detect_memory_leaks"
EVERY = "detect_memory_leaks_every"
REPORT = "memory_leak_report"

#: Modules that start a script in processes of their own: its arguments are
#: theirs to hand on.
_STARTERS = frozenset(
    {
        "accelerate.commands.accelerate_cli",
        "accelerate.commands.launch",
        "deepspeed.launcher.runner",
        "torch.distributed.launch",
        "torch.distributed.run",
    }
)
_WORDS = {
    **dict.fromkeys(("yes", "true", "t", "y", "1"), True),
    **dict.fromkeys(("no", "false", "f", "n", "0"), False),
}


@dataclass(frozen=True)
class Request:
    """What the command line asked for; None where it is silent."""

    detect: bool | None = None
    every: int | None = None
    report: str | None = None


#: What the launcher found on the command line of this process.
request = Request()


def take_out(
    args: list[str], keep: Container[str] = ()
) -> tuple[Request, list[str]]:
    """(what our options ask for, the other arguments).

    Knows ``--name value``, ``--name=value`` and hyphens for underscores, up
    to a bare ``--``; options in ``keep`` are left.  Raises UsageError for a
    value that cannot be.
    """
    asked = Request()
    left: list[str] = []
    at = 0
    while at < len(args) and args[at] != "--":
        word, equals, text = args[at].partition("=")
        name = word.removeprefix("--").replace("-", "_")
        ours = word.startswith("--") and name in (DETECT, EVERY, REPORT)
        at += 1
        if not ours or word in keep:
            left.append(args[at - 1])
            continue
        value = text if equals else None
        follows = args[at] if at < len(args) else None
        if value is None and _belongs(name, follows):
            value = follows
            at += 1
        asked = _with(asked, name, value)
    return asked, left + args[at:]


def _belongs(name: str, follows: str | None) -> bool:
    """Whether the next argument is this option's value."""
    if follows is None:
        return False
    return name != DETECT or follows.lower() in _WORDS


def _with(asked: Request, name: str, value: str | None) -> Request:
    from ...commands.options import filename, whole

    if name == DETECT:
        wanted = _WORDS.get((value or "true").lower())
        if wanted is None:
            raise UsageError(
                f"--{DETECT} is {value!r}: expected true or false, or nothing"
            )
        return replace(asked, detect=wanted)
    if value is None:
        raise UsageError(f"--{name} needs a value")
    try:
        if name == EVERY:
            return replace(asked, every=whole(1)(value))
        return replace(asked, report=filename(value))
    except UsageError as error:
        raise UsageError(f"--{name}: {error}") from None


def adopt(target: list[str], given: dict[str, Any]) -> list[str]:
    """For the launcher: the target without what its script does not know.

    ``target`` is a script or ``-m`` and a module, with its arguments;
    ``given`` are the launcher's options, to which ours are added where they
    say the same.  Makes the Trainer and argparse know of them.
    """
    global request
    from . import import_hook

    head = 2 if target[:1] == ["-m"] else 1
    if target[:1] == ["-m"] and target[1:2] and target[1] in _STARTERS:
        return target
    import_hook.install()
    args = target[head:]
    request, left = take_out(args)
    if request.every is not None:
        given.setdefault("--every", request.every)
    if request.report is not None:
        given.setdefault(_option_for(request.report), request.report)
    if len(left) < len(args):
        _give_back(args, left)
    return target[:head] + left


def _option_for(path: str) -> str:
    """The launcher's option that writes such a file."""
    from ...commands.run import OUTPUTS
    from ..session import writer_of

    method = writer_of(path)
    return next(option for option, of in OUTPUTS.items() if of == method)


def _give_back(args: list[str], left: list[str]) -> None:
    """A parser that declares one of our options itself gets it after all."""
    plain = argparse.ArgumentParser.parse_known_args

    def parse_known_args(
        self: argparse.ArgumentParser,
        given: Any = None,
        *rest: Any,
        **more: Any,
    ) -> Any:
        given = more.pop("args", given)
        known = self._option_string_actions
        if given is None and sys.argv[1:] == left:
            given = take_out(args, keep=known)[1]
        return plain(self, given, *rest, **more)

    argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign,assignment]
