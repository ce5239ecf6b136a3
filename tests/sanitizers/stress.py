"""Threads that allocate, free, run backwards and detach, while looks are
made and watches come and go.

Run by `make tsan` in an interpreter that has the sanitizer preloaded; the
argument is for how many watches.  What it prints is the same with and
without one.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import warnings

import torch

import impactarbiter
from impactarbiter import _core

STEPS = 10
#: Tensors that a thread keeps at most.
KEPT = 30


class Worker(threading.Thread):
    """A user's thread: what it computes must be right."""

    def __init__(self, seed: int, over: threading.Event) -> None:
        super().__init__()
        self.seed = seed
        self.over = over
        self.turns = 0
        self.wrong = 0

    def run(self) -> None:
        kept: list[torch.Tensor] = []
        while not self.over.is_set():
            value = float(self.turns % 17 + self.seed)
            weight = torch.full((64,), value, requires_grad=True)
            loss = (weight * weight).sum()
            loss.backward()
            self.wrong += not torch.equal(weight.grad, 2 * weight.detach())
            kept.append((weight * 3).exp())
            if self.turns % 3 == 0:
                kept[-1].detach_()
            if self.turns % 5 == 0:
                kept[-1].resize_(256) if not kept[-1].requires_grad else None
            if len(kept) > KEPT:
                del kept[: KEPT // 2]
            self.turns += 1


class Spawner(threading.Thread):
    """Threads that are born and die all the time."""

    def __init__(self, over: threading.Event) -> None:
        super().__init__()
        self.over = over

    def run(self) -> None:
        while not self.over.is_set():
            child = threading.Thread(target=torch.ones, args=(10,))
            child.start()
            child.join()


def watch_once(folder: str, kept: list[torch.Tensor]) -> None:
    arbiter = impactarbiter.watch(step="manual", warmup=1, window=2)
    recorder = impactarbiter.FlightRecorder(folder, events=64, interval=0)
    with recorder:
        for _ in range(STEPS):
            kept.append(torch.ones(8, requires_grad=True) * 2)
            arbiter.step()
        assert _core.consistent()
        recorder.capture("test")
    impactarbiter.explain(kept[0])
    impactarbiter.snapshot()
    arbiter.stop()


def main(watches: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    over = threading.Event()
    workers = [Worker(seed, over) for seed in range(3)]
    threads = [*workers, Spawner(over)]
    for thread in threads:
        thread.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(watches):
                watch_once(folder, [])
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert all(worker.turns for worker in workers)
    print("wrong results:", sum(worker.wrong for worker in workers))


main(int(sys.argv[1]))
