"""Generators that were started and never finished keep their frames."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

torch.manual_seed(0)
model = nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def micro_batches(size):
    batch = torch.randn(size, 32)
    for start in range(0, size, 8):
        yield batch[start : start + 8]


streams = []
for _step in range(50):
    stream = micro_batches(64)
    loss = model(next(stream)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if not FIX:
        streams.append(stream)  # "to be continued"
print(f"{len(streams)} streams")

EXPECT = {
    "holder": "streams",
    "line": "batch = torch.randn(size, 32)",
    "grown": "streams.append",
    "within": 15,
}
FIXED = None
