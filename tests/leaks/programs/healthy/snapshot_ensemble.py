"""Five snapshots in all, one at the end of each learning-rate cycle."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
ensemble = []
for step in range(160):
    loss = model(torch.randn(16, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19 and len(ensemble) < 5:
        ensemble.append(copy.deepcopy(model))
x = torch.randn(4, 16)
print(torch.stack([member(x) for member in ensemble]).mean().item())

EXPECT = {"at_most": "cache"}
