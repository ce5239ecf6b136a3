"""For the launcher: arguments that the script does not know become ours."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ...reports.outputs import OUTPUTS, writer_of
from . import flags, import_hook


def adopt(target: list[str], given: dict[str, Any]) -> list[str]:
    """For the launcher: the target without what its script does not know.

    ``target`` is a script or ``-m`` and a module, with its arguments;
    ``given`` are the launcher's options, to which ours are added where they
    say the same.  Makes the Trainer and argparse know of them.
    """
    head = 2 if target[:1] == ["-m"] else 1
    if target[:1] == ["-m"] and target[1:2] and target[1] in flags.STARTERS:
        return target
    import_hook.install()
    args = target[head:]
    asked, left = flags.take_out(args)
    flags.request = asked
    if asked.every is not None:
        given.setdefault("--every", asked.every)
    if asked.report is not None:
        given.setdefault(_option_for(asked.report), asked.report)
    if len(left) < len(args):
        _give_back(args, left)
    return target[:head] + left


def _option_for(path: str) -> str:
    """The launcher's option that writes such a file."""
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
            given = flags.take_out(args, keep=known)[1]
        return plain(self, given, *rest, **more)

    argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign,assignment]
