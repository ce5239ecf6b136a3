"""Experts that are first used one after the other: Adam makes the state of
each when its first gradient comes."""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, experts=24):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(experts))

    def forward(self, x, chosen):
        return self.experts[chosen](x)


def main():
    torch.manual_seed(0)
    model = Mixture()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(90):
        x = torch.randn(8, 32)
        loss = (model(x, step % 24) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()

EXPECT = None
