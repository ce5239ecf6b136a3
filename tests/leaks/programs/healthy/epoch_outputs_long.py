"""Outputs of a long first epoch are kept for its end: one reset in all."""

import torch
from torch import nn


def epoch(model, optimizer, batches):
    outputs = []
    for _ in range(batches):
        output = model(torch.randn(8, 16))
        optimizer.zero_grad()
        output.square().mean().backward()
        optimizer.step()
        outputs.append(output.detach())
    return torch.cat(outputs).std().item()


torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for number in range(2):
    print(f"epoch {number}: spread {epoch(model, optimizer, 70):.4f}")

EXPECT = {"at_most": "accumulation"}
