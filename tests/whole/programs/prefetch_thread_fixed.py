"""A thread prepares batches ahead; another writes statistics as they come."""

import argparse
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn

STOP = object()


class Prefetcher:
    """Keeps a few batches ready; blocks when the trainer is slower."""

    def __init__(self, make_batch, total, depth=4):
        self.queue = queue.Queue(maxsize=depth)
        self.make_batch, self.total = make_batch, total
        self.thread = threading.Thread(target=self._fill, daemon=True)
        self.thread.start()

    def _fill(self):
        for i in range(self.total):
            self.queue.put(self.make_batch(i))
        self.queue.put(STOP)

    def __iter__(self):
        while (item := self.queue.get()) is not STOP:
            yield item


class StatsWriter:
    """Summarises one batch of logits whenever it is given a slot."""

    def __init__(self, slots_every):
        self.slots_every = slots_every
        self.inbox = queue.Queue(maxsize=8)
        self.slots = threading.Semaphore(0)
        self.finished = threading.Semaphore(0)
        self.lines = 0
        self.entropy = 0.0
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def submit(self, step, logits):
        if self.inbox.full():
            self.inbox.get_nowait()
        self.inbox.put((step, logits.detach()))
        if step % self.slots_every == 0:
            self.slots.release()
            self.finished.acquire()

    def _work(self):
        while True:
            self.slots.acquire()
            _, logits = self.inbox.get()
            probs = logits.softmax(-1)
            self.entropy = -(probs * probs.log()).sum(-1).mean().item()
            self.lines += 1
            del logits, probs
            self.finished.release()


def make_batch(i, classes=10, dim=20, size=48):
    g = torch.Generator().manual_seed(1000 + i)
    y = torch.randint(classes, (size,), generator=g)
    x = torch.randn(size, dim, generator=g)
    x[torch.arange(size), y] += 2.0
    return x, y


def evaluate(model, n=10):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for i in range(n):
            x, y = make_batch(10_000 + i)
            right += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    model.train()
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--stats-every", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(9)
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    writer = StatsWriter(args.stats_every)
    print(f"accuracy before {evaluate(model):.3f}")
    for step, (x, y) in enumerate(Prefetcher(make_batch, args.steps), 1):
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.submit(step, logits)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} lines {writer.lines}")
    print(f"accuracy after {evaluate(model):.3f}")


if __name__ == "__main__":
    main()
