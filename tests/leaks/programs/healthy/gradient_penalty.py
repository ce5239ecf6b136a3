"""WGAN-GP: create_graph=True through autograd.grad, as one should."""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(critic.parameters())
for _step in range(70):
    mixed = torch.randn(8, 16, requires_grad=True)
    score = critic(mixed)
    (slope,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    loss = score.mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")

EXPECT = None
