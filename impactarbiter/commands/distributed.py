"""Launchers of processes: having those watched that torchrun starts."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from typing import Any

from ..base.records import dataclass

#: Launchers whose arguments we know how to change.
_TORCHRUN = "torch.distributed.run"
_ACCELERATE = "accelerate.commands.launch"
#: Other names of theirs, and words between the name and the arguments.
_NAMES = {
    "torchrun": (_TORCHRUN, []),
    "accelerate": (_ACCELERATE, ["launch"]),
    "accelerate-launch": (_ACCELERATE, []),
}
_MODULES = {
    _TORCHRUN: (_TORCHRUN, []),
    _ACCELERATE: (_ACCELERATE, []),
    "accelerate.commands.accelerate_cli": (_ACCELERATE, ["launch"]),
}
#: Others -> what to type to have their processes watched.
_OTHERS = {
    "torch.distributed.launch": "torchrun ... -m impactarbiter run SCRIPT",
}


@dataclass(frozen=True)
class Handover:
    """Arguments for plain ``python`` in our place, and a line to say.

    ``module``: its ``main()`` may be called here instead, as each of its
    processes is watched; "" where they are not.  ``nodes``: it starts them on
    this machine and on others.
    """

    argv: list[str]
    said: str = ""
    module: str = ""
    nodes: bool = False


def handover(rest: list[str], options: list[str]) -> Handover | None:
    """What to become where the program is a launcher of processes.

    ``rest`` is what follows the options of ``run``, ``options`` are those.
    None: an ordinary program.
    """
    if rest[:1] == ["-m"] and len(rest) > 1:
        name, args = rest[1], rest[2:]
        known = _MODULES.get(name)
    elif rest:
        name, args = os.path.basename(rest[0]), rest[1:]
        known = _NAMES.get(name)
    else:
        return None
    if known is not None and args[: len(known[1])] == known[1]:
        return _of_launcher(known[0], args[len(known[1]) :], options)
    if name in _OTHERS and rest[0] == "-m":
        return Handover(
            ["-m", name, *args],
            f"{name} starts processes of its own, which are not watched:"
            f" type `{_OTHERS[name]}` instead",
        )
    return None


def _of_launcher(module: str, args: list[str], options: list[str]) -> Handover:
    """Has it start ``impactarbiter run SCRIPT`` for each ``SCRIPT``."""
    plain = ["-m", module, *args]
    name = "torchrun" if module == _TORCHRUN else "accelerate"
    known = _parsed(module, args)
    if known is None:
        return Handover(plain)  # its own help or complaint
    script = str(known.training_script)
    its_args = list(known.training_script_args)
    if known.module and script == "impactarbiter":
        return Handover(plain)
    if known.no_python or getattr(known, "run_path", False):
        return Handover(
            plain,
            f"{name}'s processes are not watched with --no-python or"
            " --run-path: expected a script or a module",
        )
    before = args[: len(args) - len(its_args) - 1]
    ours = ["impactarbiter", "run", *options]
    if known.module:
        ours += ["-m"]
    else:
        before += ["-m"]
    nodes = getattr(known, "nnodes", None) or getattr(
        known, "num_machines", None
    )
    return Handover(
        ["-m", module, *before, *ours, script, *its_args],
        f"{name} starts processes of its own: each of them is watched",
        module,
        str(nodes or 1) not in ("1", "1:1"),
    )


def _parsed(module: str, args: list[str]) -> Any:
    """The arguments as its own parser reads them, None if it ends."""
    where, name = (
        ("torch.distributed.run", "get_args_parser")
        if module == _TORCHRUN
        else (_ACCELERATE, "launch_command_parser")
    )
    try:
        parser: Any = getattr(importlib.import_module(where), name)
    except ImportError:
        return None
    nowhere = io.StringIO()
    with (
        contextlib.redirect_stderr(nowhere),
        contextlib.redirect_stdout(nowhere),
        contextlib.suppress(SystemExit),
    ):
        return parser().parse_args(args)
    return None
