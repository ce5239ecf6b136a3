"""A dict of losses per task, each with its own list of tensors."""

import sys
from collections import defaultdict

import torch
from torch import nn

FIX = "fixed" in sys.argv


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 32)
        self.heads = nn.ModuleDict(
            {task: nn.Linear(32, 4) for task in ("depth", "normals", "edges")}
        )

    def forward(self, x):
        features = self.body(x).relu()
        return {task: head(features) for task, head in self.heads.items()}


def main(steps=50):
    torch.manual_seed(0)
    model = MultiTask()
    optimizer = torch.optim.Adam(model.parameters())
    losses = defaultdict(list)
    for _ in range(steps):
        outputs = model(torch.randn(8, 16))
        total = 0.0
        for task, output in outputs.items():
            task_loss = output.square().mean()
            total = total + task_loss
            losses[task].append(task_loss.item() if FIX else task_loss)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print({task: f"{kept[-1]:.3f}" for task, kept in losses.items()})


main()

EXPECT = {
    "holder": "losses",
    "line": "task_loss = output",
    "grown": "losses[task].append",
    "within": 15,
}
FIXED = None
