"""A mask for each length that was ever seen: as many as there are lengths."""

import random

import torch
from torch import nn

masks = {}


def causal_mask(length):
    if length not in masks:
        masks[length] = torch.ones(length, length).tril()
    return masks[length]


random.seed(0)
torch.manual_seed(0)
model = nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(160):
    length = random.randint(5, 28)
    x = model(torch.randn(length, 16))
    scores = (x @ x.T) * causal_mask(length)
    loss = scores.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{len(masks)} masks")

EXPECT = {"at_most": "cache"}
