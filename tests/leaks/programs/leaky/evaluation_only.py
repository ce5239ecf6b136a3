"""Training is clean; each evaluation adds predictions to a list that is
never cleared."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Evaluator:
    def __init__(self):
        self.predictions = []

    @torch.no_grad()
    def run(self, model, batches):
        if FIX:
            self.predictions = []
        for batch in batches:
            self.predictions.append(model(batch).argmax(1))
        return torch.cat(self.predictions).float().mean().item()


def main():
    torch.manual_seed(0)
    held_out = [torch.randn(32, 16) for _ in range(4)]
    model = nn.Linear(16, 8)
    optimizer = torch.optim.Adam(model.parameters())
    evaluator = Evaluator()
    for step in range(160):
        loss = model(torch.randn(16, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            mean = evaluator.run(model, held_out)
    print(f"mean class {mean:.3f}")


main()

EXPECT = {
    "holder": "evaluator.predictions",
    "line": "model(batch).argmax(1)",
    "grown": "self.predictions.append",
    "within": 100,
}
FIXED = None
