"""Stochastic weight averaging that starts in the middle of training."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = AveragedModel(model)
schedule = SWALR(optimizer, swa_lr=0.05)
for step in range(90):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step > 30:
        average.update_parameters(model)
        schedule.step()
print(f"loss {loss.item():.4f}")

EXPECT = None
