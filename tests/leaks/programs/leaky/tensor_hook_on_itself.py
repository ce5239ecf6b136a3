"""A tensor hook that closes over its own tensor: a cycle through C++ that
the collector cannot see."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

torch.manual_seed(0)
model = nn.Linear(64, 128)
head = nn.Linear(128, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)


def guard(hidden):
    if FIX:
        sign = hidden.detach().sign()
        hidden.register_hook(lambda grad: grad * sign)
    else:
        hidden.register_hook(lambda grad: grad * hidden.sign())


for _step in range(60):
    features = model(torch.randn(16, 64))
    guard(features)
    loss = head(features).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")

EXPECT = {
    "verdict": ("native", "cycle"),
    "line": ("features = model(", "torch.randn(16, 64)"),
    "within": 25,
}
FIXED = None
