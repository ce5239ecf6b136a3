"""Training, then one long evaluation that gathers all predictions."""

import torch
from torch import nn


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = model(torch.randn(16, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, batches):
    predictions = []
    for _ in range(batches):
        predictions.append(model(torch.randn(32, 16)))
    return torch.cat(predictions).std().item()


torch.manual_seed(0)
model = nn.Linear(16, 8)
train(model, 40)
print(f"spread {evaluate(model, 150):.4f}")

EXPECT = {"at_most": "accumulation"}
