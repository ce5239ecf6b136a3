"""output.numpy() shares the tensor's memory, and the array keeps it."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=50):
    torch.manual_seed(0)
    model = nn.Linear(32, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    curves = []
    for _ in range(steps):
        output = model(torch.randn(16, 32))
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        array = output.detach().numpy()
        curves.append(array[0, 0].item() if FIX else array)
    print(f"{len(curves)} curves")


main()

EXPECT = {
    "holder": "curves",
    "line": "output = model(",
    "grown": "curves.append",
    "within": 15,
}
FIXED = None
