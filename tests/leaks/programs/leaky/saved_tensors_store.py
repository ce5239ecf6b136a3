"""Saved-tensor hooks that put activations into a dict, and never take them
out."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Offload:
    def __init__(self):
        self.store = {}
        self.count = 0

    def pack(self, tensor):
        self.count += 1
        self.store[self.count] = tensor.detach().clone()
        return self.count

    def unpack(self, key):
        return self.store.pop(key) if FIX else self.store[key]


def main(steps=40):
    torch.manual_seed(0)
    offload = Offload()
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        x = torch.randn(8, 16)
        with torch.autograd.graph.saved_tensors_hooks(
            offload.pack, offload.unpack
        ):
            loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{len(offload.store)} stored")


main()

EXPECT = {
    "holder": "offload.store",
    "line": "tensor.detach().clone()",
    "grown": "self.store[self.count] =",
    "within": 15,
}
FIXED = None
