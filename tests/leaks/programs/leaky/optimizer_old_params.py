"""A new head for each task; the optimizer keeps the old ones' groups and
state although their gradients never come again."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(tasks=40):
    torch.manual_seed(0)
    body = nn.Linear(32, 64)
    optimizer = torch.optim.Adam(body.parameters(), lr=1e-3)
    for _task in range(tasks):
        head = nn.Linear(64, 10)
        optimizer.add_param_group({"params": list(head.parameters())})
        for _ in range(2):
            x, y = torch.randn(16, 32), torch.randint(10, (16,))
            loss = nn.functional.cross_entropy(head(body(x).relu()), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if FIX:
            old = optimizer.param_groups.pop()
            for parameter in old["params"]:
                del optimizer.state[parameter]
    print(f"loss {loss.item():.3f}")


main()

EXPECT = {
    "holder": "optimizer",
    "line": ("head = nn.Linear", "optimizer.step()"),
    "grown": ("add_param_group", "optimizer.step()"),
    "within": 30,
}
FIXED = None
