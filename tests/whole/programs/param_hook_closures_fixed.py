"""Gradient surgery: the shared layer's gradient is scaled by its activity."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def scale_by_activity(weight, activity):
    """Rows of units that are busy learn more slowly."""

    def rescale(grad):
        busy = activity.mean(0)
        return grad / (1 + busy)[:, None]

    return weight.register_hook(rescale)


class TwoTaskNet(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.shared = nn.Linear(dim, width)
        self.sign = nn.Linear(width, 2)
        self.rank = nn.Linear(width, 1)

    def features(self, x):
        return torch.relu(self.shared(x))

    def forward(self, x):
        h = self.features(x)
        return self.sign(h), self.rank(h).squeeze(1)


class Task:
    def __init__(self, dim, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.a = torch.randn(dim, generator=self.g)
        self.b = torch.randn(dim, generator=self.g)

    def batch(self, n):
        x = torch.randn(n, len(self.a), generator=self.g)
        return x, (x @ self.a > 0).long(), torch.tanh(x @ self.b)


def train_step(net, opt, batch, regularised):
    x, label, value = batch
    handle = None
    if regularised:
        with torch.no_grad():
            activity = net.features(x)
        handle = scale_by_activity(net.shared.weight, activity)
    sign, rank = net(x)
    loss = F.cross_entropy(sign, label) + F.mse_loss(rank, value)
    opt.zero_grad()
    loss.backward()
    if handle is not None:
        handle.remove()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    return loss.item()


@torch.no_grad()
def evaluate(net, task):
    net.eval()
    x, label, value = task.batch(400)
    sign, rank = net(x)
    net.train()
    accuracy = (sign.argmax(1) == label).float().mean().item()
    return accuracy > 0.5, F.mse_loss(rank, value).item() < 10


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--regularise-every", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(280)
    task = Task(12, seed=280)
    net = TwoTaskNet(12, 40)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for step in range(1, args.steps + 1):
        train_step(net, opt, task.batch(args.batch), step % args.regularise_every == 0)
        if step % 60 == 0:
            print(f"step {step}", *evaluate(net, task))
    print("done")


if __name__ == "__main__":
    main()
