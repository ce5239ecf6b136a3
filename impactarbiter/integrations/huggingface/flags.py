"""``--detect_memory_leaks`` and its kin: options that no script declares.

The launcher takes them out of a script's arguments and keeps them here; a
script that trains with the Hugging Face Trainer gets them as fields of its
TrainingArguments, with what was asked for as their defaults.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from ...base.errors import UsageError
from ...base.records import dataclass

DETECT = "detect_memory_leaks"
EVERY = "detect_memory_leaks_every"
REPORT = "memory_leak_report"

#: Modules that start a script in processes of their own: its arguments are
#: theirs to hand on.
STARTERS = frozenset(
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
request: Request = Request()


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
    from ...base.convert import filename, whole

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
