"""param.register_hook() in the training loop, to mask its gradient."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        x = torch.randn(16, 48)
        mask = (torch.rand_like(model.weight) > 0.5).float()
        handle = model.weight.register_hook(lambda grad, m=mask: grad * m)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if FIX:
            handle.remove()
    return loss.item()


torch.manual_seed(0)
net = nn.Linear(48, 48)
print(f"loss {train(net, 50):.4f}")

EXPECT = {
    "holder": "_backward_hooks",
    "line": "mask =",
    "grown": "register_hook",
    "within": 15,
}
FIXED = None
