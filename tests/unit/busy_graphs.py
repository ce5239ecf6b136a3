"""Threads take graphs apart and build them anew while they are walked.

    python busy_graphs.py OPERATIONS QUESTION WALKS

Each letter of OPERATIONS is something that a thread does to tensors which the
main thread walks over (below, at `work`); QUESTION is e (explain), r
(retained_bytes) or w (looks of a watch). Ends with "ok" and how many of the
walks saw the graph.
"""

from __future__ import annotations

import contextlib
import faulthandler
import random
import sys
import threading
from typing import Any

import torch
from torch.autograd import forward_ad

import impactarbiter

TENSORS = 200
THREADS = 4

shared = [torch.randn(4) for _ in range(TENSORS)]
chains: list[Any] = [None] * 8
weight = torch.randn(4, requires_grad=True)
stop = threading.Event()


class Ends:
    """Runs Python code when a graph that it hangs on dies."""

    def __del__(self) -> None:
        sum(range(20))


class Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.ends = Ends()
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]


def chain(length: int) -> torch.Tensor:
    x = weight * 2
    for _ in range(length):
        x = x.sin()
    return Keep.apply(x)


def mutate(letter: str, i: int) -> None:
    t = shared[i]
    if letter == "m":  # in place: another node in front
        t.mul_(weight)
    elif letter == "d":  # drops the graph behind a tensor
        t.detach_()
    elif letter == "s":  # another storage
        t.detach_().set_(torch.randn(4))
    elif letter == "D":
        t.data = torch.randn(4)
    elif letter == "r":  # another block for the storage
        torch.Tensor.resize_(t.detach_(), 4 + i % 3).resize_(4)
    elif letter == "v":  # in place through a view: of the base, too
        t[1:].mul_(weight[1:])
    elif letter == "g":
        t.grad = None
    elif letter == "b":
        if t.requires_grad and t.grad_fn is not None:
            t.sum().backward()
    elif letter == "c":  # frees what it made some turns ago
        chains[i % len(chains)] = chain(100)
    elif letter == "C":  # one thread's graph dies in another's hands
        chains[i % len(chains)] = None
    elif letter == "h":
        if t.requires_grad:
            t.register_hook(lambda grad: None)
    elif letter == "f":
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.randn(4), torch.randn(4))
            chains[i % len(chains)] = dual * 2


def work(letters: str, seed: int) -> None:
    chance = random.Random(seed)
    mine = range(seed, TENSORS, THREADS)  # torch itself allows no more
    while not stop.is_set():
        with contextlib.suppress(RuntimeError):  # no graph for a backward
            mutate(chance.choice(letters), chance.choice(mine))


def main(letters: str, question: str, walks: int) -> None:
    from impactarbiter import _core

    threads = [
        threading.Thread(target=work, args=(letters, seed))
        for seed in range(THREADS)
    ]
    arbiter = impactarbiter.watch(step="manual") if question == "w" else None
    for thread in threads:
        thread.start()
    saw = i = 0
    # Whether a walk sees it is the other threads' doing: one must.
    while i < walks or (saw == 0 and i < 20 * walks):
        if question == "r":
            impactarbiter.retained_bytes([shared, chains])
        elif question == "e":
            impactarbiter.explain(shared[i % TENSORS])
        elif arbiter is not None:
            arbiter.step()
        saw += bool(_core.diagnose([], [])["graph"])
        i += 1
    stop.set()
    for thread in threads:
        thread.join()
    if arbiter is not None:
        arbiter.stop()
    print(f"ok, {saw} of {i} walks saw the graph")


if __name__ == "__main__":
    faulthandler.enable()
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
