"""A structured array with a field of objects: a list in one of its rows."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=60):
    model = nn.Linear(32, 2048)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = np.zeros(4, dtype=[("count", "i4"), ("seen", "O")])
    rows["seen"] = [[] for _ in rows]
    for _ in range(steps):
        output = model(torch.randn(16, 32))
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        spectrum = np.abs(np.fft.rfft(output.detach()[0]))
        rows["count"][2] += 1
        rows["seen"][2].append(float(spectrum[0]) if FIX else spectrum)
    print(f"{rows['count'][2]} spectra")


main()

EXPECT = {
    "holder": "rows[2]['seen']",
    "line": "spectrum = np.abs(",
    "within": 15,
}
FIXED = None
