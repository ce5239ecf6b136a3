"""Launchers of processes: having those watched that torchrun starts."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass
from typing import Any

#: Launchers whose arguments we know how to change.
_TORCHRUN = "torch.distributed.run"
#: Others -> what to type to have their processes watched.
_OTHERS = {
    "torch.distributed.launch": "torchrun ... -m impactarbiter run SCRIPT",
    "accelerate.commands.launch": (
        "accelerate launch ... -m impactarbiter run SCRIPT"
    ),
}


@dataclass(frozen=True)
class Handover:
    """Arguments for plain ``python`` in our place, and a line to say."""

    argv: list[str]
    said: str = ""


def handover(rest: list[str], options: list[str]) -> Handover | None:
    """What to become where the program is a launcher of processes.

    ``rest`` is what follows the options of ``run``, ``options`` are those.
    None: an ordinary program.
    """
    if rest[:1] == ["-m"] and len(rest) > 1:
        module, args = rest[1], rest[2:]
    elif rest and os.path.basename(rest[0]) == "torchrun":
        module, args = _TORCHRUN, rest[1:]
    else:
        return None
    if module in _OTHERS:
        return Handover(
            ["-m", module, *args],
            f"{module} starts processes of its own, which are not watched:"
            f" type `{_OTHERS[module]}` instead",
        )
    return _of_torchrun(args, options) if module == _TORCHRUN else None


def _of_torchrun(args: list[str], options: list[str]) -> Handover:
    """Has torchrun start ``impactarbiter run SCRIPT`` for each ``SCRIPT``."""
    plain = ["-m", _TORCHRUN, *args]
    known = _parsed(args)
    if known is None:
        return Handover(plain)  # its own help or complaint
    script = str(known.training_script)
    its_args = list(known.training_script_args)
    if known.module and script == "impactarbiter":
        return Handover(plain)
    if known.no_python or known.run_path:
        return Handover(
            plain,
            "torchrun's processes are not watched with --no-python or"
            " --run-path: expected a script or a module",
        )
    before = args[: len(args) - len(its_args) - 1]
    ours = ["impactarbiter", "run", *options]
    if known.module:
        ours += ["-m"]
    else:
        before += ["-m"]
    return Handover(
        ["-m", _TORCHRUN, *before, *ours, script, *its_args],
        "torchrun starts processes of its own: each of them is watched",
    )


def _parsed(args: list[str]) -> Any:
    """torchrun's arguments as its own parser reads them, None if it ends."""
    from torch.distributed.run import get_args_parser

    nowhere = io.StringIO()
    with (
        contextlib.redirect_stderr(nowhere),
        contextlib.redirect_stdout(nowhere),
        contextlib.suppress(SystemExit),
    ):
        return get_args_parser().parse_args(args)
    return None
