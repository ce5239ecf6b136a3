"""t.numpy() in a tuple of plain values: the array's base is the tensor."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=60):
    model = nn.Linear(32, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for step in range(steps):
        output = model(torch.randn(16, 32))
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        array = output.detach().numpy()
        seen.append((step, float(array.max()) if FIX else array))
    print(f"{len(seen)} steps")


main()

EXPECT = {
    "holder": "seen",
    "line": "output = model(",
    "grown": "seen.append",
    "within": 15,
}
FIXED = None
