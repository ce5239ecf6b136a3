"""Training with rollbacks when the loss explodes; gives up in the end."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Diverged(RuntimeError):
    pass


class Guard:
    """Undo steps for a model, the newest last."""

    def __init__(self, model, optimizer, depth):
        self.model, self.optimizer, self.depth = model, optimizer, depth
        self.undo = []
        self.rollbacks = 0

    def checkpoint(self):
        weights = {k: v.clone() for k, v in self.model.state_dict().items()}

        def restore():
            self.model.load_state_dict(weights)
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.9

        self.undo.append(restore)

    def rollback(self):
        self.rollbacks += 1
        self.undo[-1]()


class Landscape:
    """Regression targets with rare huge outliers."""

    def __init__(self, dim, seed, poison_after):
        self.g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(dim, generator=self.g)
        self.dim, self.count = dim, 0
        self.poison_after = poison_after

    def batch(self, n):
        self.count += 1
        x = torch.randn(n, self.dim, generator=self.g)
        y = torch.sin(x @ self.w)
        if self.count % 23 == 0:
            y = y * 1e3
        if self.count > self.poison_after:
            y = y * float("inf")
        return x, y


def train(model, data, args):
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    guard = Guard(model, opt, depth=3)
    bad_in_a_row, mean = 0, 1.0
    for step in range(1, args.steps + 1):
        x, y = data.batch(args.batch)
        loss = F.mse_loss(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        value = loss.item()
        if not value < 10:
            guard.rollback()
            bad_in_a_row += 1
            if bad_in_a_row > 3:
                raise Diverged(f"rolled back {bad_in_a_row} times in a row")
            continue
        bad_in_a_row = 0
        mean += 0.05 * (value - mean)
        if step % args.checkpoint_every == 0:
            guard.checkpoint()
        if step % 60 == 0:
            print(f"step {step} loss {mean:.4f} rollbacks {guard.rollbacks}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--checkpoint-every", type=int, default=3)
    parser.add_argument("--poison-after", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(220)
    model = nn.Sequential(
        nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(),
        nn.Linear(40, 1),
    )
    with torch.no_grad():
        x, y = Landscape(12, 221, 10**9).batch(100)
        print(f"error before {F.mse_loss(model(x).squeeze(1), y).item():.4f}")
    train(model, Landscape(12, 220, args.poison_after), args)
    print("done")


if __name__ == "__main__":
    main()
