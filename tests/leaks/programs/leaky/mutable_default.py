"""def smooth(value, seen=[]): the default is one list for all calls."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def smooth(value, seen=[]):  # noqa: B006
    seen.append(value)
    if FIX:
        del seen[:-10]
    return torch.stack(seen[-10:]).mean()


torch.manual_seed(0)
model = nn.Linear(10, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(60):
    loss = model(torch.randn(5, 10)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown = smooth(loss.detach()).item()
print(f"{shown:.4f}")

EXPECT = {
    "holder": "smooth",
    "line": "model(torch.randn(5, 10))",
    "grown": "seen.append(value)",
    "within": 15,
}
FIXED = {"at_most": "cache"}
