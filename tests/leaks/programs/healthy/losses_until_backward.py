"""Losses of eight micro-batches are kept for one backward."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _step in range(240):
    x = torch.randn(4, 32)
    losses.append(model(x).square().mean())
    if len(losses) == 8:
        torch.stack(losses).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.clear()
print(f"{len(losses)} left over")

EXPECT = None
