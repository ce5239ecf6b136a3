"""MoCo: the queue of negatives is a buffer of fixed size."""

import torch
from torch import nn
from torch.nn import functional as F


class MoCo(nn.Module):
    def __init__(self, width=16, size=64):
        super().__init__()
        self.query = nn.Linear(24, width)
        self.key = nn.Linear(24, width)
        self.register_buffer("queue", F.normalize(torch.randn(size, width)))
        self.at = 0

    def forward(self, x):
        query = F.normalize(self.query(x), dim=1)
        with torch.no_grad():
            for slow, fast in zip(
                self.key.parameters(), self.query.parameters(), strict=True
            ):
                slow.mul_(0.99).add_(fast, alpha=0.01)
            key = F.normalize(self.key(x), dim=1)
        positive = (query * key).sum(1, keepdim=True)
        negative = query @ self.queue.clone().T
        self.queue[self.at : self.at + len(key)] = key
        self.at = (self.at + len(key)) % len(self.queue)
        return torch.cat([positive, negative], dim=1) / 0.1


torch.manual_seed(0)
model = MoCo()
optimizer = torch.optim.SGD(model.query.parameters(), lr=0.05)
for _step in range(60):
    logits = model(torch.randn(8, 24))
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")

EXPECT = None
