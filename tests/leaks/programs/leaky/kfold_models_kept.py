"""Cross-validation that keeps every fold's trainer for the final table."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class FoldTrainer:
    def __init__(self, fold):
        torch.manual_seed(fold)
        self.model = nn.Linear(64, 64)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self, steps):
        for _ in range(steps):
            loss = self.model(torch.randn(8, 64)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.score = loss.item()


def main(folds=25):
    results = []
    for fold in range(folds):
        trainer = FoldTrainer(fold)
        trainer.fit(8)
        results.append(trainer.score if FIX else trainer)
    print(f"{len(results)} folds")


main()

EXPECT = {
    "holder": "results",
    "line": ("nn.Linear(64, 64)", "self.optimizer.step()", "backward()"),
    "grown": "results.append",
    "within": 150,
}
FIXED = None
