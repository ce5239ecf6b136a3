"""An event bus connects trainer, logger and a gradient inspector."""

import argparse
from collections import defaultdict
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


class EventBus:
    def __init__(self):
        self.handlers = defaultdict(list)

    def on(self, event, handler):
        self.handlers[event].append(handler)
        return handler

    def off(self, event, handler):
        self.handlers[event].remove(handler)

    def once(self, event, handler):
        def single(**payload):
            self.off(event, single)
            handler(**payload)

        return self.on(event, single)

    def emit(self, event, **payload):
        for handler in list(self.handlers[event]):
            handler(**payload)


class ConsoleLogger:
    def __init__(self, bus):
        self.mean, self.n = 0.0, 0
        bus.on("step", self.on_step)
        bus.on("epoch", self.on_epoch)

    def on_step(self, loss, **_):
        self.n += 1
        self.mean += (loss - self.mean) / self.n

    def on_epoch(self, epoch, **_):
        print(f"epoch {epoch} mean loss {self.mean:.4f}")
        self.mean, self.n = 0.0, 0


class HardBatchInspector:
    """Remembers a batch that was hard and looks at it after the epoch."""

    def __init__(self, bus, model, threshold):
        self.bus, self.model, self.threshold = bus, model, threshold
        self.usual, self.seen = 1.0, 0
        bus.on("batch", self.on_batch)

    def on_batch(self, x, y, loss, **_):
        usual, self.usual = self.usual, 0.9 * self.usual + 0.1 * loss
        if loss < self.threshold * usual:
            return
        self.seen += 1
        self.bus.once("epoch", partial(self.inspect, x, y))

    def inspect(self, x, y, epoch, **_):
        with torch.no_grad():
            margin = self.model(x).gather(1, y[:, None]).mean()
        self.last_margin = margin.item()


class Trainer:
    def __init__(self, model, bus, lr):
        self.model, self.bus = model, bus
        self.opt = torch.optim.Adagrad(model.parameters(), lr=lr)

    def fit(self, batches, epochs):
        for epoch in range(1, epochs + 1):
            for x, y in batches(epoch):
                loss = F.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                value = loss.item()
                self.bus.emit("step", loss=value)
                self.bus.emit("batch", x=x, y=y, loss=value)
            self.bus.emit("epoch", epoch=epoch)


def make_batches(n, size, dim, classes):
    g = torch.Generator().manual_seed(50)
    weights = torch.randn(dim, classes, generator=g)

    def batches(epoch):
        for _ in range(n):
            x = torch.randn(size, dim, generator=g)
            noise = torch.randn(size, classes, generator=g)
            yield x, (x @ weights + noise).argmax(1)

    return batches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches", type=int, default=25)
    parser.add_argument("--threshold", type=float, default=1.05)
    args = parser.parse_args()
    torch.manual_seed(50)
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 6))
    bus = EventBus()
    ConsoleLogger(bus)
    inspector = HardBatchInspector(bus, model, args.threshold)
    Trainer(model, bus, lr=0.05).fit(
        make_batches(args.batches, 40, 20, 6), args.epochs
    )
    print(f"margin of the last hard batch {inspector.last_margin:.3f}")
    print("hard batches:", inspector.seen)


if __name__ == "__main__":
    main()
