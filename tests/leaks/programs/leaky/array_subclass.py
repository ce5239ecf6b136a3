"""An ndarray subclass whose instances have a log of what was done to them."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


class Signal(np.ndarray):
    def note(self, values):
        self.__dict__.setdefault("log", []).append(values)


def main(steps=60):
    model = nn.Linear(32, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    signal = np.zeros(256).view(Signal)
    for _ in range(steps):
        output = model(torch.randn(16, 32))
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        change = np.asarray(output.detach().mean(0)) - signal
        signal.note(float(change.max()) if FIX else change)
    print(f"{len(signal.log)} changes")


main()

EXPECT = {
    "holder": "signal.log",
    "line": "change = np.asarray(",
    "within": 15,
}
FIXED = None
