"""A replay memory of dicts with arrays: a dict that nothing tracks."""

import sys

import numpy as np
import torch
from torch import nn

FIX = "fixed" in sys.argv


class Memory:
    def __init__(self):
        self.items = []

    def add(self, obs, reward):
        self.items.append({"obs": obs.copy(), "reward": reward})
        if FIX and len(self.items) > 16:
            self.items.pop(0)


def main(steps=120):
    policy = nn.Linear(400, 4)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    memory = Memory()
    for _ in range(steps):
        obs = rng.random(400)
        memory.add(obs, float(obs.sum()))
        loss = policy(torch.from_numpy(obs).float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{len(memory.items)} items")


main()

EXPECT = {
    "holder": "items",
    "line": '"obs": obs.copy()',
    "grown": "self.items.append",
    "within": 15,
}
FIXED = {"at_most": ("cache", "accumulation")}
