"""Every tenth step the weights are put aside 'for a plot'."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def train(steps):
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    snapshots = []
    for step in range(steps):
        x = torch.randn(8, 64)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            weights = model.weight.detach().clone()
            snapshots.append(weights.norm().item() if FIX else weights)
    return snapshots


print(f"{len(train(200))} snapshots")

EXPECT = {
    "holder": "snapshots",
    "line": "model.weight.detach().clone()",
    "grown": "snapshots.append",
    "within": 120,
}
FIXED = None
