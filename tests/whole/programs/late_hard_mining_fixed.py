"""Metric learning that mines hard examples once it is warm."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Identities:
    def __init__(self, n, dim, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.centers = torch.randn(n, dim, generator=self.g)
        self.n = n

    def batch(self, people, each):
        who = torch.randperm(self.n, generator=self.g)[:people]
        y = who.repeat_interleave(each)
        x = self.centers[y]
        return x + 0.8 * torch.randn(x.shape, generator=self.g), y


class Embedder(nn.Module):
    def __init__(self, dim, width, out):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, width), nn.LeakyReLU(), nn.Linear(width, out)
        )

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def batch_hard(z, y, margin):
    """Triplet loss on the hardest pairs of a batch; one value an anchor."""
    distance = torch.cdist(z, z)
    same = y[:, None] == y[None]
    positive = (distance * same).amax(1)
    negative = (distance + 10.0 * same).amin(1)
    return F.relu(positive - negative + margin)


class HardPool:
    """Examples that violated the margin; replayed beside fresh ones."""

    def __init__(self, limit):
        self.limit = limit
        self.x, self.y = [], []

    def extend(self, x, y, mask):
        self.x.extend(row.clone() for row in x[mask])
        self.y.extend(y[mask].tolist())
        del self.x[: -self.limit], self.y[: -self.limit]

    def sample(self, n):
        x = torch.stack(self.x[-self.limit :])[:n]
        y = torch.tensor(self.y[-self.limit :])[:n]
        return x, y


def recall_at_1(model, data):
    with torch.no_grad():
        x, y = data.batch(20, 4)
        z = model(x)
        distance = torch.cdist(z, z) + 10 * torch.eye(len(z))
        return (y[distance.argmin(1)] == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--mine-from", type=int, default=200)
    parser.add_argument("--margin", type=float, default=0.3)
    args = parser.parse_args()
    torch.manual_seed(230)
    data = Identities(40, 24, seed=230)
    model = Embedder(24, 48, 16)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    pool = HardPool(limit=64)
    print(f"recall before {recall_at_1(model, data):.3f}")
    smooth = 0.3
    for step in range(1, args.steps + 1):
        x, y = data.batch(8, 4)
        mining = step > args.mine_from
        if mining and len(pool.x) >= 16:
            hard_x, hard_y = pool.sample(16)
            x, y = torch.cat([x, hard_x]), torch.cat([y, hard_y])
        losses = batch_hard(model(x), y, args.margin)
        opt.zero_grad()
        losses.mean().backward()
        opt.step()
        if mining:
            fresh = losses.detach()[:32]
            pool.extend(x[:32], y[:32], fresh > fresh.mean())
        smooth += 0.05 * (losses.mean().item() - smooth)
        if step % 60 == 0:
            print(f"step {step} loss {smooth:.4f} mining {mining}")
    print(f"recall after {recall_at_1(model, data):.3f}")


if __name__ == "__main__":
    main()
