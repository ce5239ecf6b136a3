"""A small view keeps the whole array that it was taken from."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=60):
    model = nn.Linear(32, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    firsts = []
    for _ in range(steps):
        batch = rng.standard_normal((256, 32), dtype=np.float32)
        optimizer.zero_grad()
        model(torch.from_numpy(batch)).square().mean().backward()
        optimizer.step()
        firsts.append(batch[0].copy() if FIX else batch[0])
    print(f"{len(firsts)} rows")


main()

EXPECT = {
    "holder": "firsts",
    "line": "batch = rng.standard_normal(",
    "grown": "firsts.append",
    "within": 15,
}
FIXED = None
