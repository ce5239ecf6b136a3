"""A replay buffer in a plain list: appended to until full, overwritten
from then on."""

import random

import torch
from torch import nn


class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity, self.entries, self.position = capacity, [], 0

    def push(self, entry):
        if len(self.entries) < self.capacity:
            self.entries.append(entry)
        else:
            self.entries[self.position] = entry
        self.position = (self.position + 1) % self.capacity

    def sample(self, count):
        return random.sample(self.entries, min(count, len(self.entries)))


def main(steps=140):
    random.seed(0)
    torch.manual_seed(0)
    network = nn.Linear(10, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    replay = ReplayBuffer(40)
    for _ in range(steps):
        replay.push(torch.randn(10))
        loss = network(torch.stack(replay.sample(8))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()

EXPECT = {"at_most": "cache"}
