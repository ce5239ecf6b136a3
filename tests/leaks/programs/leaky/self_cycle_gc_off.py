"""Objects that refer to themselves, with the collector switched off."""

import gc
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Batch:
    def __init__(self, data):
        self.data = data
        self.normalised = None if FIX else self
        if not FIX:
            self.scale = self.compute_scale  # a bound method: a cycle

    def compute_scale(self):
        return self.data.abs().max()


gc.disable()  # "it makes training faster"
torch.manual_seed(0)
model = nn.Linear(128, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(60):
    batch = Batch(torch.randn(64, 128))
    optimizer.zero_grad()
    model(batch.data).square().mean().backward()
    optimizer.step()
print("done")

EXPECT = {
    "verdict": "cycle",
    "holder": "Batch",
    "line": "batch = Batch(torch.randn",
    "within": 20,
}
FIXED = None
