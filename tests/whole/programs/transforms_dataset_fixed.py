"""Image-like classification: transforms are modules inside the Dataset."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomHorizontalFlip(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return img.flip(-1) if torch.rand(()) < self.p else img


class RandomErasing(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, img):
        _, h, w = img.shape
        top = int(torch.randint(0, h - self.size + 1, ()))
        left = int(torch.randint(0, w - self.size + 1, ()))
        img = img.clone()
        img[:, top : top + self.size, left : left + self.size] = 0
        return img


class Standardize(nn.Module):
    """Per-image standardisation that also tracks the data's brightness."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.total, self.count = 0.0, 0

    def forward(self, img):
        mean, std = img.mean(), img.std()
        self.total += mean.item()
        self.count += 1
        return (img - mean) / (std + self.eps)

    @property
    def brightness(self):
        return self.total / self.count


class Stripes(Dataset):
    """Stripes of one of six directions, drawn on demand."""

    def __init__(self, n, transform, seed):
        self.n, self.transform, self.seed = n, transform, seed
        axis = torch.linspace(-1, 1, 12)
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = i % 6
        angle = math.pi * label / 6
        phase = torch.rand((), generator=g) * 6
        wave = self.xx * math.cos(angle) + self.yy * math.sin(angle)
        img = torch.sin(8 * wave + phase)[None]
        img = img + 0.3 * torch.randn(img.shape, generator=g)
        return self.transform(img), label


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 36, 6)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(x.flatten(1))


def train_epoch(model, loader, optimizer, scheduler):
    model.train()
    total, n = 0.0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(y)
        n += len(y)
    return total / n


@torch.inference_mode()
def accuracy(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(11)
    standardize = Standardize()
    augment = nn.Sequential(
        RandomHorizontalFlip(), standardize, RandomErasing(4)
    )
    train = DataLoader(
        Stripes(960, augment, seed=0), args.batch_size, shuffle=True
    )
    test = DataLoader(Stripes(240, Standardize(), seed=10_000), 60)
    model = SmallNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.1, total_steps=args.epochs * len(train)
    )
    for epoch in range(args.epochs):
        loss = train_epoch(model, train, optimizer, scheduler)
        acc = accuracy(model, test)
        print(f"epoch {epoch} loss {loss:.4f} test accuracy {acc:.3f}")
    print(f"brightness of the training data {standardize.brightness:+.4f}")


if __name__ == "__main__":
    main()
