"""The norms that clip_grad_norm_ returns, kept as tensors: four bytes a
step, and honestly worth no more than a note."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

torch.manual_seed(0)
model = nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
grad_norms = []
for _step in range(60):
    optimizer.zero_grad()
    model(torch.randn(4, 32)).square().mean().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    grad_norms.append(norm.item() if FIX else norm)
    optimizer.step()
print(f"largest norm {max(n for n in grad_norms):.3f}")

EXPECT = {
    "holder": "grad_norms",
    "line": "norm = nn.utils.clip_grad_norm_",
    "grown": "grad_norms.append",
    "within": 15,
}
FIXED = None
