"""A list of NumPy arrays, one a step: no tensor is kept."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=60):
    model = nn.Linear(32, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(steps):
        batch = rng.standard_normal((16, 32), dtype=np.float32)
        optimizer.zero_grad()
        model(torch.from_numpy(batch)).square().mean().backward()
        optimizer.step()
        batches.append(float(batch.mean()) if FIX else batch)
    print(f"{len(batches)} batches")


main()

EXPECT = {
    "holder": "batches",
    "line": "batch = rng.standard_normal(",
    "grown": "batches.append",
    "within": 15,
}
FIXED = None
