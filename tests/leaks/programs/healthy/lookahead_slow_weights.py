"""Lookahead: slow weights every fifth step, replaced each time."""

import torch
from torch import nn


class Lookahead:
    def __init__(self, optimizer, every=5):
        self.optimizer, self.every, self.count = optimizer, every, 0
        self.slow = [
            [p.detach().clone() for p in group["params"]]
            for group in optimizer.param_groups
        ]

    def step(self):
        self.optimizer.step()
        self.count += 1
        if self.count % self.every:
            return
        for group, slow in zip(
            self.optimizer.param_groups, self.slow, strict=True
        ):
            for i, p in enumerate(group["params"]):
                slow[i] = slow[i] + 0.5 * (p.detach() - slow[i])
                p.data.copy_(slow[i])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 2))
lookahead = Lookahead(torch.optim.Adam(model.parameters()))
for _step in range(90):
    loss = model(torch.randn(8, 12)).square().mean()
    model.zero_grad()
    loss.backward()
    lookahead.step()
print(f"loss {loss.item():.4f}")

EXPECT = None
