"""Gradient accumulation over micro-batches; a meter sums the losses."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Meter:
    def __init__(self):
        self.total = torch.zeros(())
        self.count = 0

    def update(self, value, n):
        self.total += value * n
        self.count += n

    @property
    def mean(self):
        return float(self.total) / max(self.count, 1)


class Tagger(nn.Module):
    def __init__(self, vocab, dim, tags):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        return self.out(self.conv(x).relu().transpose(1, 2))


def micro_batches(n):
    for _ in range(n):
        ids = torch.randint(40, (4, 14))
        yield ids, ids % 5


def optimizer_step(model, optimizer, meter, parts):
    optimizer.zero_grad()
    for ids, tags in micro_batches(parts):
        loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
        (loss / parts).backward()
        meter.update(loss, len(ids))
    optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--parts", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(15)
    model = Tagger(40, 24, 5)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    meter = Meter()
    for step in range(1, args.steps + 1):
        optimizer_step(model, optimizer, meter, args.parts)
        if step % 50 == 0:
            print(f"step {step} mean loss {meter.mean:.4f}")


if __name__ == "__main__":
    main()
