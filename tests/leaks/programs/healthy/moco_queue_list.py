"""A queue of negatives in a list, cut to its newest eight each step."""

import torch
from torch import nn
from torch.nn import functional as F


def main(steps=70):
    torch.manual_seed(0)
    encoder = nn.Linear(24, 16)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
    queue = []
    for _ in range(steps):
        key = F.normalize(encoder(torch.randn(8, 24)), dim=1)
        loss = (key.mean(0) ** 2).sum()
        if queue:
            loss = loss + (key @ torch.cat(queue).T).exp().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue = [*queue, key.detach()][-8:]
    print(f"loss {loss.item():.3f}")


main()

EXPECT = {"at_most": "cache"}
