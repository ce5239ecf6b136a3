"""A custom autograd Function that puts its contexts aside, and a context
keeps what was saved in it."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

debug_contexts = []


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.positive = x > 0
        if FIX:
            debug_contexts[:] = [ctx]
        else:
            debug_contexts.append(ctx)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.positive


torch.manual_seed(0)
model = nn.Linear(32, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(50):
    out = Clamp.apply(model(torch.randn(16, 32)))
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()
print(f"{len(debug_contexts)} contexts")

EXPECT = {
    "holder": "debug_contexts",
    "line": "ctx.positive = x > 0",
    "grown": "debug_contexts.append",
    "within": 15,
}
FIXED = None
