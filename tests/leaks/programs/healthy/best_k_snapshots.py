"""The three best states are kept, in a heap."""

import copy
import heapq

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
best = []
for step in range(100):
    loss = model(torch.randn(16, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    entry = (-loss.item(), step, copy.deepcopy(model.state_dict()))
    if len(best) < 3:
        heapq.heappush(best, entry)
    else:
        heapq.heappushpop(best, entry)
print(sorted(-score for score, _, _ in best))

EXPECT = {"at_most": "cache"}
