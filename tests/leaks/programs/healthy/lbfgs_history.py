"""L-BFGS fills its history of directions, then slides."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    x = torch.randn(64, 8)
    y = x.sin().sum(1, keepdim=True)
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.1, max_iter=2, history_size=20
    )

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    for _ in range(70):
        loss = optimizer.step(closure)
    print(f"loss {loss.item():.4f}")


main()

EXPECT = {"at_most": "cache"}
