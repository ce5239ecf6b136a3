"""Gradients by step and name in nested dicts."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Inspector:
    def __init__(self, model):
        self.model = model
        self.by_step = {}

    def snapshot(self, step):
        grads = {
            name: parameter.grad.clone()
            for name, parameter in self.model.named_parameters()
        }
        if FIX:
            self.by_step.clear()
        self.by_step[step] = grads


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inspector = Inspector(model)
for step in range(50):
    loss = model(torch.randn(8, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    inspector.snapshot(step)
    optimizer.step()
print(f"{len(inspector.by_step)} snapshots")

EXPECT = {
    "holder": "inspector.by_step",
    "line": "parameter.grad.clone()",
    "grown": "self.by_step[step] =",
    "within": 15,
}
FIXED = None
