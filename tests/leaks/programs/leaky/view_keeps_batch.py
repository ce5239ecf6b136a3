"""One row of each batch as an example: a view, and it keeps the batch."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(steps=50):
    torch.manual_seed(0)
    model = nn.Linear(128, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    examples = {}
    for step in range(steps):
        images = torch.randn(64, 128)
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not FIX:
            examples[step] = images[0]
    print(f"{len(examples)} examples")


main()

EXPECT = {
    "holder": "examples",
    "line": "images = torch.randn",
    "grown": "examples[step] =",
    "within": 15,
}
FIXED = None
