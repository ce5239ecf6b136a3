"""Exponential moving average of weights, evaluated beside the raw model."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    r = torch.linspace(0.1, 1, n)
    angle = 4 * r + y * 2.094 + 0.15 * torch.randn(n, generator=g)
    x = torch.stack([r * angle.cos(), r * angle.sin()], dim=1)
    return TensorDataset(x * 3, y)


class EMA:
    """Shadow weights; swap() puts them into the model for evaluation."""

    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = {
            name: p.detach().clone() for name, p in model.named_parameters()
        }
        self.updates = 0

    @torch.no_grad()
    def update(self):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, p in self.model.named_parameters():
            self.shadow[name] = decay * self.shadow[name] + (1 - decay) * p

    def swap(self):
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                raw = p.detach().clone()
                p.copy_(self.shadow[name])
                yield name, raw

    def __enter__(self):
        self.backup = dict(self.swap())
        return self.model

    def __exit__(self, *exc):
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(self.backup[name])
        self.backup = None


class Swag:
    """Keeps the best few snapshots, and averages them in the end."""

    def __init__(self, keep):
        self.keep, self.best = keep, []

    def offer(self, score, model):
        state = copy.deepcopy(model.state_dict())
        self.best.append((score, len(self.best), state))
        self.best = sorted(self.best, key=lambda b: -b[0])[: self.keep]

    def average(self):
        states = [state for _, _, state in self.best]
        return {
            key: torch.stack([s[key].float() for s in states]).mean(0)
            for key in states[0]
        }


@torch.no_grad()
def accuracy(model, loader):
    hits = total = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return hits / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--decay", type=float, default=0.98)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()
    torch.manual_seed(12)
    train = DataLoader(spirals(480, 1), batch_size=32, shuffle=True)
    val = DataLoader(spirals(240, 2), batch_size=60)
    model = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
        nn.Linear(32, 3),
    )
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    ema = EMA(model, args.decay)
    swag = Swag(keep=3)
    for epoch in range(1, args.epochs + 1):
        for x, y in train:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update()
        raw = accuracy(model, val)
        with ema as averaged:
            smooth = accuracy(averaged, val)
        swag.offer(raw, model)
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d} raw {raw:.3f} ema {smooth:.3f}")
    model.load_state_dict(swag.average())
    print(f"average of the best: {accuracy(model, val):.3f}")


if __name__ == "__main__":
    main()
