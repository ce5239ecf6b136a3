"""Children of a watched process watch themselves.

What multiprocessing forks begins anew where it bootstraps; what it spawns, and
other Pythons, wait for a framework by the start-up file
(integrations/startup).  A child's watch makes way for one of the program's
own, and a child without a step leaves no file.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import sys
import tempfile
from typing import Any

from ..base.ranks import JOB, rank
from ..base.signals import Tolerated
from ..core import frameworks
from ..judging.allowlist import AllowList
from ..model.process import FINISHED
from . import arbiter as arbiters
from .arbiter import Arbiter
from .job_file import this_process

#: The folder that children write into; "none": they are not watched.
FOLDER = "IMPACTARBITER_CHILDREN"
#: Options of watch() for them, as JSON.
OPTIONS = "IMPACTARBITER_WATCH"
#: Among them: the parent's rank.  A child with another is a rank itself.
_RANK = "rank"
#: What multiprocessing's own processes have among their arguments.
_MULTIPROCESSING = ("--multiprocessing-fork", "multiprocessing.forkserver")


class _Marker:
    """multiprocessing holds what it calls after a fork weakly."""


_marker = _Marker()
_armed = False
_begun: int | None = None
_arbiter: Arbiter | None = None
#: Of the DataLoader worker that this is; None: it is none.
_worker: int | None = None


def folder() -> str | None:
    """Where a child's file goes; None: nobody wants to know."""
    chosen = os.environ.get(FOLDER) or os.environ.get(JOB)
    return None if chosen in (None, "", "none") else chosen


def arm(options: dict[str, Any]) -> str:
    """Has all children of this process watched; the folder of their files,
    which is made by the first that has something to write."""
    chosen = os.environ.get(JOB) or os.path.join(
        tempfile.gettempdir(), f"impactarbiter-{secrets.token_hex(8)}"
    )
    os.environ[FOLDER] = chosen
    os.environ[OPTIONS] = json.dumps({**options, _RANK: rank()})
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    startup = os.path.join(package, "integrations", "startup")
    before = os.environ.get("PYTHONPATH")
    if startup not in (before or "").split(os.pathsep):
        os.environ["PYTHONPATH"] = (
            f"{startup}{os.pathsep}{before}" if before else startup
        )
    wait_for_bootstrap()
    return chosen


def disarm() -> None:
    """No child is watched, whatever the environment says besides."""
    os.environ[FOLDER] = "none"


def wait_for_bootstrap() -> None:
    """Has those watched that multiprocessing makes of this process."""
    global _armed
    if _armed:
        return
    from multiprocessing import util

    _armed = True
    util.register_after_fork(_marker, _bootstrapped)


def framework_is_there() -> None:
    """A framework was imported in a Python that was started from outside."""
    wait_for_bootstrap()
    words = " ".join(sys.orig_argv)
    if _is_main() and any(word in words for word in _MULTIPROCESSING):
        _wait_for_spawned()  # this may be a server, too
    else:
        begin()


def _is_main() -> bool:
    """Whether this is no part of multiprocessing's, or not yet."""
    from multiprocessing import process

    return type(process.current_process()).__name__ == "_MainProcess"


def _wait_for_spawned() -> None:
    """What is spawned bootstraps without a word to ``register_after_fork``:
    the method that says so is asked instead, in this child alone."""
    from multiprocessing import context

    kinds: tuple[Any, ...] = context.SpawnProcess, context.ForkServerProcess
    for kind in kinds:
        kind._after_fork = staticmethod(
            functools.partial(_bootstrapped, _marker)
        )


def _bootstrapped(_marker: _Marker) -> None:
    """multiprocessing is about to run the child's part."""
    if frameworks.any_imported():
        begin()


def begin() -> None:
    """Watches this child from here on; a failure is nobody's business."""
    global _begun, _arbiter, _worker
    if folder() is None or _begun == os.getpid():
        return
    _begun, _arbiter, _worker = os.getpid(), None, None
    with Tolerated():
        _begin()


def _begin() -> None:
    global _arbiter
    from multiprocessing import util

    chosen = folder()
    assert chosen is not None
    arbiters.abandon()
    if arbiters.current() is not None:
        return
    options: dict[str, Any] = json.loads(os.environ.get(OPTIONS) or "{}")
    worker = _loader_worker()
    loads = worker is not None
    _arbiter = Arbiter(
        every=options.get("every", 1),
        warmup=options.get("warmup", 3),
        window=options.get("window", 5),
        manual=loads or options.get("step") == "manual",
        allow=AllowList(options.get("allow", ())),
        obfuscate=options.get("obfuscate", False),
        on_finding=None,
        memory_limit=options.get("memory_limit"),
        numpy=options.get("numpy", True),
        stand_in=True,
    )
    role = "dataloader" if loads else "spawned"
    if _is_main() and options.get(_RANK, -1) != rank():
        role = "train"  # nobody's child: of a launcher, or alone
        os.environ[OPTIONS] = json.dumps({**options, _RANK: rank()})
    _arbiter.join(chosen, this_process(role, worker), lazily=True)
    util.Finalize(None, _finish, exitpriority=100)
    if loads:
        _count_batches()


def _finish() -> None:
    """The child's part is over; it may leave by ``os._exit()`` next."""
    global _arbiter
    ours, _arbiter = _arbiter, None
    if ours is None or ours.pid != os.getpid():
        return
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    code = getattr(error, "code", None)
    if ours.job is not None:
        ours.job.ending = (
            FINISHED
            if error is None or (isinstance(error, SystemExit) and not code)
            else f"exit {code}"
            if isinstance(error, SystemExit)
            else type(error).__name__
        )
    with Tolerated():
        if ours.moment().steps:
            ours.stop()
        else:
            ours.dismiss()


# -- DataLoader workers -----------------------------------------------------


def _loader_worker() -> int | None:
    """The number of the DataLoader worker that this process is."""
    from multiprocessing import process

    data = sys.modules.get("torch.utils.data._utils.worker")
    here: Any = process.current_process()
    target: Any = getattr(here, "_target", None)
    loop: Any = getattr(data, "_worker_loop", None)
    if loop is None or target is not loop:
        return None
    # _worker_loop(dataset_kind, dataset, ..., worker_id, num_workers, ...)
    names = loop.__code__.co_varnames
    given = dict(zip(names, here._args, strict=False))
    number = given.get("worker_id")
    return number if isinstance(number, int) else 0


def _count_batches() -> None:
    """A step ends where the next batch is asked for: the last is sent."""
    from torch.utils.data._utils import fetch

    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        kind.fetch = _stepping(kind.fetch)  # type: ignore[method-assign]


def _stepping(fetch: Any) -> Any:
    @functools.wraps(fetch)
    def stepping(self: Any, index: Any) -> Any:
        if _arbiter is not None:
            _arbiter.step()
        return fetch(self, index)

    return stepping
