"""Children of a watched process watch themselves.

What multiprocessing forks begins anew where it bootstraps; what it spawns, and
other Pythons, wait for a framework by the start-up file
(integrations/startup).  A child's watch makes way for one of the program's
own, which goes on with its file; a child without a step leaves none.
"""

from __future__ import annotations

import json
import os
import sys
from os import getpid
from typing import Any

from ..base import imports
from ..base.ranks import rank
from ..base.signals import Tolerated
from ..core import frameworks
from ..judging.allowlist import AllowList
from . import arbiter as arbiters
from .arbiter import Arbiter
from .armed import (
    OPTIONS,
    PARENT,
    PASSING,
    RANK,
    as_text,
    disarm,
    folder,
    is_gathered,
    wait_for_bootstrap,
)
from .job_file import ending, this_process

#: What multiprocessing's own processes have among their arguments.
_MULTIPROCESSING = ("--multiprocessing-fork", "multiprocessing.forkserver")

#: What there may be to watch.
_NAMES = (*frameworks.NAMES, "numpy")

_begun: int | None = None
_arbiter: Arbiter | None = None
#: Whether a DataLoader worker's batch was made that no step has ended yet.
_fetched = False


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
        kind._after_fork = staticmethod(bootstrapped)


def bootstrapped(*_: object) -> None:
    """multiprocessing is about to run the child's part, which may import by
    itself what is to be watched."""
    there = [name for name in _NAMES if sys.modules.get(name) is not None]
    if there:
        # What a thread was importing when the parent forked never ends here.
        if all(map(imports.is_imported, there)):
            begin()
        return
    for name in frameworks.NAMES:
        imports.after(name, _one_has_come)
    imports.after("numpy", _numpy_has_come)


def _one_has_come() -> None:
    for name in _NAMES:
        imports.forget(name)
    begin()


def _numpy_has_come() -> None:
    """Or a framework is being imported, which imports it: that comes next."""
    if not frameworks.any_imported():
        _one_has_come()


def begin() -> None:
    """Watches this child from here on; a failure is nobody's business."""
    global _begun, _arbiter, _fetched
    if folder() is None or _begun == getpid():
        return
    _begun, _arbiter, _fetched = getpid(), None, False
    with Tolerated():
        options: dict[str, Any] = json.loads(os.environ.get(OPTIONS) or "{}")
        if is_gathered(options):
            _begin(options)
        else:
            disarm()  # for its own children, too


def _begin(options: dict[str, Any]) -> None:
    global _arbiter
    from multiprocessing import util

    chosen = folder()
    assert chosen is not None
    arbiters.abandon()
    if arbiters.current() is not None:
        return
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
    parent = options.get(PARENT)
    role = "dataloader" if loads else "spawned"
    if _is_main() and options.get(RANK, -1) != rank():
        role = "train"  # nobody's child: of a launcher, or alone
        os.environ[OPTIONS] = as_text(options)
    process = this_process(role, worker, parent)
    passing = bool(options.get(PASSING))
    _arbiter.join(chosen, process, lazily=True, passing=passing)
    util.Finalize(None, _finish, exitpriority=100)
    if loads:
        _count_batches()


def _finish() -> None:
    """The child's part is over; it may leave by ``os._exit()`` next."""
    global _arbiter
    ours, _arbiter = _arbiter, None
    if ours is None or ours.pid != getpid():
        return
    if ours.job is not None:
        ours.job.ending = ending()
    with Tolerated():
        if _fetched:
            ours.step()
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
    """A step ends where the next batch is asked for: the last is sent.

    The first begins with the first batch, and the worker's end ends its last.
    """
    from torch.utils.data._utils import fetch

    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        kind.fetch = _Stepping(kind.fetch)  # type: ignore[assignment]


class _Stepping:
    """A method that ends a step when it is looked up to be called: no frame
    of ours is in the tracebacks of what it calls.  Of the class it is looked
    up by who wraps it, and gets one that does so when it is called."""

    def __init__(self, fetch: Any) -> None:
        self._fetch = fetch

    def __get__(self, fetcher: Any, kind: Any = None) -> Any:
        if fetcher is None:
            return self._called
        _end_batch()
        return self._fetch.__get__(fetcher, kind)

    def _called(self, *args: Any, **given: Any) -> Any:
        _end_batch()
        return self._fetch(*args, **given)


def _end_batch() -> None:
    global _fetched
    if _arbiter is not None and _fetched:
        _arbiter.step()
    _fetched = True
