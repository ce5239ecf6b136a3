"""Contrastive learning whose negatives are a list without a bound."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

FIX = "fixed" in sys.argv


def main(steps=60):
    torch.manual_seed(0)
    encoder, momentum = nn.Linear(24, 16), nn.Linear(24, 16)
    momentum.load_state_dict(encoder.state_dict())
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
    negatives = [F.normalize(torch.randn(8, 16), dim=1)]
    for _ in range(steps):
        x = torch.randn(8, 24)
        query = F.normalize(encoder(x), dim=1)
        with torch.no_grad():
            key = F.normalize(momentum(x + 0.1 * torch.randn(8, 24)), dim=1)
        positive = (query * key).sum(1, keepdim=True)
        negative = query @ torch.cat(negatives).T
        logits = torch.cat([positive, negative], dim=1) / 0.1
        loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(
                momentum.parameters(), encoder.parameters(), strict=True
            ):
                slow.lerp_(fast, 0.01)
        negatives.append(key)
        if FIX and len(negatives) > 6:
            negatives.pop(0)
    print(f"loss {loss.item():.3f}")


main()

EXPECT = {
    "holder": "negatives",
    "line": "key = F.normalize",
    "grown": "negatives.append(key)",
    "within": 15,
}
FIXED = {"at_most": "cache"}
