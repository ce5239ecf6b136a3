"""Distillation; the teacher's answers are cached under keys that contain
the epoch, so that no one is ever found again."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

FIX = "fixed" in sys.argv

torch.manual_seed(0)
data = torch.randn(10, 16, 20)
teacher, student = nn.Linear(20, 8), nn.Linear(20, 8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
cached = {}


def soft_labels(epoch, index):
    key = index if FIX else (epoch, index)
    if key not in cached:
        with torch.no_grad():
            cached[key] = teacher(data[index]).softmax(-1)
    return cached[key]


for epoch in range(8):
    for index in range(10):
        guess = F.log_softmax(student(data[index]), -1)
        target = soft_labels(epoch, index)
        loss = F.kl_div(guess, target, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{len(cached)} cached")

EXPECT = {
    "holder": "cached",
    "line": "cached[key] = teacher",
    "grown": "cached[key] =",
    "within": 25,
}
FIXED = {"at_most": "cache"}
