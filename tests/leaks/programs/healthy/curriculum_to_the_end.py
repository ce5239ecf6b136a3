"""Sequences grow until the last step; the newest batch, and it alone, is
alive between the steps."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.GRU(8, 16, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(70):
        batch = torch.randn(4, 4 + step, 8)
        output, _ = model(batch)
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
    print(tuple(batch.shape))


main()

EXPECT = None
