"""Graphs of random size: live bytes jump, and nothing grows."""

import random

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
model = nn.Linear(16, 16)
optimizer = torch.optim.Adam(model.parameters())
last = None
for _step in range(150):
    nodes = int(random.lognormvariate(4, 1)) + 2
    features = torch.randn(nodes, 16)
    adjacency = (torch.rand(nodes, nodes) < 0.1).float()
    last = model(adjacency @ features)
    optimizer.zero_grad()
    last.square().mean().backward()
    optimizer.step()
print(tuple(last.shape))

EXPECT = None
