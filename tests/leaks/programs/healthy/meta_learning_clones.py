"""A clone per task, an inner loop, and the clone is gone."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _task in range(25):
    clone = copy.deepcopy(model)
    inner = torch.optim.SGD(clone.parameters(), lr=0.05)
    shift = torch.randn(16)
    for _ in range(3):
        x = torch.randn(8, 16)
        loss = (clone(x) - x - shift).square().mean()
        inner.zero_grad()
        loss.backward()
        inner.step()
    optimizer.zero_grad()
    for parameter, adapted in zip(
        model.parameters(), clone.parameters(), strict=True
    ):
        parameter.grad = (parameter - adapted).detach()
    optimizer.step()
print(f"loss {loss.item():.4f}")

EXPECT = None
