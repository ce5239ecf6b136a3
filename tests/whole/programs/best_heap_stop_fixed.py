"""Keeps the best weights in a heap and stops early by an exception."""

import argparse
import heapq
import sys

import torch
import torch.nn.functional as F
from torch import nn


class StopTraining(Exception):
    """Nothing got better for long enough."""


class BestWeights:
    """The k best states so far, by validation loss."""

    def __init__(self, k):
        self.k = k
        self.heap = []

    def offer(self, loss, step, model):
        flat = nn.utils.parameters_to_vector(model.parameters()).detach()
        heapq.heappush(self.heap, (-loss, step, flat))
        if len(self.heap) > self.k:
            heapq.heappop(self.heap)

    def best(self):
        return max(self.heap)


class Patience:
    def __init__(self, most):
        self.most, self.best, self.bad = most, float("inf"), 0

    def __call__(self, loss, step):
        self.bad = 0 if loss < self.best - 1e-3 else self.bad + 1
        self.best = min(self.best, loss)
        if step >= 180 and self.bad > self.most:
            raise StopTraining(step)


def fit(model, optimizer, data, best, patience, steps):
    x, y, x_val, y_val = data
    for step in range(1, steps + 1):
        idx = torch.randint(len(x), (32,))
        loss = F.smooth_l1_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            val = F.smooth_l1_loss(model(x_val), y_val).item()
        best.offer(val, step, model)
        patience(val, step)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(77)
    x = torch.randn(300, 6)
    y = (x[:, :1] * x[:, 1:2]).tanh()
    data = x[:240], y[:240], x[240:], y[240:]
    model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 1))
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-4)
    best, patience = BestWeights(3), Patience(2)
    try:
        fit(model, optimizer, data, best, patience, args.steps)
    except StopTraining:
        print("stopped early")
        sys.exit(3)
    print("all steps done")
    sys.exit(3)


if __name__ == "__main__":
    main()
