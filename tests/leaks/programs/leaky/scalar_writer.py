"""A TensorBoard-like writer that keeps events until close()."""

import sys
from dataclasses import dataclass

import torch
from torch import nn

FIX = "fixed" in sys.argv


@dataclass(slots=True)
class Event:
    tag: str
    value: object
    step: int


class Writer:
    def __init__(self):
        self._events = []

    def add_scalar(self, tag, value, step):
        if FIX:
            value = value.item()
        self._events.append(Event(tag, value, step))


def main():
    torch.manual_seed(0)
    writer = Writer()
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(60):
        x = torch.randn(8, 16)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("train/loss", loss, step)
    print(f"loss {loss.item():.3f}")


main()

EXPECT = {
    "holder": "writer._events",
    "line": "mse_loss",
    "grown": "self._events.append",
    "within": 15,
}
FIXED = None
