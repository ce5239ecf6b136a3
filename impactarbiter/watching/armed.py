"""Whether children watch themselves, and where they write.

What they do then is in children.py, which is imported in a child alone.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib import import_module
from os import getpid
from typing import Any

from ..base import imports
from ..base.ranks import JOB, job_folder, rank, runs_beside
from ..base.records import dataclass
from ..base.signals import Tolerated

#: The folder that children write into; "none": they are not watched.
FOLDER = "IMPACTARBITER_CHILDREN"
#: Options of watch() for them, as JSON.
OPTIONS = "IMPACTARBITER_WATCH"
#: Among them: the parent's rank.  A child with another is a rank itself.
RANK = "rank"
#: And its process: a server or a shell may stand between.
PARENT = "parent"
#: And whether the folder is thrown away once that has read it.
PASSING = "passing"
#: Characters of them that are handed on.  Linux starts no process with a
#: variable of 128 KiB, and all of them share a room with the arguments.
MOST = 1 << 16


class _Marker:
    """multiprocessing holds what it calls after a fork weakly."""


_marker = _Marker()
_armed = False


def folder() -> str | None:
    """Where a child's file goes; None: nobody wants to know."""
    chosen = os.environ.get(FOLDER) or job_folder()
    return None if chosen in (None, "", "none") else chosen


@dataclass(frozen=True)
class Armed:
    """All children are watched and write into ``folder``, which is made by
    the first that has something to write; or none is, and ``excuse`` says
    why."""

    folder: str
    excuse: str | None
    _before: dict[str, str | None]
    _after: dict[str, str]

    def release(self) -> None:
        """Those that are started from here on are not; what the program has
        written into its environment since then stays."""
        for name, text in self._after.items():
            before = self._before[name]
            if os.environ.get(name) != text or before == text:
                continue
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def passing_folder() -> str:
    """A name for a folder that is thrown away, which nobody has; OSError where
    no folder can be written."""
    name = f"impactarbiter-{os.urandom(8).hex()}"
    return os.path.join(tempfile.gettempdir(), name)


def arm(options: dict[str, Any], folder: str | None = None) -> Armed:
    """Has all children of this process watched, with these of ``watch()``'s
    options; rules that are no text stay here.

    They write into ``folder``, else that of the job, else one of our choice.
    """
    stays = folder or job_folder()
    chosen = stays or passing_folder()
    allowed = [
        rule for rule in options.get("allow", ()) if isinstance(rule, str)
    ]
    full = os.path.abspath(chosen)
    text = as_text({**options, "allow": allowed, PASSING: stays is None})
    excuse = None
    if len(text) <= MOST:
        after = {
            FOLDER: full,
            OPTIONS: text,
            "PYTHONPATH": _path_with_ours(),
        }
    else:
        after = {FOLDER: "none"}
        excuse = (
            f"the rules of what is allowed take {len(text):,} bytes: expected"
            f" at most {MOST:,}; patterns such as model.py:* say more in less"
        )
    if job_folder() is not None:
        after[JOB] = full  # whichever folder they are started in
    before = {name: os.environ.get(name) for name in after}
    os.environ.update(after)
    wait_for_bootstrap()
    return Armed(full, excuse, before, after)


def as_text(options: dict[str, Any]) -> str:
    """For children of this process."""
    return json.dumps({**options, RANK: rank(), PARENT: getpid()})


def _path_with_ours() -> str:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    startup = os.path.join(package, "integrations", "startup")
    path = os.environ.get("PYTHONPATH", "")
    if startup in path.split(os.pathsep):
        return path
    return f"{startup}{os.pathsep}{path}" if path else startup


def disarm() -> None:
    """No child is watched, whatever the environment says besides."""
    os.environ[FOLDER] = "none"


def is_gathered(options: dict[str, Any]) -> bool:
    """Whether somebody reads what a child with these options writes: nobody
    reads a passing folder whose process has ended, or has become this very
    program by ``os.exec*()``."""
    parent = options.get(PARENT)
    if not options.get(PASSING) or type(parent) is not int:
        return True
    return runs_beside(parent)


def are_wanted() -> bool:
    """Whether nobody has said that children are not to be watched."""
    return os.environ.get(FOLDER) != "none"


def wait_for_bootstrap() -> None:
    """Has those watched that multiprocessing makes of this process.

    It is imported by the program alone: it has an exit handler then, which
    waits for children before older ones are called.
    """
    global _armed
    if not _armed:
        _armed = True
        imports.after("multiprocessing.util", _util_has_come)


def _util_has_come() -> None:
    register = imports.names_in("multiprocessing.util").get(
        "register_after_fork"
    )
    with Tolerated():  # a module of the program's by that name has another
        if register is not None:
            register(_marker, _bootstrapped)


def _bootstrapped(_marker: _Marker) -> None:
    """By name: a child's watch has children of its own, who are armed."""
    with Tolerated():
        import_module(f"{__package__}.children").bootstrapped()
