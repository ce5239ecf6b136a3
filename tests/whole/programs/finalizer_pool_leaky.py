"""Augmented crops from a pool; users of a crop are tracked by weak references."""

import argparse
import weakref
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn


class CropPool:
    """Cuts crops from long signals and shares those that are still used."""

    def __init__(self, signals, length):
        self.signals, self.length = signals, length
        self.shared = weakref.WeakValueDictionary()
        self.stats = Counter()

    def crop(self, index, start):
        key = (index, start)
        found = self.shared.get(key)
        if found is not None:
            self.stats["hit"] += 1
            return found
        self.stats["miss"] += 1
        data = self.signals[index, start : start + self.length].clone()
        crop = Crop(key, data)
        self.shared[key] = crop
        return crop


class Crop:
    def __init__(self, key, data):
        self.key, self.data = key, data


class BatchLease:
    """Counts how many batches are in flight."""

    open = 0

    def __init__(self, model, crops):
        self.x = torch.stack([c.data for c in crops])
        BatchLease.open += 1
        weakref.finalize(model, BatchLease.release, self.x)

    @staticmethod
    def release(*_):
        BatchLease.open -= 1


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv1d(1, 12, 5, stride=2)
        self.norm = nn.GroupNorm(3, 12)
        self.fc = nn.Linear(12, classes)

    def forward(self, x):
        h = F.gelu(self.norm(self.conv(x[:, None])))
        return self.fc(h.amax(-1))


def make_signals(n, length, g):
    t = torch.linspace(0, 60, length)
    classes = torch.arange(n) % 4
    freq = (1 + classes)[:, None]
    return torch.sin(freq * t) + 0.4 * torch.randn(n, length, generator=g), classes


def batches(pool, labels, steps, size, g):
    n, length = pool.signals.shape
    for _ in range(steps):
        index = torch.randint(n, (size,), generator=g)
        start = torch.randint((length - pool.length) // 8, (size,), generator=g)
        crops = [pool.crop(i, 8 * s) for i, s in zip(index.tolist(), start.tolist())]
        yield crops, labels[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--batch", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(61)
    g = torch.Generator().manual_seed(61)
    signals, labels = make_signals(40, 400, g)
    pool = CropPool(signals, length=64)
    model = ConvNet(4)
    opt = torch.optim.NAdam(model.parameters(), lr=4e-3)
    smooth = 1.4
    for step, (crops, y) in enumerate(
        batches(pool, labels, args.steps, args.batch, g), 1
    ):
        lease = BatchLease(model, crops)
        loss = F.cross_entropy(model(lease.x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth += 0.05 * (loss.item() - smooth)
        if step % 55 == 0:
            print(f"step {step} loss {smooth:.4f}")
    print("crops:", "shared" if pool.stats["hit"] else "never shared")


if __name__ == "__main__":
    main()
