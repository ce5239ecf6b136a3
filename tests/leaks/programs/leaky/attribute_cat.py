"""self.seen = torch.cat([self.seen, new]): one tensor, longer each step."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class FeatureBank:
    def __init__(self, width):
        self.features = torch.empty(0, width)

    def add(self, new):
        self.features = torch.cat([self.features, new.detach()])
        if FIX:
            self.features = self.features[-64:].clone()


torch.manual_seed(0)
model = nn.Linear(24, 24)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
bank = FeatureBank(24)
for _step in range(80):
    out = model(torch.randn(16, 24))
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
    bank.add(out)
print(tuple(bank.features.shape))

EXPECT = {
    "holder": "bank.features",
    "line": "torch.cat([self.features",
    "within": 20,
}
FIXED = None
