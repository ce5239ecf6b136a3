"""functools.partial objects with a tensor inside, kept as 'undo' actions."""

import functools
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def restore(model, weight):
    with torch.no_grad():
        model.weight.copy_(weight)


class Undo:
    def __init__(self):
        self.actions = []

    def remember(self, model):
        old = model.weight.detach().clone()
        self.actions.append(functools.partial(restore, model, old))
        if FIX:
            del self.actions[:-1]


def main(steps=50):
    torch.manual_seed(0)
    model = nn.Linear(48, 48)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    undo = Undo()
    for _ in range(steps):
        undo.remember(model)
        loss = model(torch.randn(4, 48)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    undo.actions[-1]()
    print(f"{len(undo.actions)} actions")


main()

EXPECT = {
    "holder": "undo.actions",
    "line": "model.weight.detach().clone()",
    "grown": "self.actions.append",
    "within": 15,
}
FIXED = None
