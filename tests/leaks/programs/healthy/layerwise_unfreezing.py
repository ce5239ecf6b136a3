"""One layer more is trained each ten steps: its gradients and Adam's state
come late, and that is all."""

import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(8))
for layer in layers[:-1]:
    layer.requires_grad_(False)
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3)
for step in range(120):
    if step % 10 == 0 and step // 10 < len(layers):
        layers[-1 - step // 10].requires_grad_(True)
    x = torch.randn(8, 32)
    for layer in layers:
        x = layer(x).tanh()
    optimizer.zero_grad()
    x.square().mean().backward()
    optimizer.step()
print(f"{x.mean().item():.4f}")

EXPECT = None
