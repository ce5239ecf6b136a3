"""A scheduler collects lambdas, and each closes over its step's loss."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class RuleSchedule:
    """The learning rate is the base times all factors of all rules."""

    def __init__(self, optimizer, base):
        self.optimizer, self.base, self.rules = optimizer, base, []

    def add_rule(self, loss):
        level = loss.item() if FIX else loss
        self.rules.append(lambda step: 0.999 if level > 0.5 else 1.0)

    def step(self, count):
        rate = self.base
        for rule in self.rules[-5:]:
            rate *= rule(count)
        for group in self.optimizer.param_groups:
            group["lr"] = rate


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = RuleSchedule(optimizer, 0.1)
for step in range(60):
    x = torch.randn(16, 12)
    error = (model(x) - x.mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
    schedule.add_rule(error)
    schedule.step(step)
print(f"error {error.item():.4f}")

EXPECT = {
    "holder": "schedule.rules",
    "line": "square().mean()",
    "grown": "self.rules.append",
    "within": 15,
}
FIXED = None
