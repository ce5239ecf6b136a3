"""Lists in an object array, to which every step adds."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=60):
    model = nn.Linear(32, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    table = np.empty((2, 3), dtype=object)
    table[1, 2] = []
    for _ in range(steps):
        output = model(torch.randn(16, 32))
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        histogram = np.histogram(output.detach(), bins=200)[0]
        table[1, 2].append(int(histogram.max()) if FIX else histogram)
    print(f"{len(table[1, 2])} histograms")


main()

EXPECT = {
    "holder": "table.flat[5]",
    "line": "histogram = np.histogram(",
    "within": 15,
}
FIXED = None
