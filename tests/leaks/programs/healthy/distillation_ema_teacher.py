"""A teacher that follows the student; its logits live for one step."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 8))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters())
for _step in range(70):
    x = torch.randn(16, 20)
    target = teacher(x).softmax(-1)
    guess = F.log_softmax(student(x + 0.1 * torch.randn_like(x)), -1)
    loss = F.kl_div(guess, target, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(
            teacher.parameters(), student.parameters(), strict=True
        ):
            slow.lerp_(fast, 0.05)
print(f"loss {loss.item():.5f}")

EXPECT = None
