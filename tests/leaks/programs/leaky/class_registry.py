"""A class attribute that registers every instance ever made."""

import sys
import weakref

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Sample:
    instances = weakref.WeakSet() if FIX else []

    def __init__(self, image):
        self.image = image
        if FIX:
            Sample.instances.add(self)
        else:
            Sample.instances.append(self)


def main():
    torch.manual_seed(0)
    model = nn.Linear(256, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(50):
        sample = Sample(torch.rand(4, 256))
        loss = model(sample.image).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{len(Sample.instances)} samples")


main()

EXPECT = {
    "holder": "Sample.instances",
    "line": "Sample(torch.rand(4, 256))",
    "grown": "Sample.instances.append",
    "within": 15,
}
FIXED = None
