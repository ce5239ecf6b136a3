"""Each record refers to the one before: a chain that only gets longer."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Record:
    __slots__ = ("loss", "previous")

    def __init__(self, loss, previous):
        self.loss = loss
        self.previous = previous


torch.manual_seed(0)
model = nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
latest = None
for _step in range(60):
    outputs = model(torch.randn(32, 16))
    optimizer.zero_grad()
    outputs.square().mean().backward()
    optimizer.step()
    latest = Record(outputs.detach(), None if FIX else latest)
print(f"{latest.loss.mean().item():.4f}")

EXPECT = {
    "holder": "latest",
    "line": "outputs = model(",
    "within": 20,
}
FIXED = None
