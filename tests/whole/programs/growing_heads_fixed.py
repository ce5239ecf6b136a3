"""Continual learning: a new task brings a fresh head on the same trunk."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class TaskSequence:
    """A sequence of tasks; each deals the class centers anew."""

    def __init__(self, dim, classes, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.dim, self.classes = dim, classes
        self.deal()

    def deal(self):
        self.centers = 2 * torch.randn(
            self.classes, self.dim, generator=self.g
        )

    def batch(self, n):
        y = torch.randint(self.classes, (n,), generator=self.g)
        noise = torch.randn(n, self.dim, generator=self.g)
        return self.centers[y] + noise, y


class Learner(nn.Module):
    def __init__(self, dim, width, classes):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.trunk(x))

    def fresh_head(self):
        self.head = nn.Linear(self.head.in_features, self.head.out_features)
        return self.head


class ContinualTrainer:
    def __init__(self, model, lr):
        self.model, self.lr = model, lr
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.refreshes = 0

    def refresh(self):
        self.refreshes += 1
        old = {id(p) for p in self.model.head.parameters()}
        head = self.model.fresh_head()
        for group in self.opt.param_groups:
            group["params"] = [p for p in group["params"] if id(p) not in old]
        for p in [p for p in self.opt.state if id(p) in old]:
            del self.opt.state[p]
        self.opt.param_groups[1:] = []
        self.opt.add_param_group(
            {"params": list(head.parameters()), "lr": 3 * self.lr}
        )

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def accuracy(model, data, n=300):
    with torch.no_grad():
        x, y = data.batch(n)
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--task-every", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    torch.manual_seed(101)
    data = TaskSequence(16, 5, seed=101)
    trainer = ContinualTrainer(Learner(16, 64, 5), args.lr)
    for step in range(1, args.steps + 1):
        if step % args.task_every == 0:
            data.deal()
            trainer.refresh()
        loss = trainer.step(*data.batch(32))
        if step % 75 == 0:
            acc = accuracy(trainer.model, data)
            print(f"step {step} loss {loss:.4f} accuracy {acc:.3f}")
    print("heads were refreshed", trainer.refreshes, "times")


if __name__ == "__main__":
    main()
