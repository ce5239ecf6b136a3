"""The same, and the program ends before the buffer is full."""

import random
from collections import deque

import torch
from torch import nn


def main(steps=80):
    random.seed(0)
    torch.manual_seed(0)
    network = nn.Linear(12, 4)
    optimizer = torch.optim.Adam(network.parameters())
    memory = deque(maxlen=1000)
    for _ in range(steps):
        state = torch.randn(12)
        memory.append(state)
        states = torch.stack(random.sample(memory, min(8, len(memory))))
        loss = network(states).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{len(memory)} of {memory.maxlen}")


main()

EXPECT = {"at_most": "cache"}
