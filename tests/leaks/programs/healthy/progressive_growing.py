"""A network that gets a block more each 25 steps until it has five."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    blocks = nn.ModuleList([nn.Linear(24, 24)])
    optimizer = torch.optim.Adam(blocks.parameters())
    for step in range(150):
        if step % 25 == 24 and len(blocks) < 5:
            block = nn.Linear(24, 24)
            blocks.append(block)
            optimizer.add_param_group({"params": block.parameters()})
        x = torch.randn(8, 24)
        for block in blocks:
            x = block(x).relu()
        loss = (x - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()

EXPECT = None
