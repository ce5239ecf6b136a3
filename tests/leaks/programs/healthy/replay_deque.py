"""A replay buffer bounded by its type fills, then slides."""

import random
from collections import deque

import torch
from torch import nn


def main(steps=150):
    random.seed(0)
    torch.manual_seed(0)
    network = nn.Linear(12, 4)
    optimizer = torch.optim.Adam(network.parameters())
    memory = deque(maxlen=60)
    state = torch.randn(12)
    for _ in range(steps):
        following = torch.randn(12)
        memory.append((state, random.random(), following))
        state = following
        chosen = random.sample(memory, min(8, len(memory)))
        states = torch.stack([entry[0] for entry in chosen])
        rewards = torch.tensor([entry[1] for entry in chosen])
        loss = (network(states).amax(1) - rewards).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()

EXPECT = {"at_most": "cache"}
