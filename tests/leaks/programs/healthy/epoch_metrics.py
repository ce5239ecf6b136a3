"""A metric keeps tensors during an epoch and starts anew with the next."""

import torch
from torch import nn


class Metric:
    def __init__(self):
        self.scores = []

    def update(self, score):
        self.scores.append(score)

    def compute(self):
        return torch.stack(self.scores).mean().item()

    def reset(self):
        self.scores = []


def main(epochs=5, batches=25):
    torch.manual_seed(0)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    metric = Metric()
    for epoch in range(epochs):
        metric.reset()
        for _ in range(batches):
            output = model(torch.randn(8, 16))
            loss = output.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metric.update(loss.detach())
        print(f"epoch {epoch}: {metric.compute():.4f}")


main()

EXPECT = {"at_most": "accumulation"}
