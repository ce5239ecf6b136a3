"""total += loss: one number of four bytes, and a graph without an end."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total_loss = 0.0
for _step in range(80):
    x = torch.randn(8, 16)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss.item() if FIX else loss
print(f"mean loss {total_loss / 80:.3f}")

EXPECT = {
    "holder": "total_loss",
    "line": ("total_loss +=", "square().mean()"),
    "grown": "total_loss +=",
    "within": 20,
}
FIXED = None
