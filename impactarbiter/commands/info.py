"""``impactarbiter info``: what memory and which devices there are."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from typing import Any

from ..base import cgroups
from ..base.errors import UsageError
from ..base.text import clean
from ..base.units import format_bytes
from .options import Option, parse
from .readings import Reading, gpus, machine

HELP = """\
usage: impactarbiter info [--json]

Says what memory the machine and its GPUs have and how much of it is in use,
what the control group allows, and which torch is installed. What works of
this package is what `doctor` says.

  --json  the same as JSON; bytes
"""

OPTIONS = {"--json": Option()}


def execute(args: list[str]) -> int:
    """0; ReadingError where the kernel does not say."""
    given, left = parse("info", OPTIONS, args)
    if left:
        raise UsageError(f"got {left[0]!r}: expected `impactarbiter info`")
    known = facts()
    if "--json" in given:
        print(json.dumps(known, indent=2))
        return 0
    for name, text in lines(known):
        print(f"{name:<15} {clean(text)}")
    return 0


def facts() -> dict[str, Any]:
    """Plain data; bytes, None where nothing is known or nothing limits."""
    group = cgroups.narrowest()
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": _torch(),
        "machine": _memory(machine()),
        "control_group": (
            None
            if group is None
            else {"used": group.used, "total": group.limit}
        ),
        "gpus": [
            {"name": name, **_memory(reading)} for name, reading in gpus()
        ],
    }


def _torch() -> dict[str, Any] | None:
    try:
        import torch
    except ImportError:
        return None
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "backends": [
            name
            for name, there in (
                ("cuda", torch.cuda.is_available()),
                ("mps", torch.backends.mps.is_available()),
            )
            if there
        ]
        + ["cpu"],
    }


def _memory(reading: Reading | None) -> dict[str, Any]:
    sizes = ("used", "free", "total")
    return {name: getattr(reading, name, None) for name in sizes}


def lines(known: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts, a name and its words each."""
    yield "platform", known["platform"]
    yield "Python", known["python"]
    torch = known["torch"]
    if torch is None:
        yield "torch", "not installed"
    else:
        built = (
            f"built for CUDA {torch['cuda']}" if torch["cuda"] else "no CUDA"
        )
        backends = ", ".join(torch["backends"])
        yield "torch", f"{torch['version']}, {built}; runs on {backends}"
    yield "machine", _words(known["machine"])
    group = known["control_group"]
    yield "control group", _words(group) if group else "no limit"
    for number, gpu in enumerate(known["gpus"]):
        yield f"GPU {number}", f"{gpu['name']}, {_words(gpu)}"
    if not known["gpus"]:
        yield "GPUs", "none that nvidia-smi knows"


def _words(memory: dict[str, Any]) -> str:
    if memory["used"] is None:
        return "which does not say what memory it has"
    return (
        f"{format_bytes(memory['used'])} of {format_bytes(memory['total'])}"
        " in use"
    )
