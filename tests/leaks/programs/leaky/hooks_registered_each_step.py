"""A forward hook registered again at each step; each one closes over the
batch it was made for."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def watch_overlap(batch):
    def hook(module, inputs, output):
        module.overlap = (output * batch).mean().item()

    return model[2].register_forward_hook(hook)


for _step in range(50):
    images = torch.randn(32, 64)
    handle = watch_overlap(images)
    loss = (model(images) - images).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if FIX:
        handle.remove()
print(f"loss {loss.item():.3f}")

EXPECT = {
    "holder": "_forward_hooks",
    "line": "images = torch.randn",
    "grown": "register_forward_hook",
    "within": 15,
}
FIXED = None
