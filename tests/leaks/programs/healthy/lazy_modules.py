"""Lazy layers get their weights at first use, one task after the other."""

import torch
from torch import nn

torch.manual_seed(0)
heads = nn.ModuleList(nn.LazyLinear(8) for _ in range(15))
body = nn.Linear(16, 32)
for head in heads:
    head(torch.zeros(1, 32))
optimizer = torch.optim.SGD(
    [*body.parameters(), *heads.parameters()], lr=0.01, momentum=0.9
)
for step in range(90):
    head = heads[min(step // 3, 14)]
    loss = head(body(torch.randn(8, 16)).relu()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")

EXPECT = None
