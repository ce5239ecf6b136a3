"""Contrastive learning with a momentum encoder and a queue of negatives."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn


def views(n, dim, g):
    """Two noisy views of the same prototypes."""
    base = torch.randn(n, dim, generator=g)

    def noisy():
        return base + 0.3 * torch.randn(n, dim, generator=g)

    return noisy(), noisy()


def encoder(dim, width, out):
    return nn.Sequential(
        nn.Linear(dim, width), nn.BatchNorm1d(width), nn.ReLU(),
        nn.Linear(width, out),
    )


class MoCo(nn.Module):
    def __init__(self, dim, out, queue_size, momentum, temperature):
        super().__init__()
        self.query = encoder(dim, 48, out)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.queue_size = queue_size
        self.momentum, self.temperature = momentum, temperature
        self.register_buffer(
            "queue", F.normalize(torch.randn(queue_size, out), dim=1)
        )

    @torch.no_grad()
    def follow(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.lerp_(q, 1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue = torch.cat([keys, self.queue])[: self.queue_size].clone()

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            k = F.normalize(self.key(b), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue[: self.queue_size].T
        logits = torch.cat([positive, negative], 1) / self.temperature
        return F.cross_entropy(logits, torch.zeros(len(q)).long()), k


class FeatureBank:
    """The last features and their ids, for a k-NN probe: a ring."""

    def __init__(self, size, dim):
        self.features = torch.zeros(size, dim)
        self.ids = torch.full((size,), -1)
        self.cursor = 0

    def add(self, features, ids):
        n, size = len(features), len(self.features)
        slots = (torch.arange(n) + self.cursor) % size
        self.features[slots] = features
        self.ids[slots] = ids
        self.cursor = (self.cursor + n) % size

    def nearest(self, features):
        return self.ids[(features @ self.features.T).argmax(1)]


@torch.no_grad()
def alignment(model, g, dim):
    model.eval()
    a, b = views(64, dim, g)
    za = F.normalize(model.query(a), dim=1)
    zb = F.normalize(model.query(b), dim=1)
    hit = ((za @ zb.T).argmax(1) == torch.arange(64)).float().mean()
    model.train()
    return hit.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--queue", type=int, default=256)
    args = parser.parse_args()
    torch.manual_seed(23)
    g = torch.Generator().manual_seed(23)
    dim = 24
    model = MoCo(dim, 16, args.queue, momentum=0.95, temperature=0.2)
    bank = FeatureBank(128, 16)
    opt = torch.optim.SGD(model.query.parameters(), lr=0.06, momentum=0.9)
    print(f"alignment before {alignment(model, g, dim):.3f}")
    for step in range(1, args.steps + 1):
        loss, keys = model(*views(args.batch, dim, g))
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.follow()
        model.enqueue(keys)
        bank.add(keys, torch.arange(args.batch) + step)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"alignment after {alignment(model, g, dim):.3f}")
    print("distinct neighbours", len(set(bank.nearest(keys).tolist())))


if __name__ == "__main__":
    main()
