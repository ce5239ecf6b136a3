"""``impactarbiter doctor``: what works here, and what does not."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata

from ..base.errors import UsageError, extras, requirements
from ..base.records import dataclass
from ..base.text import clean
from ..base.units import format_bytes
from .options import Option, parse

HELP = """\
usage: impactarbiter doctor

Says what was built and against what, which hooks go in, whether a leak is
found here, which extras are installed, and what the system allows.  Exits 0
where a program can be watched, 1 where not.
"""

OPTIONS: dict[str, Option] = {}
#: For those who build it: no feature of the package needs them.
_FOR_US = ("dev", "bench")


@dataclass(frozen=True)
class Line:
    name: str
    text: str
    good: bool = True  #: False: no program can be watched


def execute(args: list[str]) -> int:
    """Prints the lines; 1 where one of them is bad."""
    _, left = parse("doctor", OPTIONS, args)
    if left:
        raise UsageError(f"got {left[0]!r}: expected `impactarbiter doctor`")
    bad = False
    for check in (_python, _build, _hooks, _leak, _extras, _system):
        for line in _tried(check):
            mark = "  " if line.good else "! "
            print(f"{mark}{line.name:<13} {clean(line.text)}")
            bad |= not line.good
    return int(bad)


def _tried(check: Callable[[], Iterator[Line]]) -> Iterator[Line]:
    """Its lines; what it raises is one more."""
    try:
        yield from check()
    except Exception as error:
        yield Line(
            check.__name__[1:], f"{type(error).__name__}: {error}", False
        )


def _python() -> Iterator[Line]:
    from .. import __version__

    yield Line("impactarbiter", __version__)
    yield Line("Python", f"{platform.python_version()}, {sys.executable}")


def _build() -> Iterator[Line]:
    from ..core.built import build, torch_module

    built, torch = build(), _imports_torch()
    names = {"torch": built.torch} if torch else {}
    for name, was in {**names, "numpy": built.numpy}.items():
        here = importlib.import_module(name).__version__
        yield Line(name, f"{here}; built for {was or 'an unknown one'}")
    if torch:
        torch_module()
    else:
        yield Line("torch", "not here, or not built for; others are watched")
    modules = " ".join(built.modules) or "unknown"
    yield Line("modules", f"{modules}; {built.compiler or 'unknown'}")
    if torch:
        yield Line("CUDA", _cuda())


def _imports_torch() -> bool:
    """Whether it is here and we were built with it: what is watched is what
    is imported."""
    if importlib.util.find_spec("impactarbiter._torch") is None:
        return False
    with suppress(ImportError):
        importlib.import_module("torch")
    return "torch" in sys.modules


def _cuda() -> str:
    import torch

    from ..core.built import build

    if torch.version.cuda is None:
        return "torch is built without it"
    count = torch.cuda.device_count()
    events = "with" if "_cuda" in build().modules else "without"
    return f"{torch.version.cuda}, {count} devices; built {events} events"


def _hooks() -> Iterator[Line]:
    from ..core.built import loaded_torch_module
    from ..core.hooks import in_place
    from ..watching.arbiter import watch

    with watch(step="manual"):
        found = in_place()
    if _imports_torch() and loaded_torch_module() is None:
        found["torch"] = False
    names = [name for name, there in found.items() if there]
    missing = [name for name, there in found.items() if not there]
    said = f"{', '.join(names)} go in and out"
    if missing:
        said += f"; not: {', '.join(missing)}"
    yield Line("hooks", said, good=not set(missing) - {"numpy"})


#: As a program of a user's: allocations of our own files are not counted.
_PROGRAM = """
kept = []
for _ in range(40):
    kept.append(numpy.ones(1000))
    arbiter.step()
"""
_WITH_TORCH = _PROGRAM.replace("numpy.ones(1000)", "torch.ones(8)")


def _leak() -> Iterator[Line]:
    """Whether a list that keeps what 40 steps made is told."""
    from ..watching.arbiter import watch

    name = "torch" if _imports_torch() else "numpy"
    source = _WITH_TORCH if name == "torch" else _PROGRAM
    given = {name: importlib.import_module(name)}
    with watch(step="manual") as arbiter:
        program = compile(source, "<doctor>", "exec")
        exec(program, {**given, "arbiter": arbiter})
        findings = arbiter.report().findings
    for finding in findings:
        if finding.verdict == "leak" and finding.holder is not None:
            yield Line("a leak", f"is found: {finding.holder.expression}")
            return
    yield Line("a leak", "was not found in a list of 40 arrays", False)


def _extras() -> Iterator[Line]:
    for extra in extras():
        if extra in _FOR_US:
            continue
        wanted = requirements(extra)
        names = [w.strip("'").partition(">")[0] for w in wanted]
        there = {name: _version(name) for name in names}
        if all(there.values()):
            said = ", ".join(f"{name} {v}" for name, v in there.items())
        else:
            said = f"not installed: pip install {' '.join(wanted)}"
        if wanted:
            yield Line(extra, said)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _system() -> Iterator[Line]:
    from ..attaching.target import may_trace
    from ..judging.verdicts.forecast import Forecast

    limit = Forecast().limit
    memory = "unknown" if limit is None else format_bytes(limit)
    yield Line("memory", f"{memory} for a process here")
    yield Line("attach", may_trace())
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    size = "any size" if soft < 0 else format_bytes(soft)
    yield Line("core files", f"of {size} (ulimit -c)")
    yield Line("processors", f"{len(os.sched_getaffinity(0))} to run on")
