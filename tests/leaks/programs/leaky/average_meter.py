"""An average meter that keeps every value, and with it every graph."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

FIX = "fixed" in sys.argv


class AverageMeter:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value)

    @property
    def average(self):
        return sum(self.values) / len(self.values)


def main(steps=60):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    meter = AverageMeter()
    for _ in range(steps):
        inputs, labels = torch.randn(16, 32), torch.randint(10, (16,))
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss.item() if FIX else loss)
    print(f"average loss {meter.average:.3f}")


if __name__ == "__main__":
    main()

EXPECT = {
    "holder": "meter.values",
    "line": "F.cross_entropy",
    "grown": "self.values.append(value)",
    "within": 15,
}
FIXED = None
