"""Regression that stops the process when the plateau is reached (exit 5)."""

import argparse
import atexit
import sys
from collections import deque

import torch
from torch import nn

EXIT_CONVERGED = 5


class FriedmanData:
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.rand(n, 5, generator=g)
        a, b, c, d, e = self.x.unbind(1)
        y = 10 * torch.sin(3.14 * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
        self.y = (y - y.mean()) / y.std()
        self.g = g

    def batches(self, size):
        for idx in torch.randperm(len(self.x), generator=self.g).split(size):
            yield self.x[idx], self.y[idx]


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, width)
        self.fc2 = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(x)))


class PlateauMonitor:
    """Stops when the mean over a window no longer falls."""

    def __init__(self, window, patience, tolerance):
        self.window, self.patience = window, patience
        self.tolerance = tolerance
        self.recent = deque()
        self.best, self.bad, self.seen = float("inf"), 0, 0

    def mean(self):
        tail = list(self.recent)[-self.window :]
        return sum(error.item() for error in tail) / len(tail)

    def update(self, error):
        self.recent.append(error)
        self.seen += 1
        if self.seen % self.window:
            return False
        mean = self.mean()
        if mean > self.best * (1 - self.tolerance):
            self.bad += 1
        else:
            self.bad = 0
        self.best = min(self.best, mean)
        return self.bad >= self.patience


def goodbye(state):
    print(f"stopped after {state['steps']} steps, best {state['best']:.4f}")


def train(args, state):
    data = FriedmanData(args.n, args.seed)
    model = nn.Sequential(
        nn.Linear(5, args.width),
        *(ResidualBlock(args.width) for _ in range(args.depth)),
        nn.Linear(args.width, 1),
    )
    opt = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, nesterov=True
    )
    monitor = PlateauMonitor(args.window, args.patience, 0.04)
    for epoch in range(args.epochs):
        for x, y in data.batches(args.batch):
            error = (model(x).squeeze(1) - y).abs().mean()
            opt.zero_grad()
            error.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            state["steps"] += 1
            if monitor.update(error):
                state["best"] = monitor.best
                print(f"plateau in epoch {epoch}")
                sys.exit(EXIT_CONVERGED)
        state["best"] = monitor.best
        if epoch % 5 == 0:
            print(f"epoch {epoch} best {monitor.best:.4f}")
    print("never converged")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=320)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--window", type=int, default=12)
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    state = {"steps": 0, "best": float("inf")}
    atexit.register(goodbye, state)
    train(args, state)


if __name__ == "__main__":
    main()
