"""The ten best of many: the list fills slowly and changes ever more seldom."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(24, 24)
optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
best = []
for step in range(200):
    loss = model(torch.randn(8, 24)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        best.append((loss.item(), model.weight.detach().clone()))
        best.sort(key=lambda pair: pair[0])
        del best[10:]
print(f"best loss {best[0][0]:.4f}")

EXPECT = {"at_most": "cache"}
