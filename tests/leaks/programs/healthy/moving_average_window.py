"""The last twenty losses, as tensors, in a list that is cut."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
window = []
for step in range(100):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    window.append(loss.detach())
    if len(window) > 20:
        window.pop(0)
    if step % 20 == 19:
        print(f"{torch.stack(window).mean().item():.4f}")

EXPECT = {"at_most": "cache"}
