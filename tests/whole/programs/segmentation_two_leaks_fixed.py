"""Segmentation of blobs, with a Dice tracker and a bottleneck probe."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("segment")


class Blobs(Dataset):
    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed
        axis = torch.arange(size, dtype=torch.float32)
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_000 + i)
        cy, cx = torch.rand(2, generator=g) * self.size
        radius = 2 + 3 * torch.rand((), generator=g)
        mask = ((self.yy - cy) ** 2 + (self.xx - cx) ** 2 < radius**2).float()
        image = mask + 0.5 * torch.randn(mask.shape, generator=g)
        return image[None], mask[None]


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU())


class TinyUNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.down = block(1, width)
        self.bottleneck = block(width, 2 * width)
        self.up = block(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.bottleneck(F.max_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2)
        return self.head(self.up(torch.cat([a, b], dim=1)))


def dice(logits, mask, eps=1.0):
    p = logits.sigmoid().flatten(1)
    m = mask.flatten(1)
    return (2 * (p * m).sum(1) + eps) / (p.sum(1) + m.sum(1) + eps)


class DiceTracker:
    def __init__(self, window):
        self.window = window
        self.values = []

    def update(self, value):
        self.values = [*self.values[1 - self.window :], value.detach()]

    def mean(self):
        recent = torch.cat([v.detach() for v in self.values[-self.window :]])
        return recent.mean().item()


def probe_bottleneck(model, sink):
    def hook(module, args, output):
        if module.training:
            sink[:] = [output.detach().amax(dim=(2, 3))]

    return model.bottleneck.register_forward_hook(hook)


def run_epoch(model, loader, tracker, opt=None):
    for image, mask in loader:
        logits = model(image)
        score = dice(logits, mask)
        loss = F.binary_cross_entropy_with_logits(logits, mask)
        loss = loss + (1 - score).mean()
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        tracker.update(score)
    return tracker.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(240)
    train = DataLoader(Blobs(320, 16, 1), args.batch_size, shuffle=True)
    val = DataLoader(Blobs(80, 16, 2), 20)
    model = TinyUNet()
    peaks = []
    handle = probe_bottleneck(model, peaks)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    tracker = DiceTracker(window=len(train))
    for epoch in range(1, args.epochs + 1):
        model.train()
        score = run_epoch(model, train, tracker, opt)
        model.eval()
        with torch.no_grad():
            val_score = run_epoch(model, val, DiceTracker(len(val)))
        log.info("silent channels %s", (peaks[-1] <= 0).sum().item())
        print(f"epoch {epoch} dice {score:.4f} validation {val_score:.4f}")
    handle.remove()


if __name__ == "__main__":
    main()
