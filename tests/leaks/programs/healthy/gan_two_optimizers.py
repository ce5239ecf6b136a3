"""A GAN: two optimizer steps an iteration, nothing kept."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
critic = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(critic.parameters())
for step in range(60):
    real = torch.randn(16, 16) + 2
    fake = generator(torch.randn(16, 8))
    d_loss = bce(critic(real), torch.ones(16, 1))
    d_loss = d_loss + bce(critic(fake.detach()), torch.zeros(16, 1))
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    if step % 2:
        g_loss = bce(critic(fake), torch.ones(16, 1))
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
print(f"{d_loss.item():.3f} {g_loss.item():.3f}")

EXPECT = None
