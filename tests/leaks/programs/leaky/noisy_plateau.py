"""A slow leak of 1 KiB a step under buffers of megabytes that come and go."""

import random
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

random.seed(0)
torch.manual_seed(0)
model = nn.Linear(64, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pool, audit = [], []
for _step in range(120):
    pool.append(torch.randn(random.randint(100, 4000), 64))
    while len(pool) > random.randint(2, 8):
        pool.pop(random.randrange(len(pool)))
    batch = random.choice(pool)[:16]
    output = model(batch)
    optimizer.zero_grad()
    output.square().mean().backward()
    optimizer.step()
    row = output.detach()[:8].clone()
    if not FIX:
        audit.append(row)
print(f"{len(pool)} in the pool, {len(audit)} rows")

EXPECT = {
    "holder": "audit",
    "line": "row = output.detach()",
    "grown": "audit.append(row)",
    "within": 20,
}
FIXED = {"at_most": ("cache", "accumulation")}
