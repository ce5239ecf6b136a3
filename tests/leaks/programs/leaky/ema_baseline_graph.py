"""A moving average of outputs as a baseline, never detached."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

torch.manual_seed(0)
policy = nn.Linear(16, 4)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
baseline = torch.zeros(())
for _step in range(80):
    state = torch.randn(32, 16)
    reward = policy(state).mean()
    loss = (reward - baseline.detach() - 1.0).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    baseline = 0.9 * baseline + 0.1 * (reward.detach() if FIX else reward)
print(f"baseline {baseline.item():.3f}")

EXPECT = {
    "holder": "baseline",
    "line": ("baseline = 0.9", "policy(state)", "state ="),
    "grown": "baseline = 0.9",
    "within": 25,
}
FIXED = None
