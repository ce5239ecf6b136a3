"""One array that every step makes longer."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


class Trainer:
    def __init__(self):
        self.model = nn.Linear(32, 256)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.losses = np.zeros(0)

    def step(self):
        losses = self.model(torch.randn(16, 32)).square().mean(0)
        self.optimizer.zero_grad()
        losses.mean().backward()
        self.optimizer.step()
        self.losses = np.concatenate([self.losses, losses.detach().numpy()])
        if FIX:
            self.losses = self.losses[-256:]


def main(steps=60):
    trainer = Trainer()
    for _ in range(steps):
        trainer.step()
    print(f"{len(trainer.losses)} losses")


main()

EXPECT = {
    "holder": "trainer.losses",
    "line": "self.losses = np.concatenate(",
    "within": 30,
}
FIXED = None
