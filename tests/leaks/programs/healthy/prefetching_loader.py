"""A DataLoader with two worker processes that prefetch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, index):
        return torch.full((128,), index / 160.0), index % 3


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Noise(),
        batch_size=8,
        shuffle=True,
        num_workers=2,
        prefetch_factor=4,
        persistent_workers=True,
    )
    model = nn.Linear(128, 3)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

EXPECT = None
