"""One dict of tensors per step in a history list; detached, but tensors."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Run:
    def __init__(self):
        self.history = []

    def log(self, **metrics):
        if FIX:
            metrics = {name: value.item() for name, value in metrics.items()}
        self.history.append(metrics)


def main():
    torch.manual_seed(0)
    run = Run()
    model = nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(60):
        x, y = torch.randn(32, 20), torch.randint(4, (32,))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (logits.argmax(1) == y).float()
        run.log(loss=loss.detach(), accuracy=hits.mean())
    print(f"{len(run.history)} steps logged")


main()

EXPECT = {
    "holder": "run.history",
    "line": ("cross_entropy", "hits.mean()", "hits ="),
    "grown": "self.history.append(metrics)",
    "within": 15,
}
FIXED = None
