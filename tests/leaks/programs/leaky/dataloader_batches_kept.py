"""Batches from worker processes kept in a list: shared memory fills."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIX = "fixed" in sys.argv


class Waves(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, index):
        return torch.sin(torch.arange(256) * (index + 1) / 99.0), index % 4


def main():
    torch.manual_seed(0)
    loader = DataLoader(Waves(), batch_size=4, num_workers=1)
    model = nn.Linear(256, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(images.clone().mean() if FIX else images)
        if FIX:
            seen[-1] = seen[-1].item()
    print(f"{len(seen)} batches, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()

EXPECT = {
    "holder": "seen",
    "line": "for images, labels in loader",
    "grown": "seen.append",
    "within": 15,
}
FIXED = None
